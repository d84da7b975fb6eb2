//! Model calls that are interrupted by a cancel or a time limit.

use std::time::{Duration, Instant};

use adjutant_agent::{FailureKind, TaskId, TaskState};
use adjutant_script::{Fault, Script, When, fault, text};
use adjutant_store::NewDelegation;
use serde_json::json;

use crate::support::fleet::{CLERK, Done, Fleet, WIRES, to};
use crate::support::world::until;

const UNFINISHED: &str = "Of this you get the first half.";

const AT_LENGTH: &str =
    "This takes a while, since it comes a few letters at a time, and not one of them early.";

/// One turn, and then a model call that hangs.
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

async fn hang(fleet: &Fleet, timeout_s: Option<f64>) -> Vec<TaskId> {
    let mut tasks = Vec::new();
    for wire in WIRES {
        for place_of_hanging in ["before headers", "half-way", "in a tool"] {
            let session = fleet.session(wire).await;
            let assignment = format!("Hang {place_of_hanging} ({wire}).");
            tasks.push(
                fleet
                    .delegate(session, NewDelegation { timeout_s, ..to(CLERK, &assignment) })
                    .await,
            );
        }
    }
    tasks
}

/// The text of the interrupted answer, if there was any.
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
async fn cancelling_a_task_aborts_its_model_call_within_a_second() {
    let fleet = Fleet::new(script()).await;
    let _worker = fleet.worker();
    let tasks = hang(&fleet, None).await;
    // Four first turns, four that hang, and two tools.
    fleet.model.wait_for_requests(10).await;
    until("the tools are called too", async || fleet.tools.calls_of("held").len() == 2).await;
    until("their first turns are seen while they run", async || {
        let running = fleet
            .world
            .count("select count(*) from task_history where state = 'running' and turns_used = 1");
        running.await == 6
    })
    .await;
    until("what they were told is drafted", async || {
        fleet.world.count("select count(*) from draft where answer = 2").await == 2
    })
    .await;
    let began = Instant::now();
    for task in &tasks {
        fleet.world.store.cancel(*task).await.unwrap();
    }
    until("the model has seen all hang up", async || fleet.model.request_counts().hung_up == 4)
        .await;
    assert!(began.elapsed() < Duration::from_secs(1), "after {:?}", began.elapsed());
    for task in tasks {
        let done = fleet.look_at(task).await;
        assert_eq!((done.state, done.attempt), (TaskState::Cancelled, 1));
        assert_kept(&done);
    }
    until("the worker has room again", async || {
        fleet.world.count("select count(task) from slot").await == 0
    })
    .await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_at_its_time_limit_aborts_its_call_and_fails_with_its_text() {
    let fleet = Fleet::new(script()).await;
    let _worker = fleet.worker();
    let tasks = hang(&fleet, Some(1.5)).await;
    for task in tasks {
        let done = fleet.done(task).await;
        done.assert_failed(FailureKind::Timeout, "It ran for longer than 1.5 seconds");
        assert_kept(&done);
        assert_eq!(done.turns_used, 1);
        let ran: f64 = sqlx::query_scalar(
            "select extract(epoch from ended_at - claimed_at)::float8 from attempt where task = $1",
        )
        .bind(task.0)
        .fetch_one(&fleet.world.sql)
        .await
        .unwrap();
        assert!((1.5..2.5).contains(&ran), "{ran} s");
    }
    until("the model has seen all hang up", async || fleet.model.request_counts().hung_up == 4)
        .await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_cancelled_in_the_middle_of_an_answer_keeps_the_partial_answer() {
    let fleet = Fleet::new(script()).await;
    let worker = fleet.worker();
    let tasks = fleet.give_on_both(CLERK, "Speak at length.").await;
    until("both speak, and it is drafted", async || {
        fleet.world.count("select count(*) from draft where answer = 2").await == 2
    })
    .await;
    for task in tasks {
        let cancelled = fleet.world.store.cancel(task).await.unwrap();
        let said = cancelled.partial_result.unwrap();
        assert!(
            AT_LENGTH.starts_with(&said) && said.len() >= 12 && said.len() < AT_LENGTH.len(),
            "{said:?}"
        );
        assert_eq!(fleet.look_at(task).await.partial_result.as_deref(), Some(said.as_str()));
    }
    drop(worker);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_goes_when_its_answer_is_stored_and_a_short_answer_has_none() {
    let fleet = Fleet::new(script()).await;
    sqlx::raw_sql(
        "create table drafted (answer integer);
         create function note() returns trigger language plpgsql as $$
         begin insert into drafted values (new.answer); return null; end $$;
         create trigger noted after insert or update on draft for each row execute function note()",
    )
    .execute(&fleet.world.sql)
    .await
    .unwrap();
    let _worker = fleet.worker();
    for done in fleet.run_on_both(CLERK, "Speak at length.").await {
        done.assert_completed(AT_LENGTH);
    }
    until("no draft is left", async || fleet.world.count("select count(*) from draft").await == 0)
        .await;
    assert_eq!(fleet.world.count("select count(distinct answer) from drafted").await, 1);
    assert!(fleet.world.count("select count(*) from drafted where answer = 2").await >= 2);
    fleet.close().await;
}
