//! Calls that are cut short: by who cancels the task, and by the clock.

use std::time::{Duration, Instant};

use adjutant_agent::{FailureKind, TaskId, TaskState};
use adjutant_script::{Fault, Script, When, fault, text};
use adjutant_store::NewDelegation;
use serde_json::json;

use super::workplace::{CLERK, WIRES, Workplace, to};
use crate::world::until;

const UNFINISHED: &str = "Of this you get the first half.";

/// A turn, and then a call that does not end.
fn script() -> Script {
    let first = || text("So far, so good.").and_call("lookup", json!({}));
    Script::new()
        .on(When::assignment("before headers"))
        .then(first())
        .then(fault(Fault::HangBeforeHeaders))
        .on(When::assignment("half-way"))
        .then(first())
        .then(text(UNFINISHED).chunks(4, Duration::ZERO).with_fault(Fault::HangHalfway))
        .on(When::assignment("in a tool"))
        .then(text("So far, so good.").and_call("held", json!({})))
}

async fn hang(place: &Workplace, timeout_s: Option<f64>) -> Vec<TaskId> {
    let mut tasks = Vec::new();
    for wire in WIRES {
        for place_of_hanging in ["before headers", "half-way", "in a tool"] {
            let session = place.session(wire).await;
            let assignment = format!("Hang {place_of_hanging} ({wire}).");
            tasks.push(place.delegate(session, NewDelegation { timeout_s, ..to(CLERK, &assignment) }).await);
        }
    }
    tasks
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_task_hangs_up_on_its_model_within_a_second() {
    let place = Workplace::new(script()).await;
    let _worker = place.worker();
    let tasks = hang(&place, None).await;
    // Four first turns, four that hang, and two tools.
    place.model.wait_for_requests(10).await;
    until("the tools are called too", async || place.tools.calls_of("held").len() == 2).await;
    until("their first turns are seen while they run", async || {
        let running =
            place.world.count("select count(*) from task_history where state = 'running' and turns_used = 1");
        running.await == 6
    })
    .await;
    let began = Instant::now();
    for task in &tasks {
        place.world.store.cancel(*task).await.unwrap();
    }
    until("the model has seen all hang up", async || place.model.tally().hung_up == 4).await;
    assert!(began.elapsed() < Duration::from_secs(1), "after {:?}", began.elapsed());
    for task in tasks {
        let done = place.look_at(task).await;
        assert_eq!((done.state, done.attempt), (TaskState::Cancelled, 1));
        assert_eq!(done.partial_result.as_deref(), Some("So far, so good."));
    }
    until("the worker has room again", async || place.world.count("select count(task) from slot").await == 0)
        .await;
    place.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_time_is_up_hangs_up_and_fails_with_what_it_has_said() {
    let place = Workplace::new(script()).await;
    let _worker = place.worker();
    let tasks = hang(&place, Some(1.5)).await;
    for task in tasks {
        let done = place.done(task).await;
        done.assert_failed(FailureKind::Timeout, "It ran for longer than 1.5 seconds");
        let kept = done.partial_result.unwrap();
        if done.assignment.contains("half-way") {
            assert!(UNFINISHED.starts_with(&kept) && kept.len() >= 4, "{kept:?}");
        } else {
            assert_eq!(kept, "So far, so good.");
        }
        assert_eq!(done.turns_used, 1);
        let ran: f64 = sqlx::query_scalar(
            "select extract(epoch from ended_at - claimed_at)::float8 from attempt where task = $1",
        )
        .bind(task.0)
        .fetch_one(&place.world.sql)
        .await
        .unwrap();
        assert!((1.5..2.5).contains(&ran), "{ran} s");
    }
    until("the model has seen all hang up", async || place.model.tally().hung_up == 4).await;
    place.close().await;
}
