use adjutant_agent::{ErrorCode, Refusal, SessionId};

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
}
