//! Limits of a model hold over all worker processes, counted at the model server.

use std::time::Duration;

use adjutant_agent::{TaskId, TaskState};
use adjutant_script::{Answer, End, RecordedRequest, Script, Usage, When, text, tool_call};
use serde_json::json;

use crate::support::fleet::{CLERK, Fleet, model_config};
use crate::support::worker_process::WorkerProcess;
use crate::support::world::until;

const SLOW: &str = "slow";

/// A fleet with a model of this wire and these limits.
async fn limited(script: Script, wire: &str, limits: &str) -> Fleet {
    let limits = format!("{limits}\n");
    Fleet::with(script, |server| model_config(SLOW, wire, server, &limits)).await
}

/// Moves all grants and all delays a window into the past.
async fn a_minute_passes(fleet: &Fleet) {
    for passed in [
        "update model_usage set second = second - 63",
        "update model_waiter set due_at = due_at - interval '63 seconds'",
        "update task set not_before = not_before - interval '63 seconds' where not_before is not null",
    ] {
        sqlx::query(passed).execute(&fleet.world.sql).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_tasks_on_a_model_that_allows_four_a_minute_all_finish_in_order() {
    let script = Script::new().on(When::any()).then(text("Done."));
    let fleet = limited(script, "openai", "requests_per_minute = 4").await;
    let start = || WorkerProcess::start(fleet.work().env("ADJUTANT_CONCURRENCY", "2"));
    let mut workers = [start(), start(), start(), start()];
    let mut tasks = Vec::new();
    for n in 1..=16 {
        tasks.push(fleet.give(SLOW, CLERK, &format!("Number {n:02}.")).await);
        // The order is that in which they ask, and workers claim side by side.
        until("it has been called or has a place", async || placed(&fleet).await == n).await;
    }
    for minute in 1..=4 {
        let expected = 4 * minute;
        until("the calls of this minute have ended", async || {
            ended(&fleet).await == i64::try_from(expected).unwrap()
        })
        .await;
        until("the others have given their slots back", async || {
            fleet.world.count("select count(*) from slot where task is not null").await == 0
        })
        .await;
        let mut called: Vec<String> = called(&fleet)[expected - 4..].to_vec();
        called.sort();
        let turns: Vec<String> =
            (expected - 3..=expected).map(|n| format!("Number {n:02}.")).collect();
        assert_eq!(called, turns, "first come, first served");
        assert_eq!(fleet.model.requests().len(), expected, "no more than four in this minute");
        if minute == 2 {
            workers[0].kill();
        }
        a_minute_passes(&fleet).await;
    }
    for task in &tasks {
        fleet.done(*task).await.assert_completed("Done.");
    }
    assert!(fleet.model.requests().iter().all(|request| request.end == Some(End::Answered)));
    // The first four ran at once. Every other task asked once and came back when it was due.
    let attempts = fleet.world.count("select sum(attempt)::bigint from task").await;
    assert!((28..=34).contains(&attempts), "{attempts} attempts of 16 tasks");
    assert_eq!(fleet.world.count("select sum(failures)::bigint from task").await, 0);
    fleet.close().await;
}

async fn placed(fleet: &Fleet) -> i64 {
    let waiting = fleet.world.count("select count(*) from model_waiter").await;
    waiting + i64::try_from(fleet.model.requests().len()).unwrap()
}

async fn ended(fleet: &Fleet) -> i64 {
    fleet.world.count("select count(*) from task where state = 'completed'").await
}

fn called(fleet: &Fleet) -> Vec<String> {
    fleet.model.requests().iter().map(|request| request.assignment().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_frees_its_calls_and_its_task_is_called_again() {
    let script = Script::new()
        .on(When::assignment("the lost one"))
        .then([text("Never read.").delay(Duration::from_secs(60)), text("Done.")])
        .on(When::any())
        .then(text("Done."));
    let fleet = limited(script, "anthropic", "requests_per_minute = 4\nmax_concurrency = 1").await;
    let mut doomed = fleet.worker();
    let lost = fleet.give(SLOW, CLERK, "Be the lost one.").await;
    fleet.model.wait_for_requests(1).await;
    let _others = [fleet.worker(), fleet.worker(), fleet.worker()];
    let next = fleet.give(SLOW, CLERK, "Be the next one.").await;
    until("it waits", async || fleet.world.count("select count(*) from model_waiter").await == 1)
        .await;
    assert_eq!(fleet.model.requests().len(), 1, "the one permit is taken");
    doomed.kill();
    fleet.done(lost).await.assert_completed("Done.");
    fleet.done(next).await.assert_completed("Done.");
    assert_eq!(fleet.model.requests().len(), 3);
    fleet.world.assert_ended_once().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn max_concurrency_holds_over_all_workers_at_the_server() {
    let script = Script::new()
        .on(When::any())
        .turn(3, text("Done.").delay(Duration::from_millis(100)))
        .answer(
            tool_call("shared_context", json!({"action": "list_keys"}))
                .delay(Duration::from_millis(100)),
        );
    let fleet = limited(script, "openai", "max_concurrency = 3").await;
    let _workers = [fleet.worker(), fleet.worker(), fleet.worker(), fleet.worker()];
    let mut tasks = Vec::new();
    for n in 0..16 {
        tasks.push(fleet.give(SLOW, CLERK, &format!("Number {n}.")).await);
    }
    for task in tasks {
        fleet.done(task).await.assert_completed("Done.");
    }
    let requests = fleet.model.requests();
    assert_eq!(requests.len(), 48);
    let most = requests.iter().map(|one| at_once(&requests, one)).max();
    assert_eq!(most, Some(3), "all that is allowed, and no more");
    assert!(fleet.world.count("select count(distinct worker) from attempt").await > 1);
    fleet.close().await;
}

/// How many requests were under way when this one came.
fn at_once(requests: &[RecordedRequest], one: &RecordedRequest) -> usize {
    let is_under_way = |other: &&RecordedRequest| {
        other.arrived <= one.arrived && other.ended.is_none_or(|ended| ended > one.arrived)
    };
    requests.iter().filter(is_under_way).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_reserved_before_a_call_and_settled_after_it() {
    let usage = Usage { input_tokens: 40, output_tokens: 2, ..Usage::default() };
    let answer = text("Done.").with_usage(usage).delay(Duration::from_millis(500));
    let script = Script::new().on(When::any()).then(answer);
    let limits = "tokens_per_minute = 9000\nmax_tokens = 4000";
    let fleet = limited(script, "openai", limits).await;
    let _worker = fleet.worker();
    let first = fleet.give(SLOW, CLERK, "Number 1.").await;
    fleet.model.wait_for_requests(1).await;
    let reserved = fleet.world.count("select sum(tokens)::bigint from model_usage").await;
    assert!((4001..=9000).contains(&reserved), "the answer and the prompt: {reserved}");
    fleet.done(first).await.assert_completed("Done.");
    until("it is settled", async || {
        fleet.world.count("select sum(tokens)::bigint from model_usage").await == 42
    })
    .await;
    let second = fleet.give(SLOW, CLERK, "Number 2.").await;
    fleet.done(second).await.assert_completed("Done.");
    until("both are settled", async || {
        fleet.world.count("select sum(tokens)::bigint from model_usage").await == 84
    })
    .await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_models_headers_hold_back_other_workers_before_they_are_refused_on_openai() {
    headers_hold_back("openai").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_models_headers_hold_back_other_workers_before_they_are_refused_on_anthropic() {
    headers_hold_back("anthropic").await;
}

async fn headers_hold_back(wire: &str) {
    let last: Answer = text("Done.").reset_after(40.0);
    let script = Script::new().on(When::assignment("the last")).then(last).on(When::any());
    let fleet = limited(script.then(text("Done.")), wire, "requests_per_minute = 1000").await;
    let mut worker = fleet.worker();
    let last = fleet.give(SLOW, CLERK, "Be the last.").await;
    fleet.done(last).await.assert_completed("Done.");
    until("the headers are known", async || {
        fleet.world.count("select count(remaining_requests) from model_limit").await == 1
    })
    .await;
    worker.signal("TERM");
    worker.exited().await;
    let _other = fleet.worker();
    let held = fleet.give(SLOW, CLERK, "Wait for the reset.").await;
    let delay = until_delayed(&fleet, held).await;
    assert!((20.0..=42.0).contains(&delay), "{delay} s");
    assert_eq!(fleet.model.requests().len(), 1);
    assert_eq!(fleet.state(held).await, TaskState::Queued);
    for passed in [
        "update model_limit set requests_reset_at = now()",
        "update task set not_before = now() where not_before is not null",
    ] {
        sqlx::query(passed).execute(&fleet.world.sql).await.unwrap();
    }
    fleet.done(held).await.assert_completed("Done.");
    fleet.close().await;
}

/// The delay with which a task has given its slot back.
async fn until_delayed(fleet: &Fleet, task: TaskId) -> f64 {
    until("it has given its slot back", async || {
        fleet.world.count("select count(*) from task where not_before is not null").await == 1
    })
    .await;
    sqlx::query_scalar(
        "select extract(epoch from not_before - now())::float8 from task where id = $1",
    )
    .bind(task.0)
    .fetch_one(&fleet.world.sql)
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_without_limits_writes_nothing_about_its_calls() {
    let fleet = Fleet::new(Script::new().on(When::any()).then(text("Done."))).await;
    let _worker = fleet.worker();
    for done in fleet.run_on_both(CLERK, "Do it.").await {
        done.assert_completed("Done.");
    }
    // Every reservation leaves this row.
    assert_eq!(fleet.world.count("select count(*) from model_limit").await, 0);
    fleet.close().await;
}
