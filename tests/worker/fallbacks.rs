//! Fallback models: calls that a model does not take go to another one, also on another wire.

use std::time::Duration;

use adjutant_script::{
    Answer, RecordedRequest, Script, ScriptServer, When, status, text, tool_call,
};
use adjutant_store::GateCause;
use serde_json::json;

use crate::support::fleet::{CLERK, Done, Fleet, model_config};
use crate::support::world::until;

/// The model `first` on one wire, and its fallback `second` on the other.
fn models(server: &ScriptServer, wires: [&str; 2], more: &str) -> String {
    let price = |input: u32| format!("prices = {{ input = {input}.0, output = 0 }}\n");
    let first = format!("fallback = [\"second\"]\n{more}\n{}", price(1));
    model_config("first", wires[0], server, &first)
        + &model_config("second", wires[1], server, &price(5))
}

async fn fleet(script: Script, wires: [&str; 2], more: &str) -> Fleet {
    Fleet::with(script, |server| models(server, wires, more)).await
}

/// The models that answered, turn by turn.
fn models_of(done: &Done) -> Vec<&str> {
    done.turns.iter().map(|turn| turn.turn.model.as_deref().unwrap()).collect()
}

/// The models that were called, request by request.
fn called(done: &Done) -> Vec<&str> {
    done.requests.iter().map(|request| request.parsed.as_ref().unwrap().model.as_str()).collect()
}

fn look_up() -> Answer {
    text("I look it up.").and_call("lookup", json!({}))
}

async fn open_gates(fleet: &Fleet) {
    let opened = "update model_gate set closed_until = now()";
    sqlx::query(opened).execute(&fleet.world.sql).await.unwrap();
}

async fn close_gate(fleet: &Fleet, model: &str, seconds: u64) {
    let cause = GateCause::default();
    fleet.world.store.close_gate(model, Duration::from_secs(seconds), cause).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_goes_to_the_fallback_while_the_gate_is_closed_and_back_when_it_is_open() {
    let held = tool_call("held", json!({}));
    let script = Script::new().on(When::any()).then(look_up()).then(held).then(text("Done."));
    let fleet = fleet(script, ["openai", "anthropic"], "").await;
    close_gate(&fleet, "first", 60).await;
    let _worker = fleet.worker();
    let task = fleet.give("first", CLERK, "Do not wait.").await;
    until("the tool is called", async || fleet.tools.calls_by(task, "held").len() == 1).await;
    open_gates(&fleet).await;
    fleet.tools.let_go();
    let done = fleet.done(task).await;
    done.assert_completed("Done.");
    assert_eq!(done.attempt, 1, "it did not give its slot back");
    assert_eq!(models_of(&done), ["second", "second", "first"]);
    assert_eq!(called(&done), ["second-test", "second-test", "first-test"]);
    for turn in &done.turns {
        let price = if turn.turn.model.as_deref() == Some("first") { 1000 } else { 5000 };
        assert!(turn.turn.usage.input_tokens > 0);
        assert_eq!(turn.turn.usage.cost_nanousd, turn.turn.usage.input_tokens * price);
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_opens_within_the_patience_is_waited_for() {
    let script = Script::new().on(When::any()).then(text("Done."));
    let fleet = fleet(script, ["openai", "openai"], "fallback_after_s = 5").await;
    close_gate(&fleet, "first", 2).await;
    let _worker = fleet.worker();
    let task = fleet.give("first", CLERK, "Wait a little.").await;
    let done = fleet.done(task).await;
    done.assert_completed("Done.");
    assert_eq!(models_of(&done), ["first"]);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_three_tries_is_left_and_other_tasks_do_not_try_it_for_a_minute() {
    let script = Script::new()
        .on(When::model("first-test"))
        .then(look_up().with_thinking("Let me see."))
        .then(status(503))
        .on(When::model("second-test"))
        .then(text("At once."))
        .then(text("Done."));
    let fleet = fleet(script, ["anthropic", "openai"], "").await;
    let _workers = [fleet.worker(), fleet.worker()];
    let task = fleet.give("first", CLERK, "Be the first one.").await;
    let done = fleet.done(task).await;
    done.assert_completed("Done.");
    assert_eq!(models_of(&done), ["first", "second"]);
    assert_eq!(called(&done), [&["first-test"; 4][..], &["second-test"]].concat());
    let last = done.requests.last().unwrap().body.as_ref().unwrap().to_string();
    assert!(last.contains("I look it up.") && !last.contains("Let me see."), "{last}");
    let usage = done.turns[1].turn.usage;
    assert_eq!(usage.cost_nanousd, usage.input_tokens * 5000);
    let next = fleet.give("first", CLERK, "Be the next one.").await;
    let next = fleet.done(next).await;
    next.assert_completed("At once.");
    assert_eq!(called(&next), ["second-test"]);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_one_wire_understands_goes_back_to_that_wire() {
    let script = Script::new()
        .on(When::model("first-test"))
        .turn(1, look_up().with_thinking("Let me see."))
        .turn(3, text("Done."))
        .on(When::model("second-test"))
        .turn(2, tool_call("held", json!({})));
    let fleet = fleet(script, ["anthropic", "openai"], "").await;
    let mut doomed = fleet.doomed("default", "checkpointed:kill:1");
    let task = fleet.give("first", CLERK, "Change over and back.").await;
    doomed.killed_itself().await;
    close_gate(&fleet, "first", 60).await;
    let _worker = fleet.worker();
    until("the fallback has answered", async || fleet.tools.calls_by(task, "held").len() == 1)
        .await;
    open_gates(&fleet).await;
    fleet.tools.let_go();
    let done = fleet.done(task).await;
    done.assert_completed("Done.");
    assert_eq!(models_of(&done), ["first", "second", "first"]);
    let thought = |request: &RecordedRequest| {
        request.body.as_ref().unwrap().to_string().contains("Let me see.")
    };
    let thoughts: Vec<bool> = done.requests.iter().map(thought).collect();
    assert_eq!(thoughts, [false, false, true]);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_after_a_fallback_answered_repeats_no_call() {
    let script = Script::new()
        .on(When::model("second-test"))
        .then(look_up())
        .then(look_up())
        .then(text("Done."))
        .once();
    let fleet = fleet(script, ["openai", "anthropic"], "").await;
    close_gate(&fleet, "first", 60).await;
    let mut doomed = fleet.doomed("default", "checkpointed:kill:2");
    let task = fleet.give("first", CLERK, "Survive it.").await;
    doomed.killed_itself().await;
    let _worker = fleet.worker();
    let done = fleet.done(task).await;
    done.assert_completed("Done.");
    assert_eq!((done.attempt, models_of(&done)), (2, vec!["second"; 3]));
    assert_eq!(done.requests.len(), 3);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_all_gates_closed_a_task_comes_back_when_the_first_of_them_opens() {
    let fleet = fleet(Script::new().on(When::any()).then(text("Done.")), ["openai"; 2], "").await;
    close_gate(&fleet, "first", 40).await;
    close_gate(&fleet, "second", 600).await;
    let _worker = fleet.worker();
    let task = fleet.give("first", CLERK, "Wait for either.").await;
    until("it has given its slot back", async || {
        fleet.world.count("select count(*) from task where not_before is not null").await == 1
    })
    .await;
    let delay = "select extract(epoch from not_before - now())::bigint from task";
    let delay = fleet.world.count(delay).await;
    assert!((10..=41).contains(&delay), "{delay} s");
    open_gates(&fleet).await;
    let due = "update task set not_before = now() where not_before is not null";
    sqlx::query(due).execute(&fleet.world.sql).await.unwrap();
    let done = fleet.done(task).await;
    done.assert_completed("Done.");
    assert_eq!(models_of(&done), ["first"]);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_fails_when_no_model_of_the_chain_answers() {
    let script = Script::new()
        .on(When::model("first-test"))
        .then(status(500).with_error("api_error", "First"))
        .on(When::model("second-test"))
        .then(status(500).with_error("api_error", "Second"));
    let fleet = fleet(script, ["openai", "anthropic"], "").await;
    let _worker = fleet.worker();
    let task = fleet.give("first", CLERK, "Try them all.").await;
    let done = fleet.done(task).await;
    done.assert_model_failed(&fleet, "second", "500 api_error: Second");
    assert_eq!(called(&done), [["first-test"; 3], ["second-test"; 3]].concat());
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_a_model_refuses_does_not_go_to_its_fallback() {
    let refusal = status(400).with_error("invalid_request_error", "No");
    let fleet = fleet(Script::new().on(When::any()).then(refusal), ["openai"; 2], "").await;
    let _worker = fleet.worker();
    let task = fleet.give("first", CLERK, "Be refused.").await;
    let done = fleet.done(task).await;
    done.assert_model_failed(&fleet, "first", "400 invalid_request_error: No");
    assert_eq!(called(&done), ["first-test"]);
    fleet.close().await;
}
