use adjutant_agent::{ErrorCode, FailureKind, Refusal, SessionId, Spent, TaskId, TaskNumber, TaskState};
use chrono::{DateTime, Utc};

use crate::{Error, Result, Store};

/// How a task stands; everything but its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub id: TaskId,
    pub number: TaskNumber,
    pub agent: String,
    pub label: Option<String>,
    pub state: TaskState,
    pub failure: Option<FailureKind>,
    pub error: Option<String>,
    pub turns_used: i32,
    pub spent: Spent,
    pub attempt: i32,
    pub created_at: DateTime<Utc>,
    pub started_at: Option<DateTime<Utc>>,
    pub last_activity_at: DateTime<Utc>,
    pub finished_at: Option<DateTime<Utc>>,
    pub collected_at: Option<DateTime<Utc>>,
}

/// What `task_history` gives for a status. `collect_1` answers in the same columns, with the texts.
macro_rules! status_of {
    ($row:expr) => {
        $crate::Status {
            id: adjutant_agent::TaskId($row.id),
            number: adjutant_agent::TaskNumber($row.number),
            agent: $row.agent,
            label: $row.label,
            state: $crate::status::known(&$row.state)?,
            failure: $row.failure.as_deref().map($crate::status::known).transpose()?,
            error: $row.error,
            turns_used: $row.turns_used,
            spent: adjutant_agent::Spent {
                input_tokens: $row.input_tokens,
                output_tokens: $row.output_tokens,
                cost_nanousd: $row.cost_nanousd,
            },
            attempt: $row.attempt,
            created_at: $row.created_at,
            started_at: $row.started_at,
            last_activity_at: $row.last_activity_at,
            finished_at: $row.finished_at,
            collected_at: $row.collected_at,
        }
    };
}
pub(crate) use status_of;

/// A word from the database; the schema's CHECKs leave no other.
pub(crate) fn known<T: std::str::FromStr<Err = adjutant_agent::UnknownWord>>(word: &str) -> Result<T> {
    word.parse()
        .map_err(|error: adjutant_agent::UnknownWord| Error::Unexpected(sqlx::Error::Decode(error.into())))
}

impl Store {
    pub async fn status(&self, session: SessionId, number: TaskNumber) -> Result<Status> {
        let row = self.call(async |connection| sqlx::query!(
            r#"select
                id as "id!", number as "number!", agent as "agent!", label, state as "state!", failure, error,
                turns_used as "turns_used!", input_tokens as "input_tokens!", output_tokens as "output_tokens!",
                cost_nanousd as "cost_nanousd!", attempt as "attempt!", created_at as "created_at!", started_at,
                last_activity_at as "last_activity_at!", finished_at, collected_at
               from task_history
               where session = $1 and number = $2"#,
            session.0,
            number.0
        )
        .fetch_optional(connection).await).await?;
        match row {
            Some(row) => Ok(status_of!(row)),
            None => Err(Refusal::new(ErrorCode::TaskNotFound, format!("Task not found: {number}")).into()),
        }
    }

    /// How many of the tenant's tasks are before it, up to 1000; none when it is not queued.
    pub async fn queue_position(&self, session: SessionId, task: TaskId) -> Result<Option<i32>> {
        let place = self
            .call(async |connection| {
                sqlx::query_scalar!("select place from queue_positions_1($1, $2)", session.0, &[task.0])
                    .fetch_optional(connection)
                    .await
            })
            .await?;
        Ok(place.flatten())
    }
}
