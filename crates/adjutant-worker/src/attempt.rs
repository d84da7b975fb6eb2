//! One attempt, from the claim to its written end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use adjutant_agent::FailureKind;
use futures::FutureExt;
use tracing::Instrument;

use crate::claim::Claimed;
use crate::handler::{End, Handler, Stop, ending};
use crate::station::{Station, Written};
use crate::{Task, report, tell_ends};

pub(crate) async fn attempt<H: Handler>(station: Arc<Station>, handler: Arc<H>, claimed: Claimed) {
    let hold = claimed.hold.clone();
    let lease = claimed.claim.lease.id();
    let mut task = Task::new(claimed, &station);
    let (limit, left) = (time_limit(&station, &task), time_left(&station, &task));
    let (span, began) = (report::span(&task), Instant::now());
    report::began(&task);
    let end = tokio::select! {
        biased;
        () = hold.taken_away() => None,
        () = station.cut_off.cancelled() => Some(Err(Stop::HandOver)),
        () = tokio::time::sleep(left.unwrap_or_default()), if left.is_some() => {
            Some(Ok(timed_out(limit.unwrap_or_default(), task.unfinished_text())))
        }
        end = AssertUnwindSafe(handler.run(&mut task).instrument(span.clone())).catch_unwind() => {
            Some(end.unwrap_or_else(|panic| Ok(panicked(&*panic))))
        }
    };
    report::ended(&task, &span, end.as_ref(), began.elapsed());
    drop(span);
    let completed = report::Completed::of(&task, end.as_ref());
    match end {
        Some(end) => {
            let (id, is_told) = (task.id(), tell_ends::is_told(&task));
            let written = station.end(ending(task.lease, end)).await;
            if let (Written::Stored, Some(completed)) = (written, completed) {
                completed.tell();
                if is_told {
                    tell_ends::tell_ends(&station.store, &[id]).await;
                }
            }
        }
        // Somebody else has ended it or goes on with it: there is nothing to write.
        None => {
            station.held.remove(lease);
            station.slot_is_free();
        }
    }
}

/// What is left of the task's time limit, and of the operator's, after earlier attempts.
fn time_left(station: &Station, task: &Task) -> Option<Duration> {
    let ran = Duration::from_millis(u64::try_from(task.assignment().running_ms).unwrap_or(0));
    time_limit(station, task).map(|limit| limit.saturating_sub(ran))
}

fn time_limit(station: &Station, task: &Task) -> Option<Duration> {
    let own = task.assignment().config.get("timeout_s").and_then(serde_json::Value::as_f64);
    let own = own.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    own.into_iter().chain(station.settings.time_limit).min()
}

/// Without an unfinished text, the last that was stored is kept.
fn timed_out(limit: Duration, partial_result: Option<String>) -> End {
    let error = format!("It ran for longer than {} seconds", limit.as_secs_f64());
    End::Failed { failure: FailureKind::Timeout, error, partial_result }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> End {
    let said =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let error = format!("Its handler panicked: {}", said.unwrap_or("without a word"));
    End::Failed { failure: FailureKind::Internal, error, partial_result: None }
}
