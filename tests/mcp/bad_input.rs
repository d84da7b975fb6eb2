//! What is wrong with a tool call is the tool's answer; what is no message gets a fault, and nothing ends.

use serde_json::{Value, json};

use super::client::{Modern, StdioClient, mcp, post};
use crate::http::server::Server;
use crate::world::{World, until};

/// A message that cannot be read, or is none, and the code of the fault.
const NO_MESSAGES: [(&str, i32); 4] = [
    ("not JSON", -32700),
    (r#"{"jsonrpc": "2.0", "id": 1, "method""#, -32700),
    (r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "method": "ping"}"#, -32700),
    (r#"{"jsonrpc": "2.0", "id": 1, "method": "nonsense/all"}"#, -32601),
];

/// The params of calls that are wrong, the code and the beginning of what is said.
fn wrong_calls() -> Vec<(Value, &'static str, &'static str)> {
    vec![
        (json!({"name": "fetch", "arguments": {}}), "TOOL_NOT_FOUND", "There is no tool"),
        (json!({"name": "subagent"}), "INVALID_ARGUMENT", "action: "),
        (json!({"name": "subagent", "arguments": null}), "INVALID_ARGUMENT", "action: "),
        (json!({"name": "subagent", "arguments": [1]}), "INVALID_ARGUMENT", "arguments: must be an object"),
        (
            json!({"name": "subagent", "arguments": "spawn"}),
            "INVALID_ARGUMENT",
            "arguments: must be an object",
        ),
        (json!({"name": "subagent", "arguments": {"action": 7}}), "INVALID_ARGUMENT", "action: "),
        (json!({"name": "subagent", "arguments": {"action": "dance"}}), "INVALID_ACTION", "Unknown action"),
        (
            json!({"name": "subagent", "arguments": {"action": "list_agents", "session_id": 7}}),
            "INVALID_ARGUMENT",
            "session_id: ",
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
    ]
}

const TWICE: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "subagent", "arguments": {"action": "spawn", "agent": "researcher", "task": "x", "task": "y"}}}"#;

#[track_caller]
fn assert_refused(answer: &Value, code: &str, says: &str) {
    let result = &answer["result"];
    assert_eq!(result["isError"], true, "{answer}");
    let body = &result["structuredContent"];
    assert_eq!(body["error"], code, "{answer}");
    assert!(body["message"].as_str().unwrap().starts_with(says), "{answer}");
    assert_eq!(body.as_object().unwrap().len(), 2, "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_over_http_is_refused_by_name() {
    let world = World::new().await;
    let client = Modern::without_key(Server::on(&world));
    for (params, code, says) in wrong_calls() {
        assert_refused(&client.request("tools/call", params).await, code, says);
    }
    let server = &client.server;
    assert_refused(&post(server, None, &[], TWICE).await.ok(200), "INVALID_ARGUMENT", "task: is there twice");
    for (body, code) in NO_MESSAGES {
        assert_eq!(post(server, None, &[], body).await.json()["error"]["code"], code, "{body}");
    }
    let huge = format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "{}"}}"#, "x".repeat(2 << 20));
    post(server, None, &[], &huge).await.refused(413, "BODY_TOO_LARGE");
    let text = ["Content-Type: text/plain", "Accept: application/json, text/event-stream"];
    server.request("POST", "/mcp", &text, "{}").await.refused(415, "UNSUPPORTED_MEDIA_TYPE");
    let long = vec![format!("Adjutant-Session: {}", "x".repeat(256))];
    post(server, None, &long, TWICE).await.refused(400, "INVALID_ARGUMENT");
    assert_eq!(
        world.count("select count(*) from session").await,
        0,
        "a call that is refused makes no session"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_over_stdio_is_refused_by_name_and_ends_nothing() {
    let world = World::new().await;
    let server = Server::on(&world);
    let mut command = mcp();
    command.args(["--url", &format!("http://{}", server.address)]);
    let client = StdioClient::start(command);
    client.initialize("2025-11-25").await;
    for (params, code, says) in wrong_calls() {
        assert_refused(&client.request("tools/call", params).await, code, says);
    }
    for (line, code) in NO_MESSAGES {
        let before = client.heard().len();
        client.send(line).await;
        until("it is answered", async || client.heard().len() > before).await;
        assert_eq!(client.heard()[before]["error"]["code"], code, "{line}: {:?}", client.heard());
    }
    let before = client.heard().len();
    client.send(TWICE).await;
    client.send("").await;
    let huge = format!(r#"{{"jsonrpc": "2.0", "id": "huge", "method": "{}"}}"#, "x".repeat(2 << 20));
    client.send(&huge).await;
    until("both are answered", async || client.heard().len() == before + 2).await;
    let heard = client.heard().split_off(before);
    let twice = heard.iter().find(|answer| answer["id"] == 1).unwrap();
    assert_refused(twice, "INVALID_ARGUMENT", "task: is there twice");
    let huge = heard.iter().find(|answer| answer["id"] == "huge").unwrap();
    assert!(huge["error"]["message"].as_str().unwrap().starts_with("BODY_TOO_LARGE"), "{huge}");
    client.call("subagent", json!({"action": "list_agents"})).await;
}
