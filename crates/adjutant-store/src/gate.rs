use std::time::Duration;

use sqlx::PgConnection;

use crate::batch::check_name;
use crate::text::refuse_nul_in;
use crate::{Result, Store};

/// The longest time that a gate is closed, against absurd values of a provider.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Tasks that an opened circuit makes due in one call.
const BATCH: i32 = 1000;

/// Why a gate closes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GateReason {
    /// The provider asked for a pause.
    #[default]
    RateLimit,
    /// The provider refuses the key: only a call that succeeds opens it.
    Circuit,
    /// All tries failed, and the model has a fallback.
    Outage,
}

/// What closes a gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GateCause<'a> {
    pub reason: GateReason,
    /// The HTTP status.
    pub status: Option<u16>,
    /// One sentence that is safe to show to everybody.
    pub error: Option<&'a str>,
}

/// The answer to a task at a circuit that asks for the next call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Probe {
    /// This task makes the call.
    pub is_taken: bool,
    /// How long it is until the next one may be made; zero if the circuit has opened.
    pub closed_for: Duration,
    pub status: Option<u16>,
    pub error: Option<String>,
}

/// A gate that is closed now.
#[derive(Debug, Clone, PartialEq)]
pub struct ClosedGate {
    pub model: String,
    /// `rate_limit`, `circuit` or `outage`.
    pub reason: String,
    /// Seconds until it opens, or until the next call of a circuit.
    pub closed_s: f64,
}

impl GateReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RateLimit => "rate_limit",
            Self::Circuit => "circuit",
            Self::Outage => "outage",
        }
    }
}

impl Store {
    /// Closes a model's gate for all workers, for `time` from now. A gate that is already closed
    /// for longer is unchanged. The answer is true for the one caller that closed an open gate.
    pub async fn close_gate(
        &self,
        model: &str,
        time: Duration,
        cause: GateCause<'_>,
    ) -> Result<bool> {
        refuse_nul_in("model", model)?;
        check_name("model", model)?;
        let is_new = self
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select close_gate_1($1, $2, $3::text, $4, $5) as "is_new!""#,
                    model,
                    time.min(LONGEST).as_secs_f64(),
                    cause.reason.as_str(),
                    status_to_sql(cause.status),
                    cause.error
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        Ok(is_new)
    }

    /// Asks for the next call of a circuit, and moves the time of the one after it to `next` from
    /// now if this caller gets it.
    pub async fn take_probe(&self, model: &str, next: Duration) -> Result<Probe> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select is_taken as "is_taken!", closed_ms, status, error from take_probe_1($1, $2)"#,
                    model,
                    next.as_secs_f64()
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        let closed_ms = row.closed_ms.and_then(|ms| u64::try_from(ms).ok()).unwrap_or_default();
        Ok(Probe {
            is_taken: row.is_taken,
            closed_for: Duration::from_millis(closed_ms),
            status: row.status.and_then(|status| u16::try_from(status).ok()),
            error: row.error,
        })
    }

    /// Opens a circuit after a call that succeeded, and makes the tasks due that wait for it. The
    /// answer is true for the one caller that opened it.
    pub async fn open_circuit(&self, model: &str) -> Result<bool> {
        let opened = self
            .call(async |connection| {
                sqlx::query_scalar!(r#"select open_circuit_1($1) as "opened!""#, model)
                    .fetch_one(connection)
                    .await
            })
            .await?;
        if !opened {
            return Ok(false);
        }
        let wake = async || {
            self.call(async |connection| {
                sqlx::query_scalar!(r#"select wake_from_circuit_1($1) as "woken!""#, model)
                    .fetch_one(connection)
                    .await
            })
            .await
        };
        let mut woken = wake().await?;
        while woken > 0 {
            self.admit_due().await?;
            woken = if woken < BATCH { 0 } else { wake().await? };
        }
        Ok(true)
    }
}

/// The gates that are closed now, by model. There are no more than models.
pub(crate) async fn closed(connection: &mut PgConnection) -> sqlx::Result<Vec<ClosedGate>> {
    sqlx::query_as!(
        ClosedGate,
        r#"select model, reason::text as "reason!",
               greatest(0, extract(epoch from closed_until - now()))::double precision as "closed_s!"
           from model_gate
           where closed_until > now() or reason = 'circuit'
           order by model"#
    )
    .fetch_all(connection)
    .await
}

pub(crate) fn status_to_sql(status: Option<u16>) -> Option<i16> {
    status.and_then(|status| i16::try_from(status).ok())
}
