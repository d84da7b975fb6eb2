//! The same tools over MCP, where `session_id` is the source's own argument.

use serde_json::{Value, json};

use crate::support::mcp_client::{newest_request, post_to};
use crate::support::test_server::TestServer;
use crate::support::world::World;

use crate::dialects::ecs::orchestrator::CONFIG;

async fn send(server: &TestServer, method: &str, params: Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let headers = [
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "Adjutant-Session: s",
    ];
    let answer = server.request("POST", "/mcp?dialect=ecs", &headers, &body).await.ok(200);
    answer["result"].clone()
}

async fn call(server: &TestServer, tool: &str, arguments: Value) -> Value {
    send(server, "tools/call", json!({"name": tool, "arguments": arguments})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_five_tools_are_there_over_mcp_and_a_session_is_followed_to_its_result() {
    let world = World::new().await;
    let server = TestServer::of(&world, CONFIG);
    let listed = send(&server, "tools/list", json!({})).await;
    let names: Vec<&str> = listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["subagent", "subagent_status", "subagent_result", "subagent_wait", "subagent_cancel"]
    );
    let launched = call(
        &server,
        "subagent",
        json!({"category": "writer", "prompt": "Write.", "background": true}),
    )
    .await;
    assert_eq!(launched["structuredContent"]["session_id"], "t_01");
    let worker = world.worker().await;
    world
        .claim_one(&worker)
        .await
        .lease
        .complete("Written.".to_owned(), None)
        .write()
        .await
        .unwrap();
    let reply = call(&server, "subagent_wait", json!({})).await;
    let text = "Background subagent updates:\n- t_01 succeeded. Call subagent_result(session_id=\"t_01\") for the full result.";
    assert_eq!((&reply["content"][0]["text"], &reply["isError"]), (&json!(text), &json!(false)));
    let read = call(&server, "subagent_result", json!({"session_id": "t_01"})).await;
    assert_eq!(read["structuredContent"]["inline_content"], "Written.");
    let missing = call(&server, "subagent_status", json!({"session_id": "t_09"})).await;
    assert_eq!(
        (&missing["isError"], &missing["structuredContent"]["error"]),
        (&json!(true), &json!("Session not found: t_09"))
    );
    let wrong = call(&server, "subagent", json!({"category": "", "prompt": "x"})).await;
    assert_eq!(
        (&wrong["isError"], &wrong["structuredContent"]["error"]),
        (&json!(true), &json!("INVALID_ARGUMENT"))
    );
    let unknown = call(&server, "subagent", json!({"category": "nobody", "prompt": "x"})).await;
    assert_eq!(unknown["content"][0]["text"], "Error: Unknown subagent 'nobody'");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_are_defined_for_every_vendor() {
    let world = World::new().await;
    let server = TestServer::of(&world, CONFIG);
    for (format, schema) in [
        ("anthropic", "/input_schema"),
        ("openai", "/function/parameters"),
        ("mcp", "/inputSchema"),
    ] {
        let tools = server.get(&format!("/v1/tools?dialect=ecs&format={format}")).await.ok(200);
        let tools = tools.as_array().unwrap();
        assert_eq!(tools.len(), 5);
        assert_eq!(tools[0].pointer(schema).unwrap()["required"], json!(["category", "prompt"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_call_of_a_client_that_knows_tasks_counts_against_the_status_rate() {
    let world = World::new().await;
    let limit = "[server]\nsession_status_per_s = 0.0001\n";
    let server = TestServer::of(&world, &format!("{CONFIG}{limit}"));
    let status = async || {
        let call = json!({"name": "subagent_status", "arguments": {"session_id": "t_01"}});
        let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let (mut headers, body) = newest_request("tools/call", call, &tasks);
        headers.push("Adjutant-Session: s".to_owned());
        let answer = post_to(&server, "/mcp?dialect=ecs", None, &headers, &body).await.ok(200);
        answer["result"]["structuredContent"]["error"].clone()
    };
    assert_eq!(status().await, "Session not found: t_01");
    assert_eq!(status().await, "RATE_LIMITED");
}
