use adjutant_agent::{ErrorCode, Refusal, SessionId};

use crate::{Result, Store};

impl Store {
    /// Makes a session read-only: new tasks, agents and context writes are refused, and running
    /// tasks may end. Idempotent.
    pub async fn archive_session(&self, session: SessionId) -> Result<()> {
        let actor = self.audited()?;
        let archived = self
            .call(async |connection| {
                sqlx::query!(
                    r#"with changed as (
                           update session s
                           set archived_at = coalesce(s.archived_at, now())
                           from (select id, archived_at from session where id = $1 for no key update) k
                           where s.id = k.id
                           returning s.tenant, s.name, k.archived_at as archived_before
                       )
                       select case when c.archived_before is null then audit_1(
                           $2, c.tenant, 'session.archive', c.name, jsonb_build_object('archived', false),
                           jsonb_build_object('archived', true)
                       ) end as audited
                       from changed c"#,
                    session.0,
                    actor
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        if archived.is_none() {
            return Err(Refusal::new(ErrorCode::SessionNotFound, "Session not found").into());
        }
        Ok(())
    }
}
