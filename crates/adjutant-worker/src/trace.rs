//! Carries one trace from the call that spawns a task through the queue to the attempts of its
//! workers. Without telemetry the calls do their work and record nothing.

use std::collections::HashMap;

use adjutant_agent::SessionId;
use adjutant_store::{Error, IdempotencyKey, NewDelegation, NewTask, Operator, Spawned, Store};
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::field::Empty;
use tracing::{Instrument, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The current span as a W3C traceparent.
pub fn traceparent() -> Option<String> {
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut carrier);
    carrier.remove("traceparent")
}

/// Spawns as [`Store::spawn`] does. Tasks without a traceparent continue the trace of this call.
pub async fn spawn(
    store: &Store,
    session: SessionId,
    tasks: &[NewTask],
    key: Option<IdempotencyKey<'_>>,
) -> Result<Vec<Spawned>, Error> {
    let agent = tasks.first().map_or("", |task| task.agent.as_str());
    let span = spawn_span(agent, tasks.len());
    let spawning = async { store.spawn(session, &in_this_trace(tasks, None), key).await };
    let spawned = spawning.instrument(span.clone()).await;
    record_error(&span, &spawned);
    spawned
}

/// Delegates as [`Store::delegate`] does. A task without a traceparent continues the trace of this
/// call.
pub async fn delegate(
    store: &Store,
    session: SessionId,
    new: &NewDelegation,
    operator: &Operator,
    key: Option<IdempotencyKey<'_>>,
) -> Result<Spawned, Error> {
    let span = spawn_span(&new.task.agent, 1);
    let delegating = async {
        let mut new = new.clone();
        new.task.traceparent = new.task.traceparent.or_else(traceparent);
        store.delegate(session, &new, operator, key).await
    };
    let spawned = delegating.instrument(span.clone()).await;
    record_error(&span, &spawned);
    spawned
}

fn spawn_span(agent: &str, tasks: usize) -> Span {
    tracing::info_span!(
        "spawn_task",
        otel.name = format!("spawn_task {agent}"),
        otel.kind = "producer",
        otel.status_code = Empty,
        gen_ai.operation.name = "spawn_task",
        gen_ai.agent.name = agent,
        task.count = tasks,
        error.type = Empty,
    )
}

fn record_error<T>(span: &Span, spawned: &Result<T, Error>) {
    if let Err(error) = spawned {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", kind(error));
    }
}

fn kind(error: &Error) -> &'static str {
    match error {
        Error::Refused(_) => "refused",
        Error::LeaseLost(_) => "lease_lost",
        Error::Schema(_) => "schema",
        Error::Unavailable(_) => "unavailable",
        Error::Unexpected(_) => "unexpected",
    }
}

/// The tasks, each with a traceparent: its own, else the current one, else `otherwise`.
pub(crate) fn in_this_trace(tasks: &[NewTask], otherwise: Option<&str>) -> Vec<NewTask> {
    let here = traceparent().or_else(|| otherwise.map(str::to_owned));
    let traced = |task: &NewTask| NewTask {
        traceparent: task.traceparent.clone().or_else(|| here.clone()),
        ..task.clone()
    };
    tasks.iter().map(traced).collect()
}

/// Makes the span a child of the span that spawned the task.
pub(crate) fn continue_from(span: &Span, traceparent: Option<&str>) {
    let Some(traceparent) = traceparent else { return };
    let carrier = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
    let context = TraceContextPropagator::new().extract(&carrier);
    // This fails only if no telemetry layer is installed.
    let _ = span.set_parent(context);
}
