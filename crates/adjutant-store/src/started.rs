use adjutant_agent::{LeaseId, SessionId, TaskId};

use crate::{Result, Worker};

/// An attempt whose start is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    pub slot: i32,
    pub task: TaskId,
    pub lease: LeaseId,
    pub session: SessionId,
}

impl Worker {
    /// Writes the `started` events of attempts that still run, and answers which leases need not be told again. Never waits
    /// for anyone: what others are busy with is for the next time, or told by the attempt's own next event.
    pub async fn started(&self, begun: &[Begun]) -> Result<Vec<LeaseId>> {
        let slots: Vec<_> = begun.iter().map(|begun| begun.slot).collect();
        let tasks: Vec<_> = begun.iter().map(|begun| begun.task.0).collect();
        let leases: Vec<_> = begun.iter().map(|begun| begun.lease.0).collect();
        let told = self
            .store
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select record_starts_1($1, $2, $3) as "told!""#,
                    &slots,
                    &tasks,
                    &leases
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        self.store.event_notifier.happened(begun.iter().map(|begun| begun.session));
        Ok(told.into_iter().map(LeaseId).collect())
    }
}
