use adjutant_agent::{Outcome, SessionId, TaskNumber, TaskView};
use sqlx::types::Json;

use crate::{Error, IdempotencyKey, Result, Store};

/// A collected task and its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Collected {
    pub task: TaskView,
    pub outcome: Outcome,
}

impl Store {
    /// Returns the outcome of a task once; with an idempotency key, again to each call with that
    /// key.
    pub async fn collect(
        &self,
        session: SessionId,
        number: TaskNumber,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Collected> {
        if let Some(key) = key {
            key.check()?;
        }
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select task as "task!: Json<TaskView>", result, summary, partial_result
                       from collect_1($1, $2, $3, sha256($4))"#,
                    session.0,
                    number.0,
                    key.map(|key| key.key),
                    key.map(|key| key.body)
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        let task = row.task.0;
        let outcome = task.outcome(row.result, row.summary, row.partial_result);
        let outcome = outcome.ok_or_else(|| {
            let what = format!("task {} was collected in state {}", task.id, task.state);
            Error::Unexpected(sqlx::Error::Decode(what.into()))
        })?;
        Ok(Collected { task, outcome })
    }
}
