//! Logging, and traces if the environment enables them.

use std::time::Duration;

use adjutant_worker::payloads::{self, TARGET as PAYLOADS};
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::Config;
use crate::logs::{self, Logs};
use crate::otlp;

/// How long the exit waits until the last spans are sent.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(1500);

/// Whether the texts of tasks appear in logs and traces (rule G30).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payloads {
    Omitted,
    Logged,
}

impl Payloads {
    pub fn of(config: &Config) -> Self {
        if config.log_payloads { Self::Logged } else { Self::Omitted }
    }
}

/// Sends the last spans on drop, for a limited time.
#[must_use]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
}

pub fn init(logs: &Logs, payloads: Payloads) -> anyhow::Result<Telemetry> {
    let (traces, problem) = match otlp::traces() {
        Ok(traces) => (traces, None),
        Err(problem) => (None, Some(problem)),
    };
    let spans = traces.as_ref().map(|traces| spans(traces, payloads));
    tracing_subscriber::registry().with(logs.layer(payloads)?).with(spans).init();
    std::panic::set_hook(Box::new(move |panic| logs::log_panic(panic, payloads)));
    if payloads == Payloads::Logged {
        payloads::enable();
        tracing::warn!("log_payloads is on: logs and traces contain the texts of tasks");
    }
    if let Some(problem) = problem {
        tracing::warn!("traces are disabled: {problem:#}");
    }
    Ok(Telemetry { traces })
}

/// Exports spans, and of events only those that the spans do not contain.
fn spans<S>(traces: &SdkTracerProvider, payloads: Payloads) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    let is_exported = move |metadata: &Metadata<'_>| {
        let is_relevant = metadata.is_span() && *metadata.level() <= Level::INFO
            || *metadata.level() <= Level::WARN
            || metadata.target() == PAYLOADS && payloads == Payloads::Logged;
        is_relevant && metadata.target().starts_with("adjutant")
    };
    // The texts of events and errors must not appear in a span's status.
    tracing_opentelemetry::layer()
        .with_tracer(traces.tracer("adjutant"))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_context_activation(false)
        .with_error_events_to_status(false)
        .with_error_events_to_exceptions(false)
        .with_error_fields_to_exceptions(false)
        .with_error_records_to_exceptions(false)
        .with_filter(filter_fn(is_exported))
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(traces) = &self.traces {
            // The exporter has logged a collector that is unreachable.
            let _ = traces.shutdown_with_timeout(FLUSH_TIMEOUT);
        }
    }
}
