use std::time::Duration;

use serde_json::json;

use crate::text::storable_json;
use crate::{Lease, Result, Store};

/// The failed tries of the model call that a task is making, over attempts and workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FailedTries {
    /// Tries that count.
    pub tries: u32,
    /// Tries that the provider refused with 401 or 403, which do not count.
    pub refusals: u32,
    /// The time of the tries and of the pauses between them.
    pub spent: Duration,
    /// How long the task has been waiting at a circuit; none if it is not.
    pub waited: Option<Duration>,
}

/// The last failed try of a call, as it is shown while the call is tried again.
#[derive(Debug, Clone)]
pub struct FailedCall<'a> {
    pub model: &'a str,
    pub host: String,
    pub tries: FailedTries,
    pub max_tries: u32,
    pub status: Option<u16>,
    /// One phrase that is safe to show to everybody.
    pub error: &'a str,
    /// The time until the next try.
    pub next_try: Duration,
    /// How long the task still waits at a circuit; none if it does not.
    pub waits: Option<Duration>,
}

impl Lease {
    /// The failed tries of the call after the answers stored so far, by this attempt and earlier
    /// ones.
    pub async fn failed_tries(&self) -> Result<FailedTries> {
        let row = self
            .store
            .call(async |connection| {
                sqlx::query!(
                    r#"select tries, refusals, spent_ms,
                           (extract(epoch from now() - waits_since) * 1000)::bigint as waited_ms
                       from failed_call
                       where task = $1 and answers = $2"#,
                    self.task.0,
                    self.answers
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        Ok(row.map_or_else(FailedTries::default, |row| FailedTries {
            tries: u32::try_from(row.tries).unwrap_or_default(),
            refusals: u32::try_from(row.refusals).unwrap_or_default(),
            spent: milliseconds(row.spent_ms),
            waited: row.waited_ms.map(milliseconds),
        }))
    }

    /// Records the failed tries of the call. With `detail` it also writes a `retrying` event with
    /// that text.
    pub async fn record_failed_call(
        &self,
        call: &FailedCall<'_>,
        detail: Option<&str>,
    ) -> Result<()> {
        let body = storable_json(json!({
            "model": call.model,
            "host": call.host,
            "tries": call.tries.tries,
            "refusals": call.tries.refusals,
            "max_tries": call.max_tries,
            "spent_ms": to_milliseconds(call.tries.spent),
            "status": call.status,
            "error": call.error,
            "next_try_ms": to_milliseconds(call.next_try),
            "waits_ms": call.waits.map(to_milliseconds),
        }));
        self.store
            .call(async |connection| {
                sqlx::query!(
                    "select record_failed_call_1($1, $2, $3, $4, $5, $6)",
                    self.session.0,
                    self.slot,
                    self.task.0,
                    self.id.0,
                    body,
                    detail
                )
                .execute(connection)
                .await
            })
            .await?;
        if detail.is_some() {
            self.store.event_notifier.notify([self.session]);
        }
        Ok(())
    }
}

impl Store {
    /// Deletes the failed tries of calls that have ended, and gates that nobody has asked for in an
    /// hour.
    pub async fn delete_stale_failed_calls(&self) -> Result<()> {
        let delete = async || {
            sqlx::query_scalar!(r#"select delete_stale_failed_calls_1() as "deleted!""#)
                .fetch_one(&self.pool)
                .await
        };
        while delete().await? >= 1000 {}
        sqlx::query!("delete from model_gate where closed_until < now() - interval '1 hour'")
            .execute(&self.pool)
            .await?;
        Ok(())
    }
}

fn milliseconds(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or_default())
}

fn to_milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
