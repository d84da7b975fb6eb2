use adjutant_agent::{LeaseId, SessionId};

use crate::{Result, Store};

/// What is left of deleted sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletionsLeft {
    pub sessions: i64,
    pub tasks: i64,
}

impl Store {
    /// Deletes a session, for every caller at once; its name may then be used again. Its running
    /// tasks lose their leases. Its rows are left for [`Store::delete_batch`].
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

    /// Deletes some rows of deleted sessions in one short transaction, and returns whether there
    /// may be more. Returns false while another process deletes.
    pub async fn delete_batch(&self) -> Result<bool> {
        let more = self
            .call(async |connection| {
                sqlx::query_scalar!(r#"select delete_batch_1() as "more!""#)
                    .fetch_one(connection)
                    .await
            })
            .await?;
        Ok(more)
    }

    /// Counts the deleted sessions that still have rows, and their tasks.
    pub async fn deletions_left(&self) -> Result<DeletionsLeft> {
        let left = self
            .call(async |connection| {
                sqlx::query_as!(
                    DeletionsLeft,
                    r#"select count(*) as "sessions!", coalesce(sum(tasks - tasks_deleted), 0) as "tasks!"
                       from deleted_session"#
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        Ok(left)
    }
}
