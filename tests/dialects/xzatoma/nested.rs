//! The nested tool of xzatoma: a call spawns a child, waits for it, and returns its summary.

use adjutant_agent::TaskId;
use adjutant_script::{Answer, Script, When, text, tool_call};
use adjutant_store::Operator;

use serde_json::{Value, json};

use crate::dialects::xzatoma::delegation;
use crate::dialects::xzatoma::telemetry::events_in;
use crate::support::fleet::Fleet;
use crate::support::world::until;
use crate::worker::delegation::agents::{home, home_with, results};

fn call(label: &str, prompt: &str) -> Answer {
    tool_call("subagent", json!({"label": label, "task_prompt": prompt}))
}

/// The task that a server creates for a call.
async fn give(fleet: &Fleet, prompt: &str) -> TaskId {
    let arguments = json!({"label": "top", "task_prompt": prompt});
    let tools = ["shared_context".to_owned(), "lookup".to_owned()];
    let new = delegation(&arguments, &tools, "openai");
    let session = fleet.session("openai").await;
    fleet.world.store.delegate(session, &new, &Operator::default(), None).await.unwrap().id
}

/// Each level calls the next one and summarizes its answer; the last level is refused.
fn script() -> Script {
    Script::new()
        .on(When::last("Summarize your findings"))
        .answer(text("In short, {assignment}"))
        .on(When::last("recursion depth"))
        .answer(text("As deep as I can."))
        .on(When::any())
        .then(call("below", "{assignment}."))
        .then(text("It said: {results/0/output}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn row_3_6_a_call_waits_for_its_child_and_three_levels_nest_where_the_operator_allows_more() {
    let fleet = home(script(), 10).await;
    let _worker = fleet.worker();
    let top = give(&fleet, "dig").await;
    let done = fleet.done(top).await;
    assert_eq!(
        (done.result.as_deref(), done.summary.as_deref()),
        (Some("It said: In short, dig."), Some("In short, dig"))
    );
    let logged = results(&done, 1).remove(0);
    assert_eq!(
        (&logged["success"], &logged["output"], &logged["error"]),
        (&json!(true), &json!("In short, dig."), &Value::Null)
    );
    assert_eq!(logged["metadata"]["subagent_label"], "below");
    assert_eq!(logged["metadata"]["recursion_depth"], "2");
    assert_eq!(logged["metadata"]["completion_status"], "complete");
    assert_eq!(fleet.story(top).await, ["spawned", "waiting", "resumed", "completed"]);
    assert_eq!(fleet.world.count("select count(*) from task").await, 3);
    let middle = fleet.children(top).await[0];
    let last = fleet.look_at(fleet.children(middle).await[0]).await;
    let refused = last.results_of(1).remove(0);
    let refused: Value = serde_json::from_str(refused.strip_prefix("error: ").unwrap()).unwrap();
    assert_eq!(
        (&refused["success"], &refused["error"]),
        (
            &json!(false),
            &json!(
                "Maximum subagent recursion depth (3) exceeded. Current depth: 3. Cannot spawn nested subagent."
            )
        )
    );
    let offered = last.requests[0].body.as_ref().unwrap()["tools"].to_string();
    assert!(offered.contains("lookup") && !offered.contains("task_prompt"), "{offered}");
    fleet.close().await;
}

/// The logged events of subagents: name, label and depth.
fn logged(said: &str) -> Vec<String> {
    let events = events_in(said);
    let logged = events.iter().map(|event| {
        let depth = event
            .get("subagent.depth")
            .or(event.get("subagent.current_depth"))
            .unwrap_or(&Value::Null);
        format!("{} {} {depth}", event["subagent.event"], event["subagent.label"]).replace('"', "")
    });
    logged.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn row_3_16_nested_subagents_and_the_depth_limit_are_logged_once() {
    let fleet = home(script(), 10).await;
    let mut doomed = fleet.doomed("default", "delegated:kill");
    let top = give(&fleet, "dig").await;
    doomed.killed_itself().await;
    assert_eq!(logged(&doomed.stderr()), ["spawn below 2"]);
    let rescuer = fleet.worker();
    fleet.done(top).await;
    rescuer.until_logged(r#""subagent.label":"top""#).await;
    let expected = [
        "spawn below 3",
        "depth_limit below 3",
        "complete below 3",
        "complete below 2",
        "complete top 1",
    ];
    assert_eq!(logged(&rescuer.stderr()), expected);
    let limit = events_in(&rescuer.stderr()).remove(1);
    assert_eq!(limit["subagent.max_depth"], 3);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_3_16_a_used_up_quota_is_logged_for_a_nested_call() {
    let fleet = home_with(script(), 10, "[dialects.xzatoma]\nmax_executions = 2").await;
    let worker = fleet.worker();
    fleet.done(give(&fleet, "dig").await).await;
    worker.until_logged(r#""subagent.label":"top""#).await;
    let expected =
        ["spawn below 2", "quota_exceeded below null", "complete below 2", "complete top 1"];
    assert_eq!(logged(&worker.stderr()), expected);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_17_without_nesting_the_sources_child_has_no_such_tool() {
    let fleet = home(script(), 1).await;
    let _worker = fleet.worker();
    let done = fleet.done(give(&fleet, "dig").await).await;
    assert_eq!(done.result.as_deref(), Some("As deep as I can."));
    assert!(
        done.results_of(1)[0].contains("recursion depth (1) exceeded. Current depth: 1."),
        "{done:#?}"
    );
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_answer_wait_side_by_side_and_errors_have_the_sources_form() {
    let first = call("left", "hold left")
        .and_call("subagent", json!({"label": "right", "task_prompt": "hold right"}))
        .and_call("subagent", json!({"label": "", "task_prompt": "x"}))
        .and_call(
            "subagent",
            json!({"label": "wide", "task_prompt": "x", "allowed_tools": ["fetch"]}),
        );
    let script = Script::new()
        .on(When::last("Summarize your findings"))
        .answer(text("In short, {assignment}"))
        .on(When::assignment("hold"))
        .then(tool_call("lookup", json!({})))
        .then(text("Held."))
        .on(When::any())
        .then(first)
        .then(text("{results/0/output}, {results/1/output}"));
    let fleet = home(script, 3).await;
    let mut doomed = fleet.doomed("default", "delegated:kill:2");
    let top = give(&fleet, "dig").await;
    doomed.killed_itself().await;
    until("both are there", async || fleet.world.count("select count(*) from task").await == 3)
        .await;
    let _rescuer = fleet.worker();
    let done = fleet.done(top).await;
    assert_eq!(done.result.as_deref(), Some("In short, hold left, In short, hold right"));
    assert_eq!(fleet.children(top).await.len(), 2, "each was made once");
    let refusals: Vec<Value> = done.results_of(1)[2..]
        .iter()
        .map(|refusal| serde_json::from_str(refusal.strip_prefix("error: ").unwrap()).unwrap())
        .collect();
    assert_eq!(refusals[0]["error"], "label cannot be empty");
    assert_eq!(refusals[1]["error"], "Unknown tool in allowed_tools: fetch");
    fleet.close().await;
}
