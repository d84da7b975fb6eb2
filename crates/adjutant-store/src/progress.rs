use adjutant_agent::{FailureKind, SessionId, Spent, TaskId, TaskNumber, TaskState};
use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use serde::Deserialize;
use sqlx::types::Json;

use crate::{Result, Status, Store};

/// How a task stands, and how many are before it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Row")]
pub struct Progress {
    pub status: Status,
    /// How many of the tenant's tasks are before it, up to 1000, while it is queued.
    pub queue_position: Option<i32>,
    /// How long it is put off, while it is.
    pub due_in_ms: Option<i64>,
}

/// A row of `task_progress`.
#[derive(Deserialize)]
struct Row {
    id: TaskId,
    number: i32,
    agent: String,
    label: Option<String>,
    state: TaskState,
    failure: Option<FailureKind>,
    error: Option<String>,
    turns_used: i32,
    input_tokens: i64,
    output_tokens: i64,
    cost_nanousd: i64,
    attempt: i32,
    created_at: DateTime<Utc>,
    started_at: Option<DateTime<Utc>>,
    last_activity_at: DateTime<Utc>,
    finished_at: Option<DateTime<Utc>>,
    collected_at: Option<DateTime<Utc>>,
    queue_position: Option<i32>,
    due_in_ms: Option<i64>,
}

impl From<Row> for Progress {
    fn from(row: Row) -> Self {
        let status = Status {
            id: row.id,
            number: TaskNumber(row.number),
            agent: row.agent,
            label: row.label,
            state: row.state,
            failure: row.failure,
            error: row.error,
            turns_used: row.turns_used,
            spent: Spent {
                input_tokens: row.input_tokens,
                output_tokens: row.output_tokens,
                cost_nanousd: row.cost_nanousd,
            },
            attempt: row.attempt,
            created_at: row.created_at,
            started_at: row.started_at,
            last_activity_at: row.last_activity_at,
            finished_at: row.finished_at,
            collected_at: row.collected_at,
        };
        Self { status, queue_position: row.queue_position, due_in_ms: row.due_in_ms }
    }
}

impl Store {
    /// How a task stands, collected or not, in one round trip.
    pub async fn progress(&self, session: SessionId, number: TaskNumber) -> Result<Progress> {
        let store = self.clone();
        let answer_all = move |asked| Box::pin(store.clone().progress_together(asked)) as BoxFuture<_>;
        if let Some(progress) = self.looks.ask((session, number), answer_all).await? {
            return Ok(progress);
        }
        let progress = self
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select to_jsonb(p) as "progress!: Json<Progress>" from progress_1($1, $2) p"#,
                    session.0,
                    number.0
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        Ok(progress.0)
    }

    /// One call for all of them; what is not there is left.
    async fn progress_together(self, asked: Vec<(SessionId, TaskNumber)>) -> Result<Vec<Option<Progress>>> {
        let mut found: Vec<Option<Progress>> = asked.iter().map(|_| None).collect();
        let (sessions, numbers): (Vec<i64>, Vec<i32>) =
            asked.into_iter().map(|(session, number)| (session.0, number.0)).unzip();
        let rows = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select place as "place!", progress as "progress!: Json<Progress>"
                       from progress_together_1($1, $2)"#,
                    &sessions,
                    &numbers,
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        for row in rows {
            if let Some(place) = usize::try_from(row.place - 1).ok().and_then(|place| found.get_mut(place)) {
                *place = Some(row.progress.0);
            }
        }
        Ok(found)
    }
}
