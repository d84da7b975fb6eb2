use adjutant_agent::{Budget, SessionId, TaskNumber, TaskView};
use sqlx::types::Json;

use crate::json::to_json;
use crate::{NotifyTarget, Result, Store};

impl Store {
    /// Raises limits of a task's budget, and if it is a root of its tree's. Tasks that wait for it
    /// go on. A limit that the task does not have, that would be lower, or that is used up already
    /// is refused. Raising to the same limits again changes nothing.
    pub async fn raise(
        &self,
        session: SessionId,
        number: TaskNumber,
        limits: &Budget,
    ) -> Result<TaskView> {
        let (limits, actor) = (to_json(limits)?, self.audited()?);
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select raise_1($1, $2, $3, $4) as "task!: Json<TaskView>""#,
                    session.0,
                    number.0,
                    limits,
                    actor
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        self.resumed(session);
        Ok(row.task.0)
    }

    /// Raises limits of a session's budget, as [`Store::raise`] does a task's.
    pub async fn raise_session(&self, tenant: &str, name: &str, limits: &Budget) -> Result<()> {
        let (limits, actor) = (to_json(limits)?, self.audited()?);
        let session = self
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select raise_session_1($1, $2, $3, $4) as "session!""#,
                    tenant,
                    name,
                    limits,
                    actor
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        self.resumed(SessionId(session));
        Ok(())
    }

    /// Tasks may be in the queue now, and one may be due that marks where to go on.
    fn resumed(&self, session: SessionId) {
        self.notify_workers(NotifyTarget::All);
        self.notify_workers(NotifyTarget::Delayed);
        self.event_notifier.notify([session]);
    }
}
