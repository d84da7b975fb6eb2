use adjutant_agent::{LeaseId, SessionId, TaskId};

use crate::{Result, Worker};

/// An attempt whose `started` event is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartedAttempt {
    pub slot: i32,
    pub task: TaskId,
    pub lease: LeaseId,
    pub session: SessionId,
}

impl Worker {
    /// Writes the `started` events of attempts that still run, and returns the leases whose event
    /// is written. Never waits for a lock: attempts whose rows are locked are left for the next
    /// call, or for the attempt's own next event.
    pub async fn record_starts(&self, attempts: &[StartedAttempt]) -> Result<Vec<LeaseId>> {
        let slots: Vec<_> = attempts.iter().map(|attempt| attempt.slot).collect();
        let tasks: Vec<_> = attempts.iter().map(|attempt| attempt.task.0).collect();
        let leases: Vec<_> = attempts.iter().map(|attempt| attempt.lease.0).collect();
        let recorded = self
            .store
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select record_starts_1($1, $2, $3) as "stored!""#,
                    &slots,
                    &tasks,
                    &leases
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        self.store.event_notifier.notify(attempts.iter().map(|attempt| attempt.session));
        Ok(recorded.into_iter().map(LeaseId).collect())
    }
}
