//! One trace from the call that spawns a task through the queue to what its worker does.

use std::collections::HashMap;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Makes the span a part of the trace that the task was spawned in. Without telemetry this does nothing.
pub(crate) fn continue_from(span: &Span, traceparent: Option<&str>) {
    let Some(traceparent) = traceparent else { return };
    let carrier = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
    let context = TraceContextPropagator::new().extract(&carrier);
    // It fails only where no telemetry listens.
    let _ = span.set_parent(context);
}
