use adjutant_agent::{ErrorCode, LeaseId, Refusal, SessionId};

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

    /// Cancels the unfinished tasks of a session and deletes the session with all of its rows. Its
    /// name may then be used again.
    pub async fn delete_session(&self, session: SessionId) -> Result<()> {
        let actor = self.audited()?;
        let deleted = self
            .call(async |connection| {
                // The statement's snapshot still has the session.
                sqlx::query!(
                    r#"select d.leases as "leases!", audit_1(
                           $2, s.tenant, 'session.delete', s.name,
                           jsonb_build_object('tasks', s.next_number - 1, 'archived', s.archived_at is not null), null
                       ) as audited
                       from delete_session_1($1) d (leases)
                       left join session s on s.id = $1"#,
                    session.0,
                    actor
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        self.event_notifier.notify([session]);
        self.worker_notifier.notify_lost(deleted.leases.into_iter().map(LeaseId).collect());
        Ok(())
    }
}
