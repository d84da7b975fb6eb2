//! Access to MCP: origins, keys, scopes, revisions of the protocol and dialects.

use serde_json::{Value, json};

use crate::support::mcp_client::{McpClient, post, tool_call};
use crate::support::test_server::TestServer;
use crate::support::world::World;

const PING: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#;

fn initialize(version: &str) -> String {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn cross_origin_requests_are_refused_with_any_key() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let own = format!("Origin: http://{}", server.address);
    post(&server, None, &[own], PING).await.ok(200);
    let foreign = ["Origin: http://evil.example", "Origin: null", "Origin: http://localhost:3000"];
    for origin in foreign {
        post(&server, None, &[origin.to_owned()], PING).await.refused(403, "FORBIDDEN");
    }
    post(&server, None, &["Host: evil.example".to_owned()], PING).await.refused(403, "FORBIDDEN");
    let secret = world.api_key("tenant", "delegate").await;
    post(&server, Some(&secret), &[], PING).await.ok(200);
    for origin in foreign {
        post(&server, Some(&secret), &[origin.to_owned()], PING).await.refused(403, "FORBIDDEN");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_scopes_and_tenants_are_those_of_the_other_routes() {
    let world = World::new().await;
    let secret = world.api_key("tenant", "delegate").await;
    let server = TestServer::on(&world);
    for wrong in [None, Some("adj_nonsense")] {
        let answer = post(&server, wrong, &[], PING).await;
        answer.refused(401, "UNAUTHENTICATED");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    let client = McpClient::new(server, &secret);
    let spawned = client.call("subagent", json!({"action": "list_agents"})).await;
    let session = spawned["structuredContent"]["session_id"].as_str().unwrap().to_owned();
    let list = tool_call("subagent", json!({"action": "list_agents"}));

    let reader = world.api_key("tenant", "read").await;
    let mut client = McpClient::new(client.server, &reader);
    let refused = client.call_in(&session, &list).await;
    assert_eq!(
        (&refused["isError"], &refused["structuredContent"]["error"]),
        (&json!(true), &json!("FORBIDDEN"))
    );
    let resource = format!("adjutant://sessions/{session}/context");
    for (scope, expected) in [("read", None), ("delegate", Some("{}")), ("admin", Some("{}"))] {
        client = McpClient::new(client.server, &world.api_key("tenant", scope).await);
        let read = client.request("resources/read", json!({"uri": resource})).await;
        assert_eq!(read["result"]["contents"][0]["text"].as_str(), expected, "{scope}: {read}");
        let note =
            client.request("resources/read", json!({"uri": format!("{resource}/note")})).await;
        let message = note["error"]["message"].as_str().unwrap();
        assert_eq!(message.contains("FORBIDDEN"), expected.is_none(), "{scope}: {message}");
    }

    let other = world.api_key("another", "admin").await;
    let client = McpClient::new(client.server, &other);
    let refused = client.call_in(&session, &list).await;
    assert_eq!(refused["structuredContent"]["error"], "SESSION_NOT_FOUND");
    let error = client.request("resources/read", json!({"uri": resource})).await;
    assert!(error["error"]["message"].as_str().unwrap().contains("SESSION_NOT_FOUND"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_since_2025_06_18_are_supported() {
    let world = World::new().await;
    let client = McpClient::without_key(TestServer::on(&world));
    for (requested, spoken) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
    ] {
        let answer = post(&client.server, None, &[], &initialize(requested)).await;
        let result = answer.ok(200)["result"].clone();
        assert_eq!(result["protocolVersion"], spoken, "{requested}");
        assert!(result["instructions"].as_str().unwrap().contains("Delegate"), "{result}");
        assert_eq!(
            result["capabilities"]["extensions"],
            json!({"io.modelcontextprotocol/tasks": {}})
        );
        assert!(answer.header("mcp-session-id").unwrap().starts_with("mcp-"));
    }
    let found = client.request("server/discover", json!({})).await;
    let versions = &found["result"]["supportedVersions"];
    assert_eq!(versions, &json!(["2025-06-18", "2025-11-25", "2026-07-28"]), "{found}");
    let odd = ["MCP-Protocol-Version: 1999-01-01".to_owned()];
    assert_eq!(post(&client.server, None, &odd, PING).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_json_rpc_in_a_known_dialect_is_accepted() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    for method in ["GET", "DELETE", "PUT"] {
        server
            .request(method, "/mcp", &["Accept: text/event-stream"], "")
            .await
            .refused(405, "METHOD_NOT_ALLOWED");
    }
    let headers = ["Content-Type: application/json", "Accept: application/json, text/event-stream"];
    for (path, expected) in [
        ("/mcp?dialect=spec", None),
        ("/mcp?dialect=caliban", None),
        ("/mcp?dialect=klingon", Some("dialect: must be one of: spec, ")),
        ("/mcp?colour=red", Some("colour: ")),
    ] {
        let answer = server.request("POST", path, &headers, PING).await;
        match expected {
            None => assert_eq!(answer.ok(200)["result"], json!({})),
            Some(expected) => {
                let message = answer.refused(400, "INVALID_ARGUMENT");
                assert!(message.starts_with(expected), "{message}");
            }
        }
    }
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_adjutant"))
        .args(["mcp", "--dialect", "klingon"])
        .output()
        .unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(String::from_utf8(output.stderr).unwrap().contains("dialect: must be one of: spec, "));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tenants_rate_limit_applies_to_mcp() {
    let world = World::new().await;
    let server = TestServer::with(&world, "[server]\ntenant_requests_per_s = 1\n");
    post(&server, None, &[], PING).await.ok(200);
    let mut last = Value::Null;
    for _ in 0..10 {
        let answer = post(&server, None, &[], PING).await;
        if answer.status == 429 {
            last = answer.json();
            break;
        }
    }
    assert_eq!(last["error"], "RATE_LIMITED");
}
