//! Parents that wait, and the events that wake them.

use std::time::Duration;

use adjutant_agent::TaskState;
use adjutant_script::{Script, When, text, tool_call};
use serde_json::{Value, json};

use crate::support::world::until;
use crate::worker::delegation::agents::{
    HAND, batch, collect, delegate, home, results, spawn, wait,
};

/// A hand that completes at once, and one that completes when the test releases it.
fn hands(script: Script) -> Script {
    script
        .on(When::assignment("Be quick"))
        // Late enough for its parent to wait for it.
        .then(text("Quick.").delay(Duration::from_secs(1)))
        .on(When::assignment("Be slow"))
        .then(tool_call("held", json!({})))
        .then(text("Slow."))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_waits_for_any_wakes_with_the_first_and_waits_for_the_other_again() {
    let script = Script::new()
        .on(When::system("You are a head."))
        .then(batch(HAND, &["Be slow.", "Be quick."]))
        .then(wait("any"))
        .then(delegate(collect(0)))
        .then(wait("any"))
        .then(delegate(collect(0)))
        .then(text("{results/0/result}"));
    let place = home(hands(script), 2).await;
    let _worker = place.worker();
    let head = place.head("openai", "Lead.").await;
    until("it waits for the second time", async || {
        place.world.count("select count(*) from event where kind = 'waiting'").await == 2
    })
    .await;
    place.until(head, TaskState::Waiting).await;
    assert_eq!(
        place.world.count("select count(task) from slot").await,
        1,
        "only the slow one runs"
    );
    let result = place.look_at(head).await;
    assert_eq!(results(&result, 2)[0]["tasks"][0]["task_id"], "t_03", "the quick one");
    place.tools.let_go();
    let done = place.done(head).await;
    done.assert_completed("Slow.");
    assert_eq!(
        results(&done, 4)[0]["tasks"].as_array().unwrap().len(),
        1,
        "what was collected is not told again"
    );
    let story = ["spawned", "waiting", "resumed", "waiting", "resumed", "completed"];
    assert_eq!(place.story(head).await, story);
    place.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_is_cancelled_wakes_its_parent() {
    let script = Script::new()
        .on(When::system("You are a head."))
        .then(spawn(HAND, "Be slow."))
        .then(wait("all"))
        .then(delegate(collect(0)))
        .then(text("{results/0/error}"));
    let place = home(hands(script), 2).await;
    let _worker = place.worker();
    let head = place.head("anthropic", "Lead.").await;
    place.until(head, TaskState::Waiting).await;
    let child = place.children(head).await[0];
    until("it is at work", async || place.tools.calls_of("held").len() == 1).await;
    place.world.store.cancel(child).await.unwrap();
    place.done(head).await.assert_completed("Task cancelled");
    place.world.assert_ended_once().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_with_a_timeout_ends_with_it_and_reports_it() {
    let script = Script::new()
        .on(When::system("You are a head."))
        .then(batch(HAND, &["Be slow.", "Be quick."]))
        .then(delegate(json!({"action": "wait", "mode": "all", "timeout_s": 1.5})))
        .then(text("Not all."));
    let place = home(hands(script), 2).await;
    let _worker = place.worker();
    let head = place.head("openai", "Lead.").await;
    let done = place.done(head).await;
    done.assert_completed("Not all.");
    let waited = &results(&done, 2)[0];
    assert_eq!(waited["timed_out"], true);
    let ended: Vec<&Value> =
        waited["tasks"].as_array().unwrap().iter().map(|task| &task["task_id"]).collect();
    assert_eq!(ended, ["t_03"], "the quick one");
    assert_eq!(done.attempt, 2, "it held nothing meanwhile");
    assert_eq!(place.world.count("select count(*) from awaited").await, 0);

    // It continues although its parent has ended.
    let slow = place.children(head).await[0];
    place.tools.let_go();
    place.done(slow).await.assert_completed("Slow.");
    place.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_with_a_zero_timeout_is_a_poll() {
    let script = Script::new()
        .on(When::system("You are a head."))
        .then(spawn(HAND, "Be slow."))
        .then(delegate(json!({"action": "wait", "timeout_s": 0})))
        .then(wait("all"))
        .then(text("Over."));
    let place = home(hands(script), 2).await;
    let _worker = place.worker();
    let head = place.head("openai", "Lead.").await;
    place.until(head, TaskState::Waiting).await;
    place.tools.let_go();
    let done = place.done(head).await;
    assert_eq!(results(&done, 2), [json!({"tasks": [], "timed_out": true})]);
    assert_eq!(place.story(head).await, ["spawned", "waiting", "resumed", "completed"]);
    place.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spawns_and_waits_of_one_answer_work_and_other_tools_run_first() {
    let first = text("All at once.")
        .and_call("subagent", json!({"action": "wait", "mode": "all"}))
        .and_call("subagent", json!({"action": "spawn", "agent": HAND, "task": "Be quick, one."}))
        .and_call("subagent", json!({"action": "wait"}))
        .and_call("subagent", json!({"action": "spawn", "agent": HAND, "task": "Be quick, two."}))
        .and_call(
            "shared_context",
            json!({"action": "write", "key": "plan", "value": "Two hands."}),
        );
    let script = Script::new().on(When::system("You are a head.")).then(first).then(text("Both."));
    let place = home(hands(script), 2).await;
    let _worker = place.worker();
    let done = place.done(place.head("openai", "Lead.").await).await;
    done.assert_completed("Both.");
    let result = results(&done, 1);
    assert_eq!(result[0]["tasks"].as_array().unwrap().len(), 2, "{result:?}");
    assert!(!result[2]["tasks"].as_array().unwrap().is_empty(), "{result:?}");
    assert_eq!(result[4]["version"], 1);
    place.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_does_not_count_as_run_time() {
    let script = Script::new()
        .on(When::system("You are a head."))
        .then(spawn(HAND, "Take your time."))
        .then(wait("all"))
        .then(text("In time."))
        .on(When::assignment("Take your time."))
        .then(text("Here.").delay(Duration::from_millis(2500)));
    let place = home(script, 2).await;
    let _worker = place.worker();
    let session = place.session("openai").await;
    let head = place.head_with(session, |new| new.timeout_s = Some(2.0)).await;
    place.done(head).await.assert_completed("In time.");
    place.close().await;
}
