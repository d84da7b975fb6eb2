//! Invalid input: an invalid tool call gets a tool result, an invalid message gets a protocol
//! error, and the connection stays open.

use serde_json::{Value, json};

use crate::support::mcp_client::{McpClient, McpStdioClient, mcp, newest_request, post};
use crate::support::test_server::TestServer;
use crate::support::world::{World, until};

/// Invalid messages, and the codes of their protocol errors.
const INVALID_MESSAGES: [(&str, i32); 10] = [
    ("not JSON", -32700),
    (r#"{"jsonrpc": "2.0", "id": 1, "method""#, -32700),
    (r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "method": "ping"}"#, -32700),
    (r#"{"jsonrpc": "2.0", "id": 1, "method": "nonsense/all"}"#, -32601),
    ("7", -32600),
    ("[]", -32600),
    ("{}", -32600),
    (r#"[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]"#, -32600),
    (r#"{"jsonrpc": "1.0", "id": 1, "method": "ping"}"#, -32600),
    (r#"{"jsonrpc": "2.0", "id": 1, "method": 7}"#, -32600),
];

/// The params of invalid calls, the error code and the start of the message.
fn invalid_calls() -> Vec<(Value, &'static str, &'static str)> {
    vec![
        (json!({"name": "fetch", "arguments": {}}), "TOOL_NOT_FOUND", "There is no tool"),
        (json!({"arguments": {}}), "INVALID_ARGUMENT", "name: is required"),
        (json!({"name": 7, "arguments": {}}), "INVALID_ARGUMENT", "name: is required"),
        (json!({"name": "subagent"}), "INVALID_ARGUMENT", "action: "),
        (json!({"name": "subagent", "arguments": null}), "INVALID_ARGUMENT", "action: "),
        (
            json!({"name": "subagent", "arguments": [1]}),
            "INVALID_ARGUMENT",
            "arguments: must be an object",
        ),
        (
            json!({"name": "subagent", "arguments": "spawn"}),
            "INVALID_ARGUMENT",
            "arguments: must be an object",
        ),
        (json!({"name": "subagent", "arguments": {"action": 7}}), "INVALID_ARGUMENT", "action: "),
        (
            json!({"name": "subagent", "arguments": {"action": "dance"}}),
            "INVALID_ACTION",
            "Unknown action",
        ),
        (
            json!({"name": "subagent", "arguments": {"action": "list_agents", "session_id": 7}}),
            "INVALID_ARGUMENT",
            "session_id: ",
        ),
        (
            json!({"name": "subagent", "arguments": {"action": "list_agents", "session_id": ""}}),
            "INVALID_ARGUMENT",
            "session_id: must not be empty",
        ),
        (
            json!({"name": "subagent", "arguments": {"action": "spawn", "agent": "researcher", "task": "a\0b"}}),
            "INVALID_ARGUMENT",
            "task: ",
        ),
        (
            json!({"name": "subagent", "arguments": {"action": "spawn", "agent": "researcher", "task": {"deep": []}}}),
            "INVALID_ARGUMENT",
            "task: ",
        ),
        (
            json!({"name": "subagent", "arguments": {"action": "spawn", "task": nested(70)}}),
            "INVALID_ARGUMENT",
            "task: is nested too deeply",
        ),
        (
            json!({"name": "subagent", "arguments": {"action": "spawn", "task": nested(120)}}),
            "INVALID_ARGUMENT",
            "task: is nested too deeply",
        ),
    ]
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!([inner]))
}

const DUPLICATE_KEY: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "subagent", "arguments": {"action": "spawn", "agent": "researcher", "task": "x", "task": "y"}}}"#;

#[track_caller]
fn assert_refused(answer: &Value, code: &str, message: &str) {
    let result = &answer["result"];
    assert_eq!(result["isError"], true, "{answer}");
    let body = &result["structuredContent"];
    assert_eq!(body["error"], code, "{answer}");
    assert!(body["message"].as_str().unwrap().starts_with(message), "{answer}");
    assert_eq!(body.as_object().unwrap().len(), 2, "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_over_http_is_refused_by_name() {
    let world = World::new().await;
    let client = McpClient::without_key(TestServer::on(&world));
    for (params, code, message) in invalid_calls() {
        let answer = client.request("tools/call", params).await;
        assert_refused(&answer, code, message);
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    }
    let server = &client.server;
    assert_refused(
        &post(server, None, &[], DUPLICATE_KEY).await.ok(200),
        "INVALID_ARGUMENT",
        "task: appears twice",
    );
    for (body, code) in INVALID_MESSAGES {
        let answer = post(server, None, &[], body).await.json();
        assert_eq!(answer["error"]["code"], code, "{body}: {answer}");
        assert_eq!(answer["jsonrpc"], "2.0", "{body}");
    }
    let huge = format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "{}"}}"#, "x".repeat(2 << 20));
    post(server, None, &[], &huge).await.refused(413, "BODY_TOO_LARGE");
    let text = ["Content-Type: text/plain", "Accept: application/json, text/event-stream"];
    server.request("POST", "/mcp", &text, "{}").await.refused(415, "UNSUPPORTED_MEDIA_TYPE");
    let long = vec![format!("Adjutant-Session: {}", "x".repeat(256))];
    post(server, None, &long, DUPLICATE_KEY).await.refused(400, "INVALID_ARGUMENT");
    assert_eq!(
        world.count("select count(*) from session").await,
        0,
        "a refused call creates no session"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_over_stdio_is_refused_by_name_and_the_connection_stays() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let mut command = mcp();
    command.args(["--url", &format!("http://{}", server.address)]);
    let client = McpStdioClient::start(command);
    client.initialize("2025-11-25").await;
    for (params, code, message) in invalid_calls() {
        let answer = client.request("tools/call", params).await;
        assert_refused(&answer, code, message);
        assert_eq!(answer["result"].get("resultType"), None, "{answer}");
    }
    for (line, code) in INVALID_MESSAGES {
        let before = client.notifications().len();
        client.send(line).await;
        until("the message is answered", async || client.notifications().len() > before).await;
        assert_eq!(
            client.notifications()[before]["error"]["code"],
            code,
            "{line}: {:?}",
            client.notifications()
        );
    }
    let before = client.notifications().len();
    client.send(DUPLICATE_KEY).await;
    client.send("").await;
    let huge =
        format!(r#"{{"jsonrpc": "2.0", "id": "huge", "method": "{}"}}"#, "x".repeat(2 << 20));
    client.send(&huge).await;
    until("both messages are answered", async || client.notifications().len() == before + 2).await;
    let answers = client.notifications().split_off(before);
    let twice = answers.iter().find(|answer| answer["id"] == 1).unwrap();
    assert_refused(twice, "INVALID_ARGUMENT", "task: appears twice");
    let huge = answers.iter().find(|answer| answer["id"] == "huge").unwrap();
    assert!(huge["error"]["message"].as_str().unwrap().starts_with("BODY_TOO_LARGE"), "{huge}");
    client.call("subagent", json!({"action": "list_agents"})).await;
}

/// The params of a call in revision 2026-07-28 as its client sends them, without the session.
fn newest_call(arguments: &Value) -> Value {
    let call = json!({"name": "subagent", "arguments": arguments});
    let (_, body) = newest_request("tools/call", call, &json!({}));
    let message: Value = serde_json::from_str(&body).unwrap();
    message["params"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_nested_deeper_than_any_parser_recurses_is_refused_by_the_tool() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let (open, close) = ("[".repeat(1_000), "]".repeat(1_000));
    let (headers, body) = newest_request(
        "tools/call",
        json!({"name": "subagent", "arguments": {"task": 0}}),
        &json!({}),
    );
    let body = body.replace("\"task\":0", &format!("\"task\":{open}{close}"));
    let answer = post(&server, None, &headers, &body).await.ok(200);
    assert_refused(&answer, "INVALID_ARGUMENT", "task: is nested too deeply");
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_over_stdio_in_the_newest_revision_have_a_result_type() {
    let world = World::new().await;
    let server = TestServer::with(&world, "[server]\ntenant_requests_per_s = 0.0001\n");
    let mut command = mcp();
    command.args(["--url", &format!("http://{}", server.address)]);
    let client = McpStdioClient::start(command);
    let refused = async |arguments: Value, code: &str| {
        let answer = client.request("tools/call", newest_call(&arguments)).await;
        assert_refused(&answer, code, "");
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    };
    refused(json!({"action": "dance"}), "INVALID_ACTION").await;
    refused(json!({"action": "list_agents"}), "RATE_LIMITED").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_closes_the_connection_is_a_refusal_with_a_result_type() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            drop(connection);
        }
    });
    let mut command = mcp();
    command.args(["--url", &format!("http://{address}")]);
    let client = McpStdioClient::start(command);
    // `define` is not sent twice, so its refusal does not wait for another server.
    let call = newest_call(&json!({"action": "define"}));
    let answer = client.request("tools/call", call).await;
    assert_refused(&answer, "UNAVAILABLE", "");
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_too_large_over_stdio_in_the_newest_revision_has_a_result_type() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let mut command = mcp();
    command.args(["--url", &format!("http://{}", server.address)]);
    let client = McpStdioClient::start(command);
    let huge = newest_call(&json!({"action": "spawn", "task": "x".repeat(2 << 20)}));
    let answer = client.request("tools/call", huge).await;
    assert_refused(&answer, "BODY_TOO_LARGE", "");
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
}
