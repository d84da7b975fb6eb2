//! Rules of all dialects whose calls block.

use adjutant_agent::FailureKind;
use adjutant_server::Dialect;
use serde_json::{Value, json};

use crate::dialects::over_both_wires;
use crate::support::blocking_orchestrator::{BlockingOrchestrator, SESSION};
use crate::support::mcp_client::{McpStdioClient, mcp, tool_call};
use crate::support::tool_client::{
    ToolClient, Transport, assert_same_in_all_forms, delegating_tool,
};
use crate::support::world::until;

const SHORT: &str = "[dialects]\nlongest_wait_s = 0.2\n";

/// The dialects whose calls wait, and a call of each.
fn calls() -> [(Dialect, Value); 3] {
    let dispatch = json!({"mode": "ad_hoc", "prompt_ns": "research", "prompt_key": "logs", "instructions": "Look."});
    [
        (Dialect::Caliban, json!({"prompt": "Look."})),
        (Dialect::Xzatoma, json!({"label": "look", "task_prompt": "Look."})),
        (Dialect::Weakincentives, dispatch),
    ]
}

/// The argument with the task.
fn assignment(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Caliban => "prompt",
        Dialect::Xzatoma => "task_prompt",
        Dialect::Weakincentives => "instructions",
        Dialect::Spec | Dialect::Ecs => panic!("its calls do not wait"),
    }
}

/// The child's text in the answer of the dialect.
fn text(answer: &Value) -> &str {
    answer["text"].as_str().or(answer["output"].as_str()).or(answer["message"].as_str()).unwrap()
}

fn value_of(dialect: Dialect, result: &Value) -> &Value {
    assert_same_in_all_forms(dialect, result);
    &result["structuredContent"]
}

fn task_id(answer: &Value) -> &str {
    let id = answer["task_id"].as_str().or(answer["metadata"]["task_id"].as_str());
    id.unwrap_or_else(|| panic!("no task_id: {answer}"))
}

async fn row_g_map_a_call_that_waits_too_long_returns_a_handle_to_continue_with(
    transport: Transport,
) {
    for (dialect, call) in calls() {
        let orchestrator = BlockingOrchestrator::with(dialect, transport, SHORT).await;
        let handle = orchestrator.call(call.clone()).await;
        assert_eq!(task_id(&handle), "t_01");
        let words = text(&handle).split_once(" with {").unwrap().1;
        let words = words.split_once("} to wait for it again.").unwrap().0;
        let arguments: Value = serde_json::from_str(&format!("{{{words}}}")).unwrap();
        for arguments in [arguments, json!({"task_id": "t_01"})] {
            assert_eq!(task_id(&orchestrator.call(arguments).await), "t_01", "again and again");
        }
        let mut filled = call;
        filled["task_id"] = json!("t_01");
        assert_eq!(
            task_id(&orchestrator.call(filled).await),
            "t_01",
            "for clients that check what they send"
        );
        orchestrator.claim().await.lease.complete("Found.".to_owned(), None).write().await.unwrap();
        for _ in 0..2 {
            assert_eq!(text(&orchestrator.call(json!({"task_id": "t_01"})).await), "Found.");
        }
        let collected = orchestrator
            .world
            .count("select count(*) from task where collected_at is not null")
            .await;
        let read = orchestrator
            .world
            .count("select count(*) from notification where read_at is not null")
            .await;
        assert_eq!(
            (orchestrator.tasks().await, collected, read),
            (1, 0, 1),
            "row G9: nothing is collected, and no later wait reports it"
        );
        orchestrator
            .server
            .post(
                &format!("/v1/sessions/{SESSION}/tools/subagent"),
                r#"{"action": "collect", "task_id": "t_01"}"#,
            )
            .await
            .ok(200);
        assert_eq!(
            text(&orchestrator.call(json!({"task_id": "t_01"})).await),
            "Found.",
            "collected or not"
        );
    }
}

async fn row_g_32_the_same_key_finds_the_same_task_and_waits_again(transport: Transport) {
    for (dialect, call) in calls() {
        let orchestrator = BlockingOrchestrator::with(dialect, transport, SHORT).await;
        let keyed = orchestrator.client.with_key("k");
        assert_eq!(task_id(&keyed.delegate(call.clone()).await), "t_01");
        assert_eq!(task_id(&keyed.delegate(call.clone()).await), "t_01");
        orchestrator.claim().await.lease.complete("Found.".to_owned(), None).write().await.unwrap();
        assert_eq!(text(&keyed.delegate(call.clone()).await), "Found.");
        assert_eq!(
            task_id(&orchestrator.client.with_key("other").delegate(call.clone()).await),
            "t_02"
        );
        assert_eq!(orchestrator.tasks().await, 2);
        let mut other = call;
        other[assignment(dialect)] = json!("Something else.");
        let client = ToolClient::connect(
            orchestrator.server.clone(),
            Transport::Http,
            dialect,
            None,
            SESSION,
        )
        .await
        .with_key("k");
        client
            .post(tool_call(delegating_tool(dialect), other))
            .await
            .refused(409, "IDEMPOTENCY_CONFLICT");
    }
}

async fn row_g_3_a_call_that_waits_is_queued_behind_the_five_and_never_refused(
    transport: Transport,
) {
    for (dialect, call) in calls() {
        let orchestrator = BlockingOrchestrator::with(dialect, transport, SHORT).await;
        let calls: Vec<_> = (0..7).map(|_| orchestrator.start_call(call.clone())).collect();
        for call in calls {
            task_id(&call.await.unwrap());
        }
        assert_eq!(orchestrator.tasks().await, 7);
        assert_eq!(orchestrator.worker.claim(30).await.unwrap().len(), 5);
    }
}

over_both_wires!(
    row_g_map_a_call_that_waits_too_long_returns_a_handle_to_continue_with,
    row_g_32_the_same_key_finds_the_same_task_and_waits_again,
    row_g_3_a_call_that_waits_is_queued_behind_the_five_and_never_refused,
);

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_client_with_mcp_tasks_is_a_task_and_ends_in_the_dialects_form() {
    for (dialect, call) in calls() {
        let orchestrator = BlockingOrchestrator::of(dialect, Transport::McpHttp).await;
        let client = orchestrator.client.with_tasks();
        let begun = client.delegate(call.clone()).await;
        assert_eq!(
            (&begun["resultType"], &begun["status"]),
            (&json!("task"), &json!("working")),
            "{begun}"
        );
        let get = async |id: &Value| {
            client.request("tasks/get", json!({"taskId": id})).await["result"].clone()
        };
        assert_eq!(get(&begun["taskId"]).await["status"], "working");
        orchestrator.claim().await.lease.complete("Found.".to_owned(), None).write().await.unwrap();
        let done = get(&begun["taskId"]).await;
        assert_eq!(done["status"], "completed", "{done}");
        assert_eq!(text(value_of(dialect, &done["result"])), "Found.");

        let failing = client.delegate(call.clone()).await["taskId"].clone();
        let claim = orchestrator.claim().await;
        claim.lease.fail(FailureKind::Model, "no".to_owned(), None).write().await.unwrap();
        let failed = get(&failing).await;
        assert_eq!(
            (&failed["status"], &failed["result"]["isError"]),
            (&json!("completed"), &json!(true))
        );

        let stopped = client.delegate(call.clone()).await["taskId"].clone();
        client.request("tasks/cancel", json!({"taskId": stopped})).await;
        assert_eq!(get(&stopped).await["status"], "cancelled");

        let wrong = client.delegate(json!({"nonsense": 1})).await;
        assert!(wrong.get("taskId").is_none(), "what is refused is refused at once: {wrong}");
        assert_eq!(orchestrator.tasks().await, 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_36_only_errors_before_the_tool_are_http_errors() {
    for (dialect, call) in calls() {
        let orchestrator = BlockingOrchestrator::of(dialect, Transport::Http).await;
        let (server, tool) = (&orchestrator.server, delegating_tool(dialect));
        let post = async |path: &str, body: &str| {
            server.post(&format!("{path}?dialect={}", dialect.as_str()), body).await
        };
        let path = format!("/v1/sessions/{SESSION}/tools/{tool}");
        post(&path, "{}").await.ok(200);
        post(&path, "[]").await.ok(200);
        post(&path, "not JSON").await.refused(400, "INVALID_ARGUMENT");
        post(&path, r#"{"prompt": "x", "prompt": "y"}"#).await.refused(400, "INVALID_ARGUMENT");
        let nowhere = format!("/v1/sessions/nowhere/tools/{tool}");
        post(&nowhere, &call.to_string()).await.refused(404, "SESSION_NOT_FOUND");
        let said = post(&format!("/v1/sessions/{SESSION}/tools/shared_context"), "{}").await;
        let said = said.refused(404, "TOOL_NOT_FOUND");
        assert!(said.ends_with(&format!("in {}; there are: {tool}", dialect.as_str())), "{said}");
        let said = server.post(&format!("{path}?dialect=nonsense"), "{}").await;
        assert!(said.refused(400, "INVALID_ARGUMENT").starts_with("dialect: "));
        assert_eq!(orchestrator.tasks().await, 0);
        orchestrator.call_with_result(call.clone(), "done").await;
        server.delete(&format!("/v1/sessions/{SESSION}")).await.ok(204);
        post(&path, &call.to_string()).await.refused(404, "SESSION_NOT_FOUND");
        server.post("/v1/sessions", &json!({"session_id": SESSION}).to_string()).await.ok(201);
        assert_eq!(
            text(&orchestrator.call_with_result(call, "Found.").await),
            "Found.",
            "it is another one of that name"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_dialect_has_its_tools_in_the_form_of_each_vendor_and_over_mcp() {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, Transport::McpHttp).await;
    for (dialect, name, required, fields) in [
        (
            Dialect::Caliban,
            "AgentTool",
            json!(["prompt"]),
            &["model", "prompt", "task_id", "tool_allowlist"][..],
        ),
        (
            Dialect::Xzatoma,
            "subagent",
            json!(["label", "task_prompt"]),
            &["allowed_tools", "label", "max_turns", "summary_prompt", "task_id", "task_prompt"][..],
        ),
        (
            Dialect::Weakincentives,
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
            orchestrator
                .server
                .get(&format!("/v1/tools?dialect={}&format={format}", dialect.as_str()))
                .await
                .ok(200)
        };
        let anthropic = of("anthropic").await;
        let schema = &anthropic[0]["input_schema"];
        assert_eq!((anthropic.as_array().unwrap().len(), &anthropic[0]["name"]), (1, &json!(name)));
        assert_eq!(schema["required"], required);
        let known: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(known, fields);
        assert_eq!(&of("openai").await[0]["function"]["parameters"], schema);
        assert_eq!(&of("mcp").await[0]["inputSchema"], schema);
        let client = ToolClient::connect(
            orchestrator.server.clone(),
            Transport::McpHttp,
            dialect,
            None,
            SESSION,
        )
        .await;
        let listed = client.request("tools/list", json!({})).await["result"]["tools"].clone();
        assert_eq!((listed.as_array().unwrap().len(), &listed[0]["name"]), (1, &json!(name)));
        assert_eq!(listed[0]["inputSchema"]["required"], required);
        assert!(listed[0]["inputSchema"]["properties"]["session_id"].is_object());
        let prompts = client.request("prompts/list", json!({})).await["result"]["prompts"].clone();
        assert_eq!(prompts, json!([]), "ours is about other tools");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_delivered_is_not_reported_by_a_later_wait_of_ecs() {
    for (dialect, call) in calls() {
        let orchestrator = BlockingOrchestrator::of(dialect, Transport::Http).await;
        assert_eq!(text(&orchestrator.call_with_result(call, "Found.").await), "Found.");
        let path = format!("/v1/sessions/{SESSION}/tools/subagent_wait?dialect=ecs");
        let notifications = orchestrator.server.post(&path, r#"{"timeout": 0}"#).await.ok(200);
        assert!(
            notifications.as_str().unwrap().starts_with("There is nothing to wait for"),
            "{notifications}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prompt_of_a_dialect_describes_its_own_tools_and_no_others() {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, Transport::Http).await;
    for dialect in [Dialect::Caliban, Dialect::Xzatoma, Dialect::Weakincentives] {
        let path = format!("/v1/sessions/{SESSION}/prompt?dialect={}", dialect.as_str());
        let prompt = orchestrator.server.get(&path).await.text;
        assert!(prompt.contains(delegating_tool(dialect)), "{prompt}");
        for other in ["AgentTool", "dispatch_subagent", "list_agents", "subagent_wait", "spawn"] {
            let is_own = other == delegating_tool(dialect);
            assert_eq!(prompt.contains(other), is_own, "{other}: {prompt}");
        }
        let names_agents = prompt.contains("prompt_ns \"research\", prompt_key \"logs\"");
        assert_eq!(names_agents, dialect == Dialect::Weakincentives, "{prompt}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_a_call_creates_is_named_in_the_answer_of_every_dialect() {
    for (dialect, call) in calls() {
        let orchestrator = BlockingOrchestrator::of(dialect, Transport::McpHttp).await;
        let client = orchestrator.client.clone();
        let params = json!({"name": delegating_tool(dialect), "arguments": call});
        let running = tokio::spawn(async move { client.request("tools/call", params).await });
        orchestrator.claim().await.lease.complete("Found.".to_owned(), None).write().await.unwrap();
        let result = running.await.unwrap()["result"].clone();
        let session = result["structuredContent"]["session_id"].as_str();
        let session = session.unwrap_or_else(|| panic!("{result}"));
        assert!(result["content"].to_string().contains(session), "a model reads it too: {result}");
        let path = format!("/v1/sessions/{session}");
        orchestrator.server.get(&path).await.ok(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnected_client_leaves_its_task_running() {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, Transport::Http).await;
    let begun = orchestrator.start_call(json!({"prompt": "x"}));
    let claim = orchestrator.claim().await;
    begun.abort();
    assert!(begun.await.is_err());
    claim.lease.complete("Found.".to_owned(), None).write().await.unwrap();
    assert_eq!(text(&orchestrator.call(json!({"task_id": "t_01"})).await), "Found.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_answers_with_a_handle_and_another_continues() {
    let orchestrator = BlockingOrchestrator::of(Dialect::Xzatoma, Transport::Http).await;
    let begun = orchestrator.start_call(json!({"label": "look", "task_prompt": "Look."}));
    let claim = orchestrator.claim().await;
    orchestrator.server.signal("TERM");
    assert_eq!(task_id(&begun.await.unwrap()), "t_01");
    claim.lease.complete("Found.".to_owned(), None).write().await.unwrap();
    let another = crate::support::test_server::TestServer::of(
        &orchestrator.world,
        crate::support::orchestrator::CONFIG,
    );
    let caller = ToolClient::connect(
        std::sync::Arc::new(another),
        Transport::Http,
        Dialect::Xzatoma,
        None,
        SESSION,
    )
    .await;
    assert_eq!(text(&caller.delegate(json!({"task_id": "t_01"})).await), "Found.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_session_gets_one_and_its_name_with_a_handle() {
    let orchestrator =
        BlockingOrchestrator::with(Dialect::Xzatoma, Transport::McpHttp, SHORT).await;
    let call = async |arguments: Value| {
        let params = json!({"name": "subagent", "arguments": arguments});
        orchestrator.client.request("tools/call", params).await["result"].clone()
    };
    let handle = call(json!({"label": "look", "task_prompt": "Look."})).await;
    let value = &handle["structuredContent"];
    let session = value["session_id"].as_str().unwrap_or_else(|| panic!("{handle}"));
    assert!(
        handle["content"][0]["text"].as_str().unwrap().contains(session),
        "a model reads it too"
    );
    orchestrator.claim().await.lease.complete("Found.".to_owned(), None).write().await.unwrap();
    let done = call(json!({"task_id": "t_01", "session_id": session})).await;
    assert_eq!(done["structuredContent"]["output"], "Found.");
    assert!(done["structuredContent"].get("session_id").is_none());
    let missing_session = call(json!({"task_id": "t_01"})).await;
    assert_eq!(missing_session["isError"], true, "{missing_session}");
    let before = orchestrator.world.count("select count(*) from session").await;
    call(json!({"label": ""})).await;
    assert_eq!(
        orchestrator.world.count("select count(*) from session").await,
        before,
        "what is refused makes none"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stdio_client_names_the_dialect_once() {
    let orchestrator = BlockingOrchestrator::of(Dialect::Caliban, Transport::Http).await;
    let mut command = mcp();
    command.args([
        "--url",
        &format!("http://{}", orchestrator.server.address),
        "--dialect",
        "caliban",
    ]);
    let client = McpStdioClient::start(command);
    let about = client.initialize("2025-06-18").await;
    assert!(about["instructions"].as_str().unwrap().contains("task_id"), "{about}");
    let listed = client.request("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"][0]["name"], "AgentTool");
    let (_, answer) = client
        .start_request(
            "tools/call",
            json!({"name": "AgentTool", "arguments": {"prompt": "x"}, "_meta": {"progressToken": 1}}),
        )
        .await;
    let claim = orchestrator.claim().await;
    until("it is told that it is waited for", async || {
        client.notifications().iter().any(|heard| heard["method"] == "notifications/progress")
    })
    .await;
    claim.lease.complete("Found.".to_owned(), None).write().await.unwrap();
    let answer = answer.await.unwrap();
    assert_eq!(text(value_of(Dialect::Caliban, &answer["result"])), "Found.");
}
