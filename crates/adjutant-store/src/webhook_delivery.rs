use std::time::Duration;

use adjutant_agent::{FailureKind, TaskId, TaskNumber, TaskState, Verdict, WebhookEvent};
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::status::known;
use crate::{Result, Store};

/// One try to deliver the end of a task to a webhook. It belongs to this process until its lease
/// expires.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The same in every try of a delivery.
    pub id: Uuid,
    lease: Uuid,
    /// The number of tries, including this one.
    pub tries: i32,
    pub url: String,
    pub event: WebhookEvent,
    /// The secrets to sign with, newest first.
    pub secrets: Vec<Vec<u8>>,
    pub task: DeliveredTask,
}

/// The ended task that a delivery reports.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveredTask {
    pub session_id: String,
    pub number: TaskNumber,
    pub id: TaskId,
    pub agent: String,
    pub label: Option<String>,
    pub metadata: Value,
    pub state: TaskState,
    pub failure: Option<FailureKind>,
    pub error: Option<String>,
    /// Its result, or its partial result: at most one character more than a delivery shows.
    pub text: Option<String>,
    /// The length of the whole text.
    pub text_chars: usize,
    pub turns_used: i32,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_nanousd: i64,
    pub created_at: DateTime<Utc>,
    pub finished_at: DateTime<Utc>,
}

/// The receiver's response to a try, for the delivery log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryResponse {
    pub status: Option<u16>,
    pub error: Option<String>,
}

impl Store {
    /// Claims up to `limit` due deliveries, but none to the URLs in `busy`. No other process sends
    /// them until `lease` has passed.
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
            let task = DeliveredTask {
                session_id: row.session_id,
                number: TaskNumber(row.number),
                id: TaskId(row.task),
                agent: row.agent,
                label: row.label,
                metadata: row.metadata,
                state: known(&row.state)?,
                failure: row.failure.as_deref().map(known).transpose()?,
                error: row.error,
                text: row.said,
                text_chars: row
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

    /// Stores the result of a try. Returns false and writes nothing if its lease was lost.
    /// Idempotent.
    pub async fn settle_delivery(
        &self,
        delivery: &Delivery,
        verdict: Verdict,
        response: &DeliveryResponse,
    ) -> Result<bool> {
        let (outcome, delay) = match verdict {
            Verdict::Delivered => ("delivered", None),
            Verdict::Failed => ("failed", None),
            Verdict::Gone => ("gone", None),
            Verdict::Again(delay) => ("again", Some(delay.as_secs_f64())),
        };
        let error = response.error.clone().map(crate::text::storable);
        self.call(async |connection| {
            sqlx::query_scalar!(
                r#"select settle_delivery_1($1, $2, $3, make_interval(secs => $4), $5, $6) as "settled!""#,
                delivery.id,
                delivery.lease,
                outcome,
                delay,
                response.status.map(i32::from),
                error
            )
            .fetch_one(connection)
            .await
        })
        .await
    }

    /// Waits until this process has ended tasks with webhooks, or [`Store::wake_deliverer`] was
    /// called. Cancel safe.
    pub async fn deliveries_due(&self) {
        self.deliveries.notified().await;
    }

    /// Wakes the task of this process that sends webhook deliveries.
    pub fn wake_deliverer(&self) {
        self.deliveries.notify_one();
    }
}
