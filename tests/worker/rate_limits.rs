//! Rate limits: the limit that one worker gets applies to all workers.

use std::time::{Duration, SystemTime};

use adjutant_agent::TaskState;
use adjutant_script::{Answer, Script, When, status, text, tool_call};
use adjutant_store::GateCause;
use chrono::{DateTime, Utc};
use serde_json::json;

use crate::support::fleet::{CLERK, Fleet, WIRES, model_config};
use crate::support::worker_process::WorkerProcess;
use crate::support::world::until;

const TURNS: u32 = 12;

/// Without a gate there would be calls all the time for longer than the limit lasts.
fn another_turn() -> Answer {
    tool_call("shared_context", json!({"action": "list_keys"})).delay(Duration::from_millis(300))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_seen_by_one_worker_pauses_all_four_on_openai() {
    holds_all_back("openai", status(429).retry_after(3.0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_seen_by_one_worker_pauses_all_four_on_anthropic() {
    holds_all_back("anthropic", status(429).reset_after(3.0)).await;
}

async fn holds_all_back(wire: &str, limit: Answer) {
    let script = Script::new()
        .on(When::assignment("one too many"))
        .turn(3, [limit, another_turn()])
        .on(When::any())
        .turn(TURNS, text("Done."))
        .answer(another_turn());
    let fleet = Fleet::new(script).await;
    let start = || WorkerProcess::start(fleet.work().env("ADJUTANT_CONCURRENCY", "2"));
    let _fleet = [start(), start(), start(), start()];
    let mut tasks = vec![fleet.give(wire, CLERK, "Ask one too many.").await];
    for n in 1..8 {
        tasks.push(fleet.give(wire, CLERK, &format!("Ask, number {n}.")).await);
    }
    for task in tasks {
        fleet.done(task).await.assert_completed("Done.");
    }
    assert_eq!(
        fleet.world.count("select count(distinct worker) from attempt").await,
        4,
        "all had a part in it"
    );

    let requests = fleet.model.requests();
    let limited =
        requests.iter().find(|request| request.end == Some(adjutant_script::End::Failed)).unwrap();
    let after = |request: &adjutant_script::RecordedRequest| {
        request.arrived.saturating_duration_since(limited.arrived)
    };
    let (settled, over) = (Duration::from_millis(250), Duration::from_secs(3));
    let meanwhile: Vec<Duration> =
        requests.iter().map(after).filter(|after| (settled..over).contains(after)).collect();
    assert_eq!(meanwhile, [Duration::ZERO; 0], "no call begins while the gate is closed");
    let before = requests.iter().filter(|request| request.arrived < limited.arrived).count();
    let then = requests.iter().map(after).filter(|after| *after >= over).count();
    assert!(before >= 16 && then >= 32, "{before} calls before it, and {then} after it");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_at_a_gate_closed_for_long_gives_its_slot_to_other_models() {
    gives_its_slot_to_others(429).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_model_is_down_for_long_gives_its_slot_to_other_models() {
    gives_its_slot_to_others(503).await;
}

async fn gives_its_slot_to_others(refusal: u16) {
    let script = Script::new()
        .on(When::assignment("be patient"))
        .then([status(refusal).retry_after(30.0), text("It was worth it.")])
        .on(When::assignment("hurry"))
        .then(text("Here I am."));
    let fleet = Fleet::new(script).await;
    fleet.world.store.set_cap(1).await.unwrap();
    let _worker = fleet.worker();
    let patient = fleet.give("openai", CLERK, "Please be patient.").await;
    let hurried = fleet.give("anthropic", CLERK, "Please hurry.").await;
    fleet.done(hurried).await.assert_completed("Here I am.");
    assert_eq!(fleet.state(patient).await, TaskState::Queued);
    let wait: f64 = sqlx::query_scalar(
        "select extract(epoch from t.not_before - a.ended_at)::float8 from task t join attempt a on a.task = t.id where t.id = $1",
    )
    .bind(patient.0)
    .fetch_one(&fleet.world.sql)
    .await
    .unwrap();
    assert!((29.0..=31.0).contains(&wait), "{wait} s");

    // The gate opens.
    for passed in [
        "update model_gate set closed_until = now()",
        "update task set not_before = now() where not_before > now()",
    ] {
        sqlx::query(passed).execute(&fleet.world.sql).await.unwrap();
    }
    let done = fleet.done(patient).await;
    done.assert_completed("It was worth it.");
    assert_eq!((done.attempt, done.requests.len()), (2, 2));
    assert_eq!(
        fleet.world.count("select sum(failures) from task").await,
        0,
        "patience is no failure"
    );
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_after_is_obeyed_in_every_form() {
    // Each task has its own model, because a gate belongs to a model.
    let forms: [(&str, Answer); 4] = [
        ("seconds", status(429).retry_after(1.0)),
        ("date", status(429).retry_after_date(1.0)),
        ("reset", status(429).reset_after(1.0)),
        ("overloaded", status(529).retry_after(1.0)),
    ];
    let models = || {
        forms.iter().flat_map(|(form, _)| WIRES.map(|wire| (wire, format!("{wire}_{form}"), *form)))
    };
    let mut script = Script::new();
    for (form, limit) in &forms {
        script =
            script.on(When::assignment(format!("as {form}"))).then([limit.clone(), text("Now.")]);
    }
    let fleet = Fleet::with(script, |server| {
        models().map(|(wire, name, _)| model_config(&name, wire, server, "")).collect()
    })
    .await;
    let _worker = fleet.worker();
    let mut tasks = Vec::new();
    for (_, name, form) in models() {
        tasks.push(fleet.give(&name, CLERK, &format!("Wait as {form}, on {name}.")).await);
    }
    for task in tasks {
        let done = fleet.done(task).await;
        done.assert_completed("Now.");
        let [first, second] = &done.requests[..] else { panic!("{done:#?}") };
        let waited = second.arrived - first.arrived;
        // A date has no fractions, and waiting calls are spread over half a second.
        let longest = Duration::from_secs(4);
        assert!(
            (Duration::from_secs(1)..longest).contains(&waited),
            "{}: {waited:?}",
            done.assignment
        );
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_call_waits_for_a_closed_gate() {
    let fleet = Fleet::new(Script::new().on(When::any()).then(text("Now."))).await;
    fleet
        .world
        .store
        .close_gate("openai", Duration::from_secs(2), GateCause::default())
        .await
        .unwrap();
    let opens: DateTime<Utc> = sqlx::query_scalar("select closed_until from model_gate")
        .fetch_one(&fleet.world.sql)
        .await
        .unwrap();
    let _worker = fleet.worker();
    let task = fleet.give("openai", CLERK, "Wait for it.").await;
    until("it runs", async || fleet.state(task).await != TaskState::Queued).await;
    let done = fleet.done(task).await;
    done.assert_completed("Now.");
    assert_eq!(done.attempt, 1, "it kept its slot");
    assert!(done.requests[0].arrived_at >= SystemTime::from(opens));
    fleet.close().await;
}
