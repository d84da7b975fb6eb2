use adjutant_agent::{SessionId, TaskId};

use crate::{Result, Store};

/// A row that breaks an invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub what: String,
    pub session: Option<SessionId>,
    pub task: Option<TaskId>,
}

impl Store {
    /// Lists up to 100 violations of invariants. Scans whole tables.
    pub async fn violations(&self) -> Result<Vec<Violation>> {
        let rows = sqlx::query!(
            r#"select violation as "violation!", session, task from invariant_violation limit 100"#
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| Violation {
                what: row.violation,
                session: row.session.map(SessionId),
                task: row.task.map(TaskId),
            })
            .collect())
    }
}
