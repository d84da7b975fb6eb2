//! What a running task does with its children. It sees no other tasks.

use std::time::Duration;

use adjutant_agent::{ErrorCode, LeaseId, Outcome, Refusal, TaskNumber, TaskView, ToolResult};
use sqlx::types::Json;

use crate::{Lease, Result, tool_result};

impl Lease {
    /// The children, in the order in which they were spawned.
    pub async fn children(&self) -> Result<Vec<TaskView>> {
        let children = self
            .store
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select to_jsonb(s) as "child!: Json<TaskView>"
                       from task_status s
                       where parent = $1
                       order by number"#,
                    self.task.0
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        Ok(children.into_iter().map(|child| child.0).collect())
    }

    /// A child that has ended, with its outcome; it is not collected by that. A collected child is
    /// not found.
    pub async fn outcome_of_child(&self, number: TaskNumber) -> Result<(TaskView, Outcome)> {
        let row = self
            .store
            .call(async |connection| {
                sqlx::query!(
                    r#"select to_jsonb(s) as "child!: Json<TaskView>", t.result, t.summary, t.partial_result
                       from task_status s
                       join task t on t.id = s.id
                       where s.session = $1 and s.number = $2 and s.parent = $3"#,
                    self.session.0,
                    number.0,
                    self.task.0
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        let row = row.ok_or_else(|| Refusal::no_task(number, None))?;
        let child = row.child.0;
        if child.collected_at.is_some() {
            return Err(Refusal::no_task(number, child.collected_at).into());
        }
        let outcome =
            child.outcome(row.result, row.summary, row.partial_result).ok_or_else(|| {
                let sentence = format!("Task {number} has not ended yet; wait for it");
                Refusal::new(ErrorCode::TaskNotReady, sentence)
            })?;
        Ok((child, outcome))
    }

    /// Hands a child's outcome over, as the result of a call of the last turn: both are stored, or
    /// neither.
    pub async fn collect_child(&self, number: TaskNumber, result: &ToolResult) -> Result<()> {
        self.store
            .call(async |connection| {
                sqlx::query!(
                    "select collect_child_1($1, $2, $3, $4, $5, $6, $7)",
                    self.session.0,
                    self.slot,
                    self.task.0,
                    self.id.0,
                    self.answers,
                    number.0,
                    tool_result::row(result)
                )
                .execute(connection)
                .await
            })
            .await?;
        self.store.event_notifier.notify([self.session]);
        Ok(())
    }

    /// Cancels a child and everything below it; one that has ended stays as it is.
    pub async fn cancel_child(&self, number: TaskNumber) -> Result<()> {
        let leases = self
            .store
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select cancel_child_1($1, $2, $3, $4, $5) as "leases!""#,
                    self.session.0,
                    self.slot,
                    self.task.0,
                    self.id.0,
                    number.0
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        self.store.worker_notifier.notify_lost(leases.into_iter().map(LeaseId).collect());
        self.store.event_notifier.notify([self.session]);
        Ok(())
    }

    /// How long ago the last turn was stored, by the database's clock.
    pub async fn since_last_turn(&self) -> Result<Duration> {
        let seconds = self
            .store
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select extract(epoch from clock_timestamp() - u.at)::double precision as "seconds!"
                       from task t
                       join turn u on u.task = t.id and u.at >= t.created_at - interval '1 day'
                       where t.id = $1 and u.number = $2"#,
                    self.task.0,
                    self.answers
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        // A clock that was set back has not moved on.
        Ok(seconds
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .unwrap_or_default())
    }
}
