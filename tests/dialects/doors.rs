//! What all dialects whose calls wait have in common.

use adjutant_agent::FailureKind;
use serde_json::{Value, json};

use super::front::{Caller, Front, SESSION, Wire, checked, tool_of};
use super::over_both_wires;
use crate::mcp::client::{StdioClient, mcp};
use crate::world::until;

const SHORT: &str = "[dialects]\nlongest_wait_s = 0.2\n";

/// The dialects whose calls wait, and a call of each.
fn calls() -> [(&'static str, Value); 3] {
    let dispatch =
        json!({"mode": "ad_hoc", "prompt_ns": "research", "prompt_key": "logs", "instructions": "Look."});
    [
        ("caliban", json!({"prompt": "Look."})),
        ("xzatoma", json!({"label": "look", "task_prompt": "Look."})),
        ("weakincentives", dispatch),
    ]
}

/// The argument that says what is to be done.
fn assignment(dialect: &str) -> &'static str {
    match dialect {
        "caliban" => "prompt",
        "xzatoma" => "task_prompt",
        _ => "instructions",
    }
}

/// What the child said, wherever the dialect has it.
fn text(answer: &Value) -> &str {
    answer["text"].as_str().or(answer["output"].as_str()).or(answer["message"].as_str()).unwrap()
}

fn task_id(answer: &Value) -> &str {
    let id = answer["task_id"].as_str().or(answer["metadata"]["task_id"].as_str());
    id.unwrap_or_else(|| panic!("no task_id: {answer}"))
}

async fn row_g_map_who_has_waited_long_enough_gets_a_handle_and_goes_on_with_it(wire: Wire) {
    for (dialect, call) in calls() {
        let front = Front::with(dialect, wire, SHORT).await;
        let handle = front.call(call.clone()).await;
        assert_eq!(task_id(&handle), "t_01");
        assert!(text(&handle).contains(r#"{"task_id": "t_01"}"#), "{handle}");
        assert_eq!(task_id(&front.call(json!({"task_id": "t_01"})).await), "t_01", "again and again");
        let mut filled = call;
        filled["task_id"] = json!("t_01");
        assert_eq!(task_id(&front.call(filled).await), "t_01", "for clients that check what they send");
        front.claim().await.lease.complete("Found.".to_owned(), None).write().await.unwrap();
        for _ in 0..2 {
            assert_eq!(text(&front.call(json!({"task_id": "t_01"})).await), "Found.");
        }
        let collected = front.world.count("select count(*) from task where collected_at is not null").await;
        let read = front.world.count("select count(*) from notification where read_at is not null").await;
        assert_eq!((front.tasks().await, collected, read), (1, 0, 0), "row G9: nothing is taken away");
        front
            .server
            .post(
                &format!("/v1/sessions/{SESSION}/tools/subagent"),
                r#"{"action": "collect", "task_id": "t_01"}"#,
            )
            .await
            .ok(200);
        assert_eq!(text(&front.call(json!({"task_id": "t_01"})).await), "Found.", "collected or not");
    }
}

async fn row_g_32_the_same_key_finds_the_same_task_and_waits_again(wire: Wire) {
    for (dialect, call) in calls() {
        let front = Front::with(dialect, wire, SHORT).await;
        let keyed = front.caller.with_key("k");
        assert_eq!(task_id(&keyed.call(call.clone()).await), "t_01");
        assert_eq!(task_id(&keyed.call(call.clone()).await), "t_01");
        front.claim().await.lease.complete("Found.".to_owned(), None).write().await.unwrap();
        assert_eq!(text(&keyed.call(call.clone()).await), "Found.");
        assert_eq!(task_id(&front.caller.with_key("other").call(call.clone()).await), "t_02");
        assert_eq!(front.tasks().await, 2);
        let mut other = call;
        other[assignment(dialect)] = json!("Something else.");
        let refused = Caller::of(front.server.clone(), dialect, Wire::Http).with_key("k").post(other).await;
        refused.refused(409, "IDEMPOTENCY_CONFLICT");
    }
}

async fn row_g_3_a_call_that_waits_is_queued_behind_the_five_and_never_refused(wire: Wire) {
    for (dialect, call) in calls() {
        let front = Front::with(dialect, wire, SHORT).await;
        let calls: Vec<_> = (0..7).map(|_| front.begin(call.clone())).collect();
        for call in calls {
            task_id(&call.await.unwrap());
        }
        assert_eq!(front.tasks().await, 7);
        assert_eq!(front.worker.claim(30).await.unwrap().len(), 5);
    }
}

over_both_wires!(
    row_g_map_who_has_waited_long_enough_gets_a_handle_and_goes_on_with_it,
    row_g_32_the_same_key_finds_the_same_task_and_waits_again,
    row_g_3_a_call_that_waits_is_queued_behind_the_five_and_never_refused,
);

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_client_that_knows_tasks_is_a_task_at_once_and_ends_in_the_dialects_words() {
    for (dialect, call) in calls() {
        let front = Front::of(dialect, Wire::Mcp).await;
        let client = front.caller.knowing_tasks();
        let begun = client.call(call.clone()).await;
        assert_eq!((&begun["resultType"], &begun["status"]), (&json!("task"), &json!("working")), "{begun}");
        let get =
            async |id: &Value| client.request("tasks/get", json!({"taskId": id})).await["result"].clone();
        assert_eq!(get(&begun["taskId"]).await["status"], "working");
        front.claim().await.lease.complete("Found.".to_owned(), None).write().await.unwrap();
        let done = get(&begun["taskId"]).await;
        assert_eq!(done["status"], "completed", "{done}");
        assert_eq!(text(&checked(dialect, &done["result"])), "Found.");

        let failing = client.call(call.clone()).await["taskId"].clone();
        let claim = front.claim().await;
        claim.lease.fail(FailureKind::Model, "no".to_owned(), None).write().await.unwrap();
        let failed = get(&failing).await;
        assert_eq!((&failed["status"], &failed["result"]["isError"]), (&json!("completed"), &json!(true)));

        let stopped = client.call(call.clone()).await["taskId"].clone();
        client.request("tasks/cancel", json!({"taskId": stopped})).await;
        assert_eq!(get(&stopped).await["status"], "cancelled");

        let wrong = client.call(json!({"nonsense": 1})).await;
        assert!(wrong.get("taskId").is_none(), "what is refused is refused at once: {wrong}");
        assert_eq!(front.tasks().await, 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_36_only_what_no_tool_can_answer_is_an_error_of_http() {
    for (dialect, call) in calls() {
        let front = Front::of(dialect, Wire::Http).await;
        let (server, tool) = (&front.server, tool_of(dialect));
        let post =
            async |path: &str, body: &str| server.post(&format!("{path}?dialect={dialect}"), body).await;
        let path = format!("/v1/sessions/{SESSION}/tools/{tool}");
        post(&path, "{}").await.ok(200);
        post(&path, "[]").await.ok(200);
        post(&path, "not JSON").await.refused(400, "INVALID_ARGUMENT");
        post(&path, r#"{"prompt": "x", "prompt": "y"}"#).await.refused(400, "INVALID_ARGUMENT");
        let nowhere = format!("/v1/sessions/nowhere/tools/{tool}");
        post(&nowhere, &call.to_string()).await.refused(404, "SESSION_NOT_FOUND");
        let said = post(&format!("/v1/sessions/{SESSION}/tools/shared_context"), "{}").await;
        let said = said.refused(404, "TOOL_NOT_FOUND");
        assert!(said.ends_with(&format!("in {dialect}; there are: {tool}")), "{said}");
        let said = server.post(&format!("{path}?dialect=nonsense"), "{}").await;
        assert!(said.refused(400, "INVALID_ARGUMENT").starts_with("dialect: "));
        assert_eq!(front.tasks().await, 0);
        front.says(call.clone(), "done").await;
        server.delete(&format!("/v1/sessions/{SESSION}")).await.ok(204);
        post(&path, &call.to_string()).await.refused(404, "SESSION_NOT_FOUND");
        server.post("/v1/sessions", &json!({"session_id": SESSION}).to_string()).await.ok(201);
        assert_eq!(text(&front.says(call, "Found.").await), "Found.", "it is another one of that name");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_dialect_has_its_tools_in_the_form_of_each_vendor_and_over_mcp() {
    let front = Front::of("caliban", Wire::Mcp).await;
    for (dialect, name, required, fields) in [
        ("caliban", "AgentTool", json!(["prompt"]), &["model", "prompt", "task_id", "tool_allowlist"][..]),
        (
            "xzatoma",
            "subagent",
            json!(["label", "task_prompt"]),
            &["allowed_tools", "label", "max_turns", "summary_prompt", "task_id", "task_prompt"][..],
        ),
        (
            "weakincentives",
            "dispatch_subagent",
            json!(["mode", "prompt_ns", "prompt_key", "instructions"]),
            &[
                "expected_artifacts",
                "instructions",
                "mode",
                "plan_step_id",
                "prompt_key",
                "prompt_ns",
                "snapshot_version",
                "task_id",
            ][..],
        ),
    ] {
        let of = async |format: &str| {
            front.server.get(&format!("/v1/tools?dialect={dialect}&format={format}")).await.ok(200)
        };
        let anthropic = of("anthropic").await;
        let schema = &anthropic[0]["input_schema"];
        assert_eq!((anthropic.as_array().unwrap().len(), &anthropic[0]["name"]), (1, &json!(name)));
        assert_eq!(schema["required"], required);
        let known: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(known, fields);
        assert_eq!(&of("openai").await[0]["function"]["parameters"], schema);
        assert_eq!(&of("mcp").await[0]["inputSchema"], schema);
        let client = Caller::of(front.server.clone(), dialect, Wire::Mcp);
        let listed = client.request("tools/list", json!({})).await["result"]["tools"].clone();
        assert_eq!((listed.as_array().unwrap().len(), &listed[0]["name"]), (1, &json!(name)));
        assert_eq!(listed[0]["inputSchema"]["required"], required);
        assert!(listed[0]["inputSchema"]["properties"]["session_id"].is_object());
        let prompts = client.request("prompts/list", json!({})).await["result"]["prompts"].clone();
        assert_eq!(prompts, json!([]), "ours is about other tools");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_leaves_its_task_running() {
    let front = Front::of("caliban", Wire::Http).await;
    let begun = front.begin(json!({"prompt": "x"}));
    let claim = front.claim().await;
    begun.abort();
    assert!(begun.await.is_err());
    claim.lease.complete("Found.".to_owned(), None).write().await.unwrap();
    assert_eq!(text(&front.call(json!({"task_id": "t_01"})).await), "Found.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_answers_with_a_handle_and_another_goes_on() {
    let front = Front::of("xzatoma", Wire::Http).await;
    let begun = front.begin(json!({"label": "look", "task_prompt": "Look."}));
    let claim = front.claim().await;
    front.server.signal("TERM");
    assert_eq!(task_id(&begun.await.unwrap()), "t_01");
    claim.lease.complete("Found.".to_owned(), None).write().await.unwrap();
    let another = crate::http::server::Server::of(&front.world, crate::spec::office::CONFIG);
    let caller = Caller::of(std::sync::Arc::new(another), "xzatoma", Wire::Http);
    assert_eq!(text(&caller.call(json!({"task_id": "t_01"})).await), "Found.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_session_gets_one_and_is_told_its_name_if_there_is_more_to_ask() {
    let front = Front::with("xzatoma", Wire::Mcp, SHORT).await;
    let call = async |arguments: Value| {
        let params = json!({"name": "subagent", "arguments": arguments});
        front.caller.request("tools/call", params).await["result"].clone()
    };
    let handle = call(json!({"label": "look", "task_prompt": "Look."})).await;
    let value = &handle["structuredContent"];
    let session = value["session_id"].as_str().unwrap_or_else(|| panic!("{handle}"));
    assert!(handle["content"][0]["text"].as_str().unwrap().contains(session), "a model reads it too");
    front.claim().await.lease.complete("Found.".to_owned(), None).write().await.unwrap();
    let done = call(json!({"task_id": "t_01", "session_id": session})).await;
    assert_eq!(done["structuredContent"]["output"], "Found.");
    assert!(done["structuredContent"].get("session_id").is_none());
    let homeless = call(json!({"task_id": "t_01"})).await;
    assert_eq!(homeless["isError"], true, "{homeless}");
    let before = front.world.count("select count(*) from session").await;
    call(json!({"label": ""})).await;
    assert_eq!(front.world.count("select count(*) from session").await, before, "what is refused makes none");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_starts_its_server_itself_names_the_dialect_once() {
    let front = Front::of("caliban", Wire::Http).await;
    let mut command = mcp();
    command.args(["--url", &format!("http://{}", front.server.address), "--dialect", "caliban"]);
    let client = StdioClient::start(command);
    let about = client.initialize("2025-06-18").await;
    assert!(about["instructions"].as_str().unwrap().contains("task_id"), "{about}");
    let listed = client.request("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"][0]["name"], "AgentTool");
    let (_, answer) = client
        .begin(
            "tools/call",
            json!({"name": "AgentTool", "arguments": {"prompt": "x"}, "_meta": {"progressToken": 1}}),
        )
        .await;
    let claim = front.claim().await;
    until("it is told that it is waited for", async || {
        client.heard().iter().any(|heard| heard["method"] == "notifications/progress")
    })
    .await;
    claim.lease.complete("Found.".to_owned(), None).write().await.unwrap();
    let answer = answer.await.unwrap();
    assert_eq!(text(&checked("caliban", &answer["result"])), "Found.");
}
