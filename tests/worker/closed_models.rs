//! Models that no call reaches: an empty account is final, a wrong key closes the model for the
//! fleet until it is mended, and tries count over attempts and workers.

use std::time::Duration;

use adjutant_agent::{FailureKind, TaskId, TaskState};
use adjutant_script::{Script, When, status, text};
use adjutant_server::Dialect;
use serde_json::json;

use crate::support::fleet::{CLERK, Fleet, model_config, to};
use crate::support::tool_client::{ToolClient, Transport};
use crate::support::world::{until, until_within};

/// A text of the provider, which nobody but it may repeat.
const SAID: &str = "BODY-WORDS";

/// The gates open, and the delays of tasks are over.
const PASSED: [&str; 2] = [
    "update model_gate set closed_until = now()",
    "update task set not_before = now() where not_before > now()",
];

async fn pass_time(fleet: &Fleet) {
    for statement in PASSED {
        sqlx::query(statement).execute(&fleet.world.sql).await.unwrap();
    }
}

async fn is_silent(fleet: &Fleet) -> bool {
    let repeated = "select (select count(*) from failed_call where error like '%BODY-WORDS%')
        + (select count(*) from model_gate where error like '%BODY-WORDS%')
        + (select count(*) from event where detail like '%BODY-WORDS%')";
    fleet.world.count(repeated).await == 0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_provider_wants_money_fails_after_one_call() {
    let refusals = [
        ("openai", "no quota", status(429).retry_after(0.1).with_error("insufficient_quota", SAID)),
        ("openai", "a limit", status(400).with_error("billing_hard_limit_reached", SAID)),
        ("openai", "a bill", status(402).with_error("payment_required", SAID)),
        ("anthropic", "a bill (2)", status(402).with_error("billing_error", SAID)),
        (
            "anthropic",
            "no credit",
            status(400).with_error(
                "invalid_request_error",
                "Your credit balance is too low to access the API. BODY-WORDS",
            ),
        ),
    ];
    let mut script = Script::new();
    for (_, name, refusal) in &refusals {
        script = script.on(When::assignment(format!("with {name}."))).then(refusal.clone());
    }
    let fleet = Fleet::new(script).await;
    let _worker = fleet.worker();
    let mut tasks = Vec::new();
    for (model, name, _) in &refusals {
        tasks.push(fleet.give(model, CLERK, &format!("End with {name}.")).await);
    }
    for task in tasks {
        let done = fleet.done(task).await;
        assert_eq!(
            (done.failure, done.requests.len(), done.attempt),
            (Some(FailureKind::Model), 1, 1)
        );
        let error = done.error.unwrap();
        let host = fleet.model.address().to_string();
        for part in [host.as_str(), "no credit left", "waiting does not help"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!error.contains(SAID), "{error}");
    }
    assert_eq!(fleet.world.count("select count(*) from model_gate").await, 0);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tries_count_over_releases_and_workers_one_of_which_is_killed() {
    let limit = status(429).retry_after(30.0).with_error("rate_limit_error", SAID);
    let fleet = Fleet::new(Script::new().on(When::any()).then(limit)).await;
    let mut doomed = fleet.doomed("default", "before_end:kill:3");
    let task = fleet.give("openai", CLERK, "Try again.").await;
    until("the worker has released the task twice and dies", async || {
        pass_time(&fleet).await;
        doomed.has_exited()
    })
    .await;
    doomed.killed_itself().await;
    let worker = fleet.worker();
    until_within(Duration::from_secs(60), "the task has ended", async || {
        pass_time(&fleet).await;
        fleet.state(task).await.is_terminal()
    })
    .await;
    let done = fleet.look_at(task).await;
    done.assert_model_failed(&fleet, "openai", "429 rate_limit_error: BODY-WORDS");
    assert_eq!(done.requests.len(), 8);
    assert!(done.attempt >= 4, "it was released between its tries: {}", done.attempt);
    assert!(is_silent(&fleet).await && !worker.stderr().contains(SAID));
    let events = "select count(*) from event where kind = 'retrying'";
    assert_eq!(fleet.world.count(events).await, 2, "however often it is tried");
    fleet.world.store.delete_stale_failed_calls().await.unwrap();
    assert_eq!(fleet.world.count("select count(*) from failed_call").await, 0);
    fleet.close().await;
}

async fn refused_calls(fleet: &Fleet, refused: i64) {
    let waiting = "select count(*) from failed_call f join task t on t.id = f.task
        where f.waits_since is not null and t.not_before > now() + interval '10 s'";
    until_within(Duration::from_secs(60), "all tasks wait", async || {
        fleet.world.count(waiting).await == 50
    })
    .await;
    assert_eq!(fleet.model.requests().len() as i64, refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_costs_one_call_a_minute_and_no_task_fails_before_it_is_mended() {
    let wrong = status(401).with_error("authentication_error", SAID);
    let script =
        Script::new().on(When::any()).answer(wrong).times(3).on(When::any()).then(text("Let in."));
    let fleet = Fleet::new(script).await;
    fleet.world.store.set_cap(8).await.unwrap();
    let workers = [fleet.worker(), fleet.worker()];
    let mut tasks = vec![fleet.give("openai", CLERK, "Knock first.").await];
    until("the model is closed", async || {
        fleet.world.count("select count(*) from model_gate where reason = 'circuit'").await == 1
    })
    .await;
    for n in 1..50 {
        tasks.push(fleet.give("openai", CLERK, &format!("Knock, number {n}.")).await);
    }
    refused_calls(&fleet, 1).await;
    for probes in 1..=2 {
        pass_time(&fleet).await;
        until("one more task was refused", async || fleet.model.requests().len() == 1 + probes)
            .await;
        refused_calls(&fleet, 1 + i64::try_from(probes).unwrap()).await;
    }
    assert!(is_silent(&fleet).await);
    assert_eq!(fleet.world.count("select count(*) from task where state = 'failed'").await, 0);
    assert_eq!(fleet.world.count("select max(tries)::bigint from failed_call").await, 0);

    // The key is mended. One task comes back, and its success wakes all the others.
    for passed in [
        "update task set not_before = now() + interval '1 hour' where not_before is not null",
        "update model_gate set closed_until = now()",
        "update task set not_before = now() where id = (select min(id::text)::uuid from task)",
    ] {
        sqlx::query(passed).execute(&fleet.world.sql).await.unwrap();
    }
    for task in tasks {
        fleet.done(task).await.assert_completed("Let in.");
    }
    assert_eq!(fleet.model.requests().len(), 3 + 50);
    assert_eq!(fleet.world.count("select count(*) from model_gate").await, 0);
    let logs = workers.map(|worker| worker.stderr()).concat();
    for line in ["gate of model openai closed (circuit)", "its circuit is open"] {
        assert_eq!(logs.matches(line).count(), 1, "{line}: {logs}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_waits_for_a_refused_key_as_long_as_its_patience_and_then_says_why() {
    let script =
        Script::new().on(When::any()).answer(status(403).with_error("permission_error", SAID));
    let fleet = Fleet::with(script, |_| "[limits]\nmodel_patience_s = 1\n".to_owned()).await;
    let _worker = fleet.worker();
    let task = fleet.give("openai", CLERK, "Be patient.").await;
    let done = fleet.done(task).await;
    let details = "403 permission_error; the task has waited for 1 s";
    done.assert_model_failed(&fleet, "openai", details);
    assert_eq!(done.requests.len(), 1);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_request_is_refused_while_others_are_answered_fails_alone() {
    let script = Script::new()
        .on(When::assignment("forbidden"))
        .answer(status(403).with_error("permission_error", SAID))
        .on(When::any())
        .then(text("Why not."));
    let fleet = Fleet::new(script).await;
    let _worker = fleet.worker();
    let forbidden = fleet.give("openai", CLERK, "Do what is forbidden.").await;
    until("it waits", async || {
        fleet.world.count("select count(*) from task where not_before is not null").await == 1
    })
    .await;
    let due = "update model_gate set closed_until = now()";
    sqlx::query(due).execute(&fleet.world.sql).await.unwrap();
    let allowed = fleet.give("openai", CLERK, "Do something else.").await;
    fleet.done(allowed).await.assert_completed("Why not.");
    let done = fleet.done(forbidden).await;
    done.assert_model_failed(&fleet, "openai", "403 permission_error");
    assert_eq!(done.requests.len(), 2);
    assert_eq!(fleet.world.count("select count(*) from model_gate").await, 0, "it is open");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_key_and_an_empty_account_send_calls_to_the_fallback() {
    let script = Script::new()
        .on(When::model("refused-test"))
        .answer(status(401).with_error("authentication_error", SAID))
        .on(When::model("empty-test"))
        .answer(status(402).with_error("billing_error", SAID))
        .on(When::model("second-test"))
        .then(text("Here instead."));
    let fleet = Fleet::with(script, |server| {
        let to_second = "fallback = [\"second\"]";
        [("refused", to_second), ("empty", to_second), ("second", "")]
            .map(|(name, more)| model_config(name, "anthropic", server, more))
            .concat()
    })
    .await;
    let _worker = fleet.worker();
    for model in ["refused", "empty"] {
        for n in 1..=2 {
            let task = fleet.give(model, CLERK, &format!("Go on, {n}, on {model}.")).await;
            let done = fleet.done(task).await;
            done.assert_completed("Here instead.");
            assert_eq!((done.requests.len(), done.attempt), (3 - n, 1), "{model} is closed now");
        }
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_tried_again_is_shown_with_its_model_host_error_and_next_try() {
    let fleet = Fleet::with(Script::new(), |_| {
        "[models.gone]\nwire = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n".to_owned()
    })
    .await;
    let server = std::sync::Arc::new(fleet.server());
    let worker = fleet.worker();
    let session = fleet.world.session_with(|session| {
        session.tenant = "default".to_owned();
        session.model = Some("gone".to_owned());
    });
    let session = session.await;
    let task: TaskId = fleet.delegate(session, to(CLERK, "Ask nobody.")).await;
    let name: String =
        sqlx::query_scalar("select name from session").fetch_one(&fleet.world.sql).await.unwrap();
    let shown = async || server.get(&format!("/v1/tasks/{task}")).await.ok(200)["retrying"].clone();
    until("it was tried twice", async || shown().await["tries"].as_i64() >= Some(2)).await;
    let retrying = shown().await;
    let text = retrying["text"].as_str().unwrap();
    let tries = &retrying["tries"];
    let start = format!("model `gone` at 127.0.0.1:9: connection refused, try {tries} of 8, next ");
    assert!(text.starts_with(&start), "{text}");
    assert_eq!(retrying["error"], "connection refused");

    let client =
        ToolClient::connect(server.clone(), Transport::Http, Dialect::Spec, None, &name).await;
    let status = client.delegate(json!({"action": "status", "task_id": "t_01"})).await;
    assert_eq!(
        (&status["status"], &status["retrying"]["model"]),
        (&json!("running"), &json!("gone"))
    );
    let events = "select count(*) from event where kind = 'retrying'
        and detail = 'model `gone` at 127.0.0.1:9: connection refused, try 2 of 8'";
    assert_eq!(fleet.world.count(events).await, 1);
    let warnings = worker.stderr().matches("connection refused").count();
    assert_eq!(warnings, 1, "not one line per try: {}", worker.stderr());

    fleet.world.store.cancel(task).await.unwrap();
    assert_eq!(fleet.state(task).await, TaskState::Cancelled);
    assert!(shown().await.is_null());
    fleet.close().await;
}
