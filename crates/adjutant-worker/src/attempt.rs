//! One attempt, from the claim until its end is stored.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use adjutant_agent::FailureKind;
use futures::FutureExt;
use tracing::Instrument;

use crate::claim::Claimed;
use crate::handler::{End, Handler, Stop, ending};
use crate::telemetry::{self, DelegationCompleted};
use crate::worker_state::{WorkerState, Written};
use crate::{Task, subagent_events};

pub(crate) async fn run<H: Handler>(state: Arc<WorkerState>, handler: Arc<H>, claimed: Claimed) {
    let held = claimed.held.clone();
    let lease = claimed.claim.lease.id();
    let mut task = Task::new(claimed, &state);
    let (limit, left) = (time_limit(&state, &task), time_left(&state, &task));
    let (span, started) = (telemetry::attempt_span(&task), Instant::now());
    span.in_scope(|| telemetry::log_start(&task));
    let end = tokio::select! {
        biased;
        () = held.taken_away() => None,
        () = state.abort_handlers.cancelled() => Some(Err(Stop::HandOver)),
        () = tokio::time::sleep(left.unwrap_or_default()), if left.is_some() => {
            Some(Ok(timed_out(limit.unwrap_or_default(), task.unfinished_text())))
        }
        end = AssertUnwindSafe(handler.run(&mut task).instrument(span.clone())).catch_unwind() => {
            Some(end.unwrap_or_else(|panic| Ok(panicked(&*panic))))
        }
    };
    task.report_broken_calls().instrument(span.clone()).await;
    let took = started.elapsed();
    span.in_scope(|| telemetry::log_end(&task, &span, end.as_ref(), took));
    drop(span);
    let completed = DelegationCompleted::of(&task, end.as_ref(), took);
    match end {
        Some(end) => {
            let (id, has_telemetry) = (task.id(), subagent_events::has_telemetry(&task));
            let written = state.end(ending(task.lease, end)).await;
            if let (Written::Stored, Some(completed)) = (written, completed) {
                completed.log();
                if has_telemetry {
                    subagent_events::log_ends(&state.store, &[id]).await;
                }
            }
        }
        // The task was cancelled or taken over: there is no end to write.
        None => {
            state.leases.remove(lease);
            state.slot_is_free();
        }
    }
}

/// What earlier attempts left of the time limit.
fn time_left(state: &WorkerState, task: &Task) -> Option<Duration> {
    let ran = Duration::from_millis(u64::try_from(task.assignment().running_ms).unwrap_or(0));
    time_limit(state, task).map(|limit| limit.saturating_sub(ran))
}

/// The shorter of the task's own limit and the operator's.
fn time_limit(state: &WorkerState, task: &Task) -> Option<Duration> {
    let own = task.assignment().config.get("timeout_s").and_then(serde_json::Value::as_f64);
    let own = own.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    own.into_iter().chain(state.settings.time_limit).min()
}

/// Without unfinished text, the store keeps the text of the last stored turn.
fn timed_out(limit: Duration, partial_result: Option<String>) -> End {
    let error = format!("It ran for longer than {} seconds", limit.as_secs_f64());
    End::Failed { failure: FailureKind::Timeout, error, partial_result }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> End {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let error = format!("Its handler panicked: {}", message.unwrap_or("no message"));
    End::Failed { failure: FailureKind::Internal, error, partial_result: None }
}
