use adjutant_agent::{LeaseId, SessionId, TaskId, TaskNumber, TaskState, TaskView};
use sqlx::types::Json;

use crate::status::known;
use crate::{NotifyTarget, Result, Store};

/// What a cancel found or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancelled {
    /// The task's state now.
    pub state: TaskState,
    /// Whether this call cancelled it; a task that had ended stays as it was.
    pub changed: bool,
    pub partial_result: Option<String>,
    /// Leases that this call took away; their workers have yet to notice.
    pub leases: Vec<LeaseId>,
    /// What this call cancelled, of the task and all below it.
    pub ended: Vec<TaskId>,
}

/// A task that was to be cancelled, as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct CancelledTask {
    pub task: TaskView,
    /// Whether this call cancelled it; a task that had ended stays as it was.
    pub changed: bool,
    pub partial_result: Option<String>,
    /// What this call cancelled, of the task and all below it.
    pub ended: Vec<TaskId>,
}

impl Store {
    /// As [`Store::cancel`], for whoever knows the task by its number; one that was collected is
    /// not found.
    pub async fn cancel_by_number(
        &self,
        session: SessionId,
        number: TaskNumber,
    ) -> Result<CancelledTask> {
        let actor = self.audited()?;
        let row = self
            .call(async |connection| {
                // The statement's snapshot is older than the cancel.
                sqlx::query!(
                    r#"select c.cancelled as "cancelled!", c.partial_result, c.leases as "leases!", c.delivers as "delivers!",
                        c.ended as "ended!", c.task as "task!: Json<TaskView>",
                        case when cardinality(c.ended) > 0 then audit_1(
                            $3, s.tenant, 'task.cancel', c.task ->> 'id', audited_task_1((c.task ->> 'id')::uuid),
                            jsonb_build_object('state', c.task -> 'state', 'cancelled', cardinality(c.ended))
                        ) end as audited
                       from cancel_by_number_1($1, $2) c
                       left join session s on s.id = $1"#,
                    session.0,
                    number.0,
                    actor
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        self.worker_notifier.notify_lost(row.leases.into_iter().map(LeaseId).collect());
        self.event_notifier.notify([session]);
        if row.delivers {
            self.notify_workers(NotifyTarget::Delayed);
        }
        Ok(CancelledTask {
            task: row.task.0,
            changed: row.cancelled,
            partial_result: row.partial_result,
            ended: row.ended.into_iter().map(TaskId).collect(),
        })
    }

    /// Cancels the task and everything below it, running or not, in one transaction.
    pub async fn cancel(&self, task: TaskId) -> Result<Cancelled> {
        let actor = self.audited()?;
        let row = self
            .call(async |connection| {
                sqlx::query!(
            r#"select c.state as "state!", c.cancelled as "cancelled!", c.partial_result, c.leases as "leases!",
                c.delivers as "delivers!", c.ended as "ended!", t.session as "session?",
                case when cardinality(c.ended) > 0 then audit_1(
                    $2, s.tenant, 'task.cancel', t.id::text, audited_task_1(t.id),
                    jsonb_build_object('state', c.state, 'cancelled', cardinality(c.ended))
                ) end as audited
               from cancel_1($1) c
               left join task t on t.id = $1
               left join session s on s.id = t.session"#,
            task.0,
            actor
        )
        .fetch_one(connection).await
            })
            .await?;
        let leases: Vec<LeaseId> = row.leases.into_iter().map(LeaseId).collect();
        self.worker_notifier.notify_lost(leases.clone());
        self.event_notifier.notify(row.session.map(SessionId));
        if row.delivers {
            self.notify_workers(NotifyTarget::Delayed);
        }
        Ok(Cancelled {
            state: known(&row.state)?,
            changed: row.cancelled,
            partial_result: row.partial_result,
            leases,
            ended: row.ended.into_iter().map(TaskId).collect(),
        })
    }
}
