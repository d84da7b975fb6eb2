use adjutant_agent::{BreakReason, TaskId, Usage};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::stats::usd;
use crate::text::storable_json;
use crate::{Lease, Result, Store};

/// The most calls that one task's record shows.
const MOST_SHOWN: i64 = 100;

/// A model call that has no stored answer, and for which the provider may charge.
#[derive(Debug, Clone, PartialEq)]
pub struct BrokenCall {
    /// 1, 2, 3 ... in its attempt, so that it counts once.
    pub number: i32,
    /// The number of the answer that it would have been.
    pub answer: i32,
    /// The name of the model in the config.
    pub model: String,
    pub reason: BreakReason,
    pub usage: Usage,
    pub duration_ms: i64,
}

/// A broken-off model call for display.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = BrokenCall)]
pub struct BrokenCallRecord {
    pub attempt: i32,
    /// The number of the turn that it would have been.
    pub turn: i32,
    pub model: String,
    /// `failed`: the server or the connection broke it off. `stopped`: its task ended, or its
    /// worker did. `unstored`: it was answered, but its worker had lost the lease.
    pub reason: String,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_usd: f64,
    /// The tokens are estimated from the request and from what was received.
    pub usage_estimated: bool,
    pub duration_ms: i64,
    #[serde(serialize_with = "crate::timestamp::serialize")]
    pub at: DateTime<Utc>,
}

impl Lease {
    /// Counts a call of this attempt for the task, its session and the statistics, once: also after
    /// a cancel or a takeover has ended the attempt. Then the outcome of the task stays as it is.
    /// `false` if the session was deleted.
    pub async fn broken_call(&self, call: &BrokenCall) -> Result<bool> {
        let BrokenCall { number, answer, model, reason, usage, duration_ms } = call;
        let call = storable_json(json!({
            "number": number,
            "answer": answer,
            "model": model,
            "reason": reason,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost_nanousd": usage.cost_nanousd,
            "usage_estimated": usage.estimated,
            "duration_ms": duration_ms,
        }));
        let counted = self
            .store
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select broken_call_1($1, $2, $3, $4, $5) as "counted!""#,
                    self.session.0,
                    self.slot,
                    self.task.0,
                    self.id.0,
                    call
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        Ok(counted)
    }
}

impl Store {
    /// The broken-off calls of a task, the last ones first.
    pub(crate) async fn broken_calls_of(&self, task: TaskId) -> Result<Vec<BrokenCallRecord>> {
        let rows = self
            .call(async |connection| {
                sqlx::query!(
                    "select attempt, answer, model, reason, input_tokens, output_tokens, cost_nanousd, usage_estimated,
                        duration_ms, at
                     from broken_call
                     where task = $1
                     order by attempt desc, number desc
                     limit $2",
                    task.0,
                    MOST_SHOWN
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let record = rows.into_iter().map(|row| BrokenCallRecord {
            attempt: row.attempt,
            turn: row.answer,
            model: row.model,
            reason: row.reason,
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            cost_usd: usd(row.cost_nanousd),
            usage_estimated: row.usage_estimated,
            duration_ms: row.duration_ms,
            at: row.at,
        });
        Ok(record.collect())
    }
}
