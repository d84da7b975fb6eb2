use adjutant_agent::{ErrorCode, LeaseId, Refusal, SessionId};

use crate::{Result, Store};

impl Store {
    /// Makes a session read-only: new tasks, agents and context writes are refused, and running
    /// tasks may end. Idempotent.
    pub async fn archive_session(&self, session: SessionId) -> Result<()> {
        let archived = self
            .call(async |connection| {
                sqlx::query!(
                    "update session set archived_at = coalesce(archived_at, now()) where id = $1",
                    session.0
                )
                .execute(connection)
                .await
            })
            .await?;
        if archived.rows_affected() == 0 {
            return Err(Refusal::new(ErrorCode::SessionNotFound, "Session not found").into());
        }
        Ok(())
    }

    /// Cancels the unfinished tasks of a session and deletes the session with all of its rows. Its
    /// name may then be used again.
    pub async fn delete_session(&self, session: SessionId) -> Result<()> {
        let leases = self
            .call(async |connection| {
                sqlx::query_scalar!(r#"select delete_session_1($1) as "leases!""#, session.0)
                    .fetch_one(connection)
                    .await
            })
            .await?;
        self.event_notifier.notify([session]);
        self.worker_notifier.notify_lost(leases.into_iter().map(LeaseId).collect());
        Ok(())
    }
}
