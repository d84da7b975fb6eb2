use adjutant_agent::{SessionId, TaskId, TaskState, WorkerId};

use crate::status::known;
use crate::{Result, Store};

/// How many tasks are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub queued: i64,
    pub running: i64,
    pub waiting: i64,
    pub completed: i64,
    pub failed: i64,
    pub cancelled: i64,
}

impl Tally {
    pub fn unfinished(&self) -> i64 {
        self.queued + self.running + self.waiting
    }
}

impl Store {
    /// Counts the tasks of these sessions.
    pub async fn tally(&self, sessions: &[SessionId]) -> Result<Tally> {
        let sessions: Vec<i64> = sessions.iter().map(|session| session.0).collect();
        let rows = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select state as "state!", count(*) as "count!"
                       from task_history
                       where session = any($1)
                       group by state"#,
                    &sessions
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let mut tally = Tally::default();
        for row in rows {
            *match known(&row.state)? {
                TaskState::Queued => &mut tally.queued,
                TaskState::Running => &mut tally.running,
                TaskState::Waiting => &mut tally.waiting,
                TaskState::Completed => &mut tally.completed,
                TaskState::Failed => &mut tally.failed,
                TaskState::Cancelled => &mut tally.cancelled,
            } = row.count;
        }
        Ok(tally)
    }

    /// Workers that run something now, and what.
    pub async fn busy_workers(&self) -> Result<Vec<(WorkerId, Vec<TaskId>)>> {
        let rows = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select worker as "worker!", array_agg(task) as "tasks!"
                       from slot
                       where worker is not null
                       group by worker"#
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        Ok(rows
            .into_iter()
            .map(|row| (WorkerId(row.worker), row.tasks.into_iter().map(TaskId).collect()))
            .collect())
    }
}
