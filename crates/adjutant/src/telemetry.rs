//! What this process tells of itself: logs, and traces if the environment asks for them.

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

/// How long an exit waits for the last spans to be sent.
const LAST_WORDS: Duration = Duration::from_millis(1500);

/// Whether texts of tasks are in logs and traces: contract G30.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payloads {
    LeftOut,
    Logged,
}

impl Payloads {
    pub fn of(config: &Config) -> Self {
        if config.log_payloads { Self::Logged } else { Self::LeftOut }
    }
}

/// Dropped, it sends the last spans, or gives up on them soon.
#[must_use]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
}

pub fn begin(logs: &Logs, payloads: Payloads) -> anyhow::Result<Telemetry> {
    let (traces, problem) = match otlp::traces() {
        Ok(traces) => (traces, None),
        Err(problem) => (None, Some(problem)),
    };
    let spans = traces.as_ref().map(|traces| spans(traces, payloads));
    tracing_subscriber::registry().with(logs.layer(payloads)?).with(spans).init();
    std::panic::set_hook(Box::new(move |panic| logs::log_panic(panic, payloads)));
    if payloads == Payloads::Logged {
        payloads::log_payloads();
        tracing::warn!("log_payloads is on: texts of tasks are in debug logs and in traces");
    }
    if let Some(problem) = problem {
        tracing::warn!("no traces are sent: {problem:#}");
    }
    Ok(Telemetry { traces })
}

/// Spans as they are; of events only those that are not in the spans already.
fn spans<S>(traces: &SdkTracerProvider, payloads: Payloads) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    let is_told = move |metadata: &Metadata<'_>| {
        let is_worth_it = metadata.is_span() && *metadata.level() <= Level::INFO
            || *metadata.level() <= Level::WARN
            || metadata.target() == PAYLOADS && payloads == Payloads::Logged;
        is_worth_it && metadata.target().starts_with("adjutant")
    };
    // An event's text and an error's are not told in a span's status.
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
        .with_filter(filter_fn(is_told))
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(traces) = &self.traces {
            // A collector that is away was logged by the exporter.
            let _ = traces.shutdown_with_timeout(LAST_WORDS);
        }
    }
}
