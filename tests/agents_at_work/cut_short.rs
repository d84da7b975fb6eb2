//! Calls that are cut short: by who cancels the task, and by the clock.

use std::time::{Duration, Instant};

use adjutant_agent::{FailureKind, TaskId, TaskState};
use adjutant_script::{Fault, Script, When, fault, text};
use adjutant_store::NewDelegation;
use serde_json::json;

use super::workplace::{CLERK, Done, WIRES, Workplace, to};
use crate::world::until;

const UNFINISHED: &str = "Of this you get the first half.";

const AT_LENGTH: &str =
    "This takes a while, since it comes a few letters at a time, and not one of them early.";

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
        .on(When::assignment("at length"))
        .then(first())
        .then(text(AT_LENGTH).chunks(6, Duration::from_millis(250)))
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

/// What the model said of the answer that was cut short, if it had begun with it.
#[track_caller]
fn assert_kept(done: &Done) {
    let kept = done.partial_result.as_deref().unwrap();
    if done.assignment.contains("half-way") {
        assert!(UNFINISHED.starts_with(kept) && kept.len() >= 4, "{kept:?}");
    } else {
        assert_eq!(kept, "So far, so good.");
    }
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
    until("what they were told is drafted", async || {
        place.world.count("select count(*) from draft where answer = 2").await == 2
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
        assert_kept(&done);
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
        assert_kept(&done);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_task_cancelled_in_the_middle_of_an_answer_has_what_was_said_of_it() {
    let place = Workplace::new(script()).await;
    let worker = place.worker();
    let tasks = place.give_on_both(CLERK, "Speak at length.").await;
    until("both speak, and it is drafted", async || {
        place.world.count("select count(*) from draft where answer = 2").await == 2
    })
    .await;
    for task in tasks {
        let cancelled = place.world.store.cancel(task).await.unwrap();
        let said = cancelled.partial_result.unwrap();
        assert!(AT_LENGTH.starts_with(&said) && said.len() >= 12 && said.len() < AT_LENGTH.len(), "{said:?}");
        assert_eq!(place.look_at(task).await.partial_result.as_deref(), Some(said.as_str()));
    }
    drop(worker);
    place.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_goes_when_its_answer_is_stored_and_a_short_answer_has_none() {
    let place = Workplace::new(script()).await;
    sqlx::raw_sql(
        "create table drafted (answer integer);
         create function note() returns trigger language plpgsql as $$
         begin insert into drafted values (new.answer); return null; end $$;
         create trigger noted after insert or update on draft for each row execute function note()",
    )
    .execute(&place.world.sql)
    .await
    .unwrap();
    let _worker = place.worker();
    for done in place.run_on_both(CLERK, "Speak at length.").await {
        done.assert_completed(AT_LENGTH);
    }
    until("no draft is left", async || place.world.count("select count(*) from draft").await == 0).await;
    assert_eq!(place.world.count("select count(distinct answer) from drafted").await, 1);
    assert!(place.world.count("select count(*) from drafted where answer = 2").await >= 2);
    place.close().await;
}
