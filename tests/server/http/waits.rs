//! How many calls of a tenant may wait at a time, over HTTP and MCP and in every dialect.

use std::sync::Arc;

use adjutant_server::{Dialect, ToolCall};
use serde_json::{Value, json};

use crate::support::http_client::Answer;
use crate::support::mcp_client::{McpClient, tool_call};
use crate::support::test_server::TestServer;
use crate::support::tool_client::{ToolClient, Transport};
use crate::support::world::{World, until};

pub const SESSION: &str = "s";

/// A call of each kind that waits.
pub fn waiting_calls() -> [(Dialect, ToolCall); 6] {
    let dispatch = json!({"mode": "ad_hoc", "prompt_ns": "research", "prompt_key": "logs", "instructions": "Look."});
    let xzatoma = json!({"label": "look", "task_prompt": "Look."});
    let foreground = json!({"category": "researcher", "prompt": "Look."});
    [
        (Dialect::Caliban, tool_call("AgentTool", json!({"prompt": "Look."}))),
        (Dialect::Xzatoma, tool_call("subagent", xzatoma)),
        (Dialect::Weakincentives, tool_call("dispatch_subagent", dispatch)),
        (Dialect::Ecs, tool_call("subagent", foreground)),
        (Dialect::Ecs, tool_call("subagent_wait", json!({}))),
        (Dialect::Ecs, tool_call("subagent_result", json!({"session_id": "t_01"}))),
    ]
}

/// A `wait` of the dialect `spec`, for this long.
pub fn wait(timeout_s: f64) -> ToolCall {
    tool_call("subagent", json!({"action": "wait", "task_ids": ["t_01"], "timeout_s": timeout_s}))
}

/// A session of the tenant, with one task that nobody runs, and a client.
pub async fn client(world: &World, server: &Arc<TestServer>, tenant: &str) -> (String, ToolClient) {
    let key = world.api_key(tenant, "delegate").await;
    let bearer = format!("Authorization: Bearer {key}");
    let headers = [bearer.as_str(), "Content-Type: application/json"];
    let body = json!({"session_id": SESSION, "model": "main"}).to_string();
    server.request("POST", "/v1/sessions", &headers, &body).await.ok(201);
    let transport = Transport::Http;
    let client =
        ToolClient::connect(server.clone(), transport, Dialect::Spec, Some(&key), SESSION).await;
    client.delegate(json!({"action": "spawn", "agent": "researcher", "task": "x"})).await;
    (key, client)
}

/// The same client, speaking another dialect.
pub fn speaking(client: &ToolClient, dialect: Dialect) -> ToolClient {
    let mut client = client.clone();
    client.dialect = dialect;
    client
}

/// Makes a call that waits, again as long as it is refused: tests that count waits wait too.
pub async fn admitted(client: ToolClient, call: ToolCall) -> Answer {
    loop {
        let answer = client.post(call.clone()).await;
        if !answer.text.contains("RATE_LIMITED") {
            return answer;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_a_limited_number_of_waits_in_every_dialect() {
    let world = World::new().await;
    let server = Arc::new(TestServer::with(&world, "[server]\ntenant_max_waits = 2\n"));
    let (key, first) = client(&world, &server, "first").await;
    let (_, second) = client(&world, &server, "second").await;
    let waiting: Vec<_> =
        (0..2).map(|_| tokio::spawn(admitted(first.clone(), wait(45.0)))).collect();
    until("two waits are open", async || first.post(wait(0.001)).await.status == 429).await;
    let refused = first.post(wait(1.0)).await;
    let message = refused.refused(429, "RATE_LIMITED");
    assert!(message.contains("has 2 calls that wait at this server"), "{message}");
    assert_eq!(refused.header("retry-after"), Some("5"));
    for (dialect, call) in waiting_calls() {
        speaking(&first, dialect).post(call).await.refused(429, "RATE_LIMITED");
    }
    assert_eq!(world.count("select count(*) from task").await, 2, "a refused call spawns nothing");
    let mcp = McpClient::new(server.clone(), &key);
    let result = mcp.call_in(SESSION, &wait(1.0)).await;
    assert_eq!((&result["isError"], code(&result)), (&json!(true), "RATE_LIMITED"), "{result}");
    // What does not wait is no wait, and neither is a wait of another tenant.
    first.delegate(json!({"action": "status", "task_id": "t_01"})).await;
    first.post(wait(0.0)).await.ok(200);
    mcp.with_tasks().call_in(SESSION, &wait(1.0)).await;
    second.post(wait(0.001)).await.ok(200);

    first.delegate(json!({"action": "cancel", "task_id": "t_01"})).await;
    for answer in waiting {
        answer.await.unwrap().ok(200);
    }
    first.post(wait(1.0)).await.ok(200);
}

fn code(result: &Value) -> &str {
    result["structuredContent"]["error"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_disconnects_waits_no_longer() {
    let world = World::new().await;
    let server = Arc::new(TestServer::with(&world, "[server]\ntenant_max_waits = 1\n"));
    let (_, client) = client(&world, &server, "tenant").await;
    let blocking = tool_call("AgentTool", json!({"prompt": "Look."}));
    for (dialect, call) in [(Dialect::Spec, wait(45.0)), (Dialect::Caliban, blocking)] {
        let waiting = tokio::spawn(admitted(speaking(&client, dialect), call));
        until("the wait is open", async || client.post(wait(0.001)).await.status == 429).await;
        waiting.abort();
        until("it is closed", async || client.post(wait(0.001)).await.status == 200).await;
    }
}
