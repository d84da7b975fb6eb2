use std::time::Duration;

use adjutant_agent::{FailureKind, TaskId, TaskNumber, TaskState, Verdict, WebhookEvent};
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::status::known;
use crate::{Result, Store};

/// The end of a task, to be sent to a webhook: one try, which is this process's until its lease runs out.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The same in every try.
    pub id: Uuid,
    lease: Uuid,
    /// This one counted.
    pub tries: i32,
    pub url: String,
    pub event: WebhookEvent,
    /// What it is signed with: the newest first.
    pub secrets: Vec<Vec<u8>>,
    pub task: EndedTask,
}

/// A task that has ended, as it is told.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedTask {
    pub session_id: String,
    pub number: TaskNumber,
    pub id: TaskId,
    pub agent: String,
    pub label: Option<String>,
    pub metadata: Value,
    pub state: TaskState,
    pub failure: Option<FailureKind>,
    pub error: Option<String>,
    /// Its result, or what it had said last: at most as much as is shown of a result, and one character more.
    pub said: Option<String>,
    /// Of all that it said.
    pub said_chars: usize,
    pub turns_used: i32,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_nanousd: i64,
    pub created_at: DateTime<Utc>,
    pub finished_at: DateTime<Utc>,
}

/// What was seen of a try, for those who look into the history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub status: Option<u16>,
    pub error: Option<String>,
}

impl Store {
    /// Takes up to `limit` deliveries that are due, but none to URLs in `busy`. Until `lease` has passed nobody else sends them.
    pub async fn claim_deliveries(
        &self,
        limit: i32,
        busy: &[String],
        lease: Duration,
    ) -> Result<Vec<Delivery>> {
        let rows = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select
                        id as "id!", lease as "lease!", tries as "tries!", url as "url!", event as "event!",
                        secrets as "secrets!", session_id as "session_id!", number as "number!", task as "task!",
                        agent as "agent!", label, metadata as "metadata!", state as "state!", failure, error, said, said_chars,
                        turns_used as "turns_used!", input_tokens as "input_tokens!", output_tokens as "output_tokens!",
                        cost_nanousd as "cost_nanousd!", created_at as "created_at!", finished_at as "finished_at!"
                       from claim_deliveries_1($1, $2, make_interval(secs => $3))"#,
                    limit,
                    busy,
                    lease.as_secs_f64()
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let mut claimed = Vec::with_capacity(rows.len());
        for row in rows {
            let task = EndedTask {
                session_id: row.session_id,
                number: TaskNumber(row.number),
                id: TaskId(row.task),
                agent: row.agent,
                label: row.label,
                metadata: row.metadata,
                state: known(&row.state)?,
                failure: row.failure.as_deref().map(known).transpose()?,
                error: row.error,
                said: row.said,
                said_chars: row
                    .said_chars
                    .and_then(|chars| usize::try_from(chars).ok())
                    .unwrap_or(0),
                turns_used: row.turns_used,
                input_tokens: row.input_tokens,
                output_tokens: row.output_tokens,
                cost_nanousd: row.cost_nanousd,
                created_at: row.created_at,
                finished_at: row.finished_at,
            };
            claimed.push(Delivery {
                id: row.id,
                lease: row.lease,
                tries: row.tries,
                url: row.url,
                event: known(&row.event)?,
                secrets: row.secrets,
                task,
            });
        }
        Ok(claimed)
    }

    /// Writes down what became of a try; false if its lease was lost, and then nothing is written. Writing it again does no harm.
    pub async fn settle_delivery(
        &self,
        delivery: &Delivery,
        verdict: Verdict,
        seen: &Seen,
    ) -> Result<bool> {
        let (outcome, delay) = match verdict {
            Verdict::Delivered => ("delivered", None),
            Verdict::Failed => ("failed", None),
            Verdict::Gone => ("gone", None),
            Verdict::Again(delay) => ("again", Some(delay.as_secs_f64())),
        };
        let error = seen.error.clone().map(crate::text::storable);
        self.call(async |connection| {
            sqlx::query_scalar!(
                r#"select settle_delivery_1($1, $2, $3, make_interval(secs => $4), $5, $6) as "settled!""#,
                delivery.id,
                delivery.lease,
                outcome,
                delay,
                seen.status.map(i32::from),
                error
            )
            .fetch_one(connection)
            .await
        })
        .await
    }

    /// Returns when this process has ended tasks that webhooks are told of, or has been told that deliveries are due. Cancel safe.
    pub async fn deliveries_are_due(&self) {
        self.deliveries.notified().await;
    }

    /// Wakes who waits for deliveries in this process.
    pub fn wake_deliverer(&self) {
        self.deliveries.notify_one();
    }
}
