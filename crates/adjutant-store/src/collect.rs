use adjutant_agent::{Outcome, SessionId, TaskNumber, TaskState};

use crate::status::status_of;
use crate::{Error, IdempotencyKey, Result, Status, Store};

/// A task's outcome, handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    pub status: Status,
    pub outcome: Outcome,
}

impl Store {
    /// Hands the outcome over, once; with a key, again to whoever has that key.
    pub async fn collect(
        &self,
        session: SessionId,
        number: TaskNumber,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Collected> {
        if let Some(key) = key {
            key.check()?;
        }
        let row = self.call(async |connection| sqlx::query!(
            r#"select
                id as "id!", number as "number!", agent as "agent!", label, state as "state!", failure, error,
                turns_used as "turns_used!", input_tokens as "input_tokens!", output_tokens as "output_tokens!",
                cost_nanousd as "cost_nanousd!", attempt as "attempt!", created_at as "created_at!", started_at,
                last_activity_at as "last_activity_at!", finished_at, collected_at,
                result, summary, partial_result
               from collect_1($1, $2, $3, sha256($4))"#,
            session.0,
            number.0,
            key.map(|key| key.key),
            key.map(|key| key.body)
        )
        .fetch_one(connection).await).await?;
        let (result, summary, partial_result) = (row.result, row.summary, row.partial_result);
        let status = status_of!(row);
        let outcome = match (status.state, result, status.failure, &status.error) {
            (TaskState::Completed, Some(result), _, _) => Outcome::Completed { result, summary },
            (TaskState::Failed, _, Some(failure), Some(error)) => {
                Outcome::Failed { failure, error: error.clone(), partial_result }
            }
            (TaskState::Cancelled, _, _, _) => Outcome::Cancelled { partial_result },
            _ => {
                let what = format!("task {} was collected in state {}", status.id, status.state);
                return Err(Error::Unexpected(sqlx::Error::Decode(what.into())));
            }
        };
        Ok(Collected { status, outcome })
    }
}
