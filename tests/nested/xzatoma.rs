//! The nested tool of seed 003: a call makes a child, waits for it, and returns what it found.

use adjutant_agent::dialects::xzatoma::{Call, Settings};
use adjutant_agent::{AgentSpec, TaskId};
use adjutant_script::{Answer, Script, When, text, tool_call};
use adjutant_store::{NewTask, Operator};
use serde_json::{Value, json};

use super::family::{home, home_with, results};
use crate::agents_at_work::workplace::Workplace;
use crate::dialects::telemetry::events_in;
use crate::world::until;

fn call(label: &str, prompt: &str) -> Answer {
    tool_call("subagent", json!({"label": label, "task_prompt": prompt}))
}

/// A task as the server makes it of a call.
async fn give(place: &Workplace, prompt: &str) -> TaskId {
    let arguments = json!({"label": "top", "task_prompt": prompt});
    let Ok(Call::New(new)) = Call::parse(&arguments) else { panic!("{arguments}") };
    let tools = ["shared_context".to_owned(), "lookup".to_owned()];
    let spec: AgentSpec = new.spec(&tools, "openai".to_owned(), &Settings::default()).unwrap();
    let task = NewTask {
        agent: "subagent".to_owned(),
        config: Operator::default().config_of(spec).unwrap(),
        assignment: new.task_prompt.clone(),
        label: Some(new.label.clone()),
        metadata: new.metadata(),
        ..NewTask::default()
    };
    let session = place.session("openai").await;
    place.world.store.spawn(session, &[task], None).await.unwrap().remove(0).id
}

/// Each level calls the next, sums up what it got, and the last is told that it is the last.
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
    let place = home(script(), 10).await;
    let _worker = place.worker();
    let top = give(&place, "dig").await;
    let done = place.done(top).await;
    assert_eq!(
        (done.result.as_deref(), done.summary.as_deref()),
        (Some("It said: In short, dig."), Some("In short, dig"))
    );
    let told = results(&done, 1).remove(0);
    assert_eq!(
        (&told["success"], &told["output"], &told["error"]),
        (&json!(true), &json!("In short, dig."), &Value::Null)
    );
    assert_eq!(told["metadata"]["subagent_label"], "below");
    assert_eq!(told["metadata"]["recursion_depth"], "2");
    assert_eq!(told["metadata"]["completion_status"], "complete");
    assert_eq!(place.story(top).await, ["spawned", "waiting", "resumed", "completed"]);
    assert_eq!(place.world.count("select count(*) from task").await, 3);
    let middle = place.children(top).await[0];
    let last = place.look_at(place.children(middle).await[0]).await;
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
    place.close().await;
}

/// What is told of subagents: the event, its label and how deep it says that they are.
fn told(said: &str) -> Vec<String> {
    let events = events_in(said);
    let told = events.iter().map(|event| {
        let depth =
            event.get("subagent.depth").or(event.get("subagent.current_depth")).unwrap_or(&Value::Null);
        format!("{} {} {depth}", event["subagent.event"], event["subagent.label"]).replace('"', "")
    });
    told.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn row_3_16_subagents_below_others_are_told_once_with_their_depth_and_so_is_the_depth_limit() {
    let place = home(script(), 10).await;
    let mut doomed = place.doomed("default", "delegated:kill");
    let top = give(&place, "dig").await;
    doomed.killed_itself().await;
    assert_eq!(told(&doomed.said()), ["spawn below 2"]);
    let rescuer = place.worker();
    place.done(top).await;
    rescuer.says(r#""subagent.label":"top""#).await;
    let expected =
        ["spawn below 3", "depth_limit below 3", "complete below 3", "complete below 2", "complete top 1"];
    assert_eq!(told(&rescuer.said()), expected);
    let limit = events_in(&rescuer.said()).remove(1);
    assert_eq!(limit["subagent.max_depth"], 3);
    place.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_3_16_a_quota_that_a_nested_call_finds_used_up_is_told() {
    let place = home_with(script(), 10, "[dialects.xzatoma]\nmax_executions = 2").await;
    let worker = place.worker();
    place.done(give(&place, "dig").await).await;
    worker.says(r#""subagent.label":"top""#).await;
    let expected = ["spawn below 2", "quota_exceeded below null", "complete below 2", "complete top 1"];
    assert_eq!(told(&worker.said()), expected);
    place.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_17_without_nesting_the_sources_child_has_no_such_tool() {
    let place = home(script(), 1).await;
    let _worker = place.worker();
    let done = place.done(give(&place, "dig").await).await;
    assert_eq!(done.result.as_deref(), Some("As deep as I can."));
    assert!(done.results_of(1)[0].contains("recursion depth (1) exceeded. Current depth: 1."), "{done:#?}");
    place.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_answer_wait_side_by_side_and_what_is_wrong_is_told_in_the_sources_form() {
    let first = call("left", "hold left")
        .and_call("subagent", json!({"label": "right", "task_prompt": "hold right"}))
        .and_call("subagent", json!({"label": "", "task_prompt": "x"}))
        .and_call("subagent", json!({"label": "wide", "task_prompt": "x", "allowed_tools": ["fetch"]}));
    let script = Script::new()
        .on(When::last("Summarize your findings"))
        .answer(text("In short, {assignment}"))
        .on(When::assignment("hold"))
        .then(tool_call("lookup", json!({})))
        .then(text("Held."))
        .on(When::any())
        .then(first)
        .then(text("{results/0/output}, {results/1/output}"));
    let place = home(script, 3).await;
    let mut doomed = place.doomed("default", "delegated:kill:2");
    let top = give(&place, "dig").await;
    doomed.killed_itself().await;
    until("both are there", async || place.world.count("select count(*) from task").await == 3).await;
    let _rescuer = place.worker();
    let done = place.done(top).await;
    assert_eq!(done.result.as_deref(), Some("In short, hold left, In short, hold right"));
    assert_eq!(place.children(top).await.len(), 2, "each was made once");
    let told: Vec<Value> = done.results_of(1)[2..]
        .iter()
        .map(|told| serde_json::from_str(told.strip_prefix("error: ").unwrap()).unwrap())
        .collect();
    assert_eq!(told[0]["error"], "label cannot be empty");
    assert_eq!(told[1]["error"], "Unknown tool in allowed_tools: fetch");
    place.close().await;
}
