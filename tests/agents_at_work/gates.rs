//! Rate limits: what one worker is told holds for all of them.

use std::time::{Duration, SystemTime};

use adjutant_agent::TaskState;
use adjutant_script::{Answer, Script, When, status, text, tool_call};
use chrono::{DateTime, Utc};
use serde_json::json;

use super::workplace::{CLERK, WIRES, Workplace, model_config};
use crate::fleet::process::WorkerProcess;
use crate::world::until;

const TURNS: u32 = 12;

/// Without a gate there would be calls all the time for longer than the limit lasts.
fn another_turn() -> Answer {
    tool_call("shared_context", json!({"action": "list_keys"})).delay(Duration::from_millis(300))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_that_one_of_four_workers_sees_holds_all_back_until_it_is_over_on_openai() {
    holds_all_back("openai", status(429).retry_after(3.0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_that_one_of_four_workers_sees_holds_all_back_until_it_is_over_on_anthropic() {
    holds_all_back("anthropic", status(429).reset_after(3.0)).await;
}

async fn holds_all_back(wire: &str, limit: Answer) {
    let script = Script::new()
        .on(When::assignment("one too many"))
        .turn(3, [limit, another_turn()])
        .on(When::any())
        .turn(TURNS, text("Done."))
        .answer(another_turn());
    let place = Workplace::new(script).await;
    let start = || WorkerProcess::start(place.work().env("ADJUTANT_CONCURRENCY", "2"));
    let _fleet = [start(), start(), start(), start()];
    let mut tasks = vec![place.give(wire, CLERK, "Ask one too many.").await];
    for n in 1..8 {
        tasks.push(place.give(wire, CLERK, &format!("Ask, number {n}.")).await);
    }
    for task in tasks {
        place.done(task).await.assert_completed("Done.");
    }
    assert_eq!(
        place.world.count("select count(distinct worker) from attempt").await,
        4,
        "all had a part in it"
    );

    let requests = place.model.requests();
    let limited = requests.iter().find(|request| request.end == Some(adjutant_script::End::Failed)).unwrap();
    let after =
        |request: &adjutant_script::Recorded| request.arrived.saturating_duration_since(limited.arrived);
    let (settled, over) = (Duration::from_millis(250), Duration::from_secs(3));
    let meanwhile: Vec<Duration> =
        requests.iter().map(after).filter(|after| (settled..over).contains(after)).collect();
    assert_eq!(meanwhile, [Duration::ZERO; 0], "no call begins while the gate is closed");
    let before = requests.iter().filter(|request| request.arrived < limited.arrived).count();
    let then = requests.iter().map(after).filter(|after| *after >= over).count();
    assert!(before >= 16 && then >= 32, "{before} calls before it, and {then} after it");
    place.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_at_a_gate_that_stays_closed_for_long_gives_its_slot_to_tasks_of_other_models() {
    gives_its_slot_to_others(429).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_model_is_away_for_long_gives_its_slot_to_tasks_of_other_models() {
    gives_its_slot_to_others(503).await;
}

async fn gives_its_slot_to_others(refusal: u16) {
    let script = Script::new()
        .on(When::assignment("be patient"))
        .then([status(refusal).retry_after(30.0), text("It was worth it.")])
        .on(When::assignment("hurry"))
        .then(text("Here I am."));
    let place = Workplace::new(script).await;
    place.world.store.set_cap(1).await.unwrap();
    let _worker = place.worker();
    let patient = place.give("openai", CLERK, "Please be patient.").await;
    let hurried = place.give("anthropic", CLERK, "Please hurry.").await;
    place.done(hurried).await.assert_completed("Here I am.");
    assert_eq!(place.state(patient).await, TaskState::Queued);
    let wait: f64 = sqlx::query_scalar(
        "select extract(epoch from t.not_before - a.ended_at)::float8 from task t join attempt a on a.task = t.id where t.id = $1",
    )
    .bind(patient.0)
    .fetch_one(&place.world.sql)
    .await
    .unwrap();
    assert!((29.0..=31.0).contains(&wait), "{wait} s");

    // Time passes.
    for passed in [
        "update model_gate set closed_until = now()",
        "update task set not_before = now() where not_before > now()",
    ] {
        sqlx::query(passed).execute(&place.world.sql).await.unwrap();
    }
    let done = place.done(patient).await;
    done.assert_completed("It was worth it.");
    assert_eq!((done.attempt, done.requests.len()), (2, 2));
    assert_eq!(place.world.count("select sum(failures) from task").await, 0, "patience is no failure");
    place.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_providers_time_is_kept_in_each_form_in_which_it_comes() {
    // One model each: a gate is the model's.
    let forms: [(&str, Answer); 4] = [
        ("seconds", status(429).retry_after(1.0)),
        ("date", status(429).retry_after_date(1.0)),
        ("reset", status(429).reset_after(1.0)),
        ("overloaded", status(529).retry_after(1.0)),
    ];
    let models =
        || forms.iter().flat_map(|(form, _)| WIRES.map(|wire| (wire, format!("{wire}_{form}"), *form)));
    let mut script = Script::new();
    for (form, limit) in &forms {
        script = script.on(When::assignment(format!("as {form}"))).then([limit.clone(), text("Now.")]);
    }
    let place = Workplace::with(script, |server| {
        models().map(|(wire, name, _)| model_config(&name, wire, server, "")).collect()
    })
    .await;
    let _worker = place.worker();
    let mut tasks = Vec::new();
    for (_, name, form) in models() {
        tasks.push(place.give(&name, CLERK, &format!("Wait as {form}, on {name}.")).await);
    }
    for task in tasks {
        let done = place.done(task).await;
        done.assert_completed("Now.");
        let [first, second] = &done.requests[..] else { panic!("{done:#?}") };
        let waited = second.arrived - first.arrived;
        // A date has no fractions, and those who wait come within half a second.
        let longest = Duration::from_secs(4);
        assert!((Duration::from_secs(1)..longest).contains(&waited), "{}: {waited:?}", done.assignment);
    }
    place.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_is_closed_already_is_waited_for_before_the_first_call() {
    let place = Workplace::new(Script::new().on(When::any()).then(text("Now."))).await;
    place.world.store.close_gate("openai", Duration::from_secs(2)).await.unwrap();
    let opens: DateTime<Utc> =
        sqlx::query_scalar("select closed_until from model_gate").fetch_one(&place.world.sql).await.unwrap();
    let _worker = place.worker();
    let task = place.give("openai", CLERK, "Wait for it.").await;
    until("it runs", async || place.state(task).await != TaskState::Queued).await;
    let done = place.done(task).await;
    done.assert_completed("Now.");
    assert_eq!(done.attempt, 1, "it kept its slot");
    assert!(done.requests[0].arrived_at >= SystemTime::from(opens));
    place.close().await;
}
