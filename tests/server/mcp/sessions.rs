//! The session of a call: by argument, by header, or a new one.

use serde_json::{Value, json};

use crate::support::mcp_client::{McpClient, McpStdioClient, mcp, post};
use crate::support::test_server::TestServer;
use crate::support::world::World;

fn list() -> Value {
    json!({"action": "list_agents"})
}

fn spawn() -> Value {
    json!({"action": "spawn", "agent": "researcher", "task": "x"})
}

fn answered(result: &Value) -> Value {
    assert_eq!(result["isError"], false, "{result}");
    result["structuredContent"].clone()
}

fn call_message(arguments: &Value) -> String {
    let params = json!({"name": "subagent", "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_session_gets_one_and_its_name() {
    let world = World::new().await;
    let client = McpClient::without_key(TestServer::on(&world));
    let first = answered(&client.call("subagent", spawn()).await);
    let second = answered(&client.call("subagent", spawn()).await);
    assert_eq!((&first["task_id"], &second["task_id"]), (&json!("t_01"), &json!("t_01")));
    assert_ne!(first["session_id"], second["session_id"]);
    let mut named = spawn();
    named["session_id"] = first["session_id"].clone();
    let third = answered(&client.call("subagent", named).await);
    assert_eq!(
        (&third["task_id"], third.get("session_id")),
        (&json!("t_02"), None),
        "a client that names the session is not told its name"
    );

    for arguments in [json!({"action": "wait"}), json!({"action": "status", "task_id": "t_01"})] {
        let refused = client.call("subagent", arguments).await["structuredContent"].clone();
        assert_eq!(refused["error"], "INVALID_ARGUMENT");
        assert!(
            refused["message"].as_str().unwrap().starts_with("session_id: is required"),
            "{refused}"
        );
    }
    let mut wrong = spawn();
    wrong["agent"] = json!("nobody");
    assert_eq!(
        client.call("subagent", wrong).await["structuredContent"]["error"],
        "AGENT_NOT_FOUND"
    );
    assert_eq!(
        world.count("select count(*) from session").await,
        2,
        "a refused call leaves no session"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_names_and_creates_the_session() {
    let world = World::new().await;
    let mut client = McpClient::without_key(TestServer::on(&world));
    client.headers = vec!["Adjutant-Session: incident 42".to_owned()];
    for task in ["t_01", "t_02"] {
        let spawned = answered(&client.call("subagent", spawn()).await);
        assert_eq!(
            (&spawned["task_id"], &spawned["session_id"]),
            (&json!(task), &json!("incident 42"))
        );
    }
    let shown = client.server.get("/v1/sessions/incident%2042").await.ok(200);
    assert_eq!((&shown["max_active"], &shown["max_queued"]), (&json!(5), &json!(1000)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_client_has_a_session_of_its_own_at_every_server() {
    let world = World::new().await;
    let servers = [TestServer::on(&world), TestServer::on(&world)];
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let initialize =
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let answer = post(&servers[0], None, &[], &initialize).await;
        let id = answer.header("mcp-session-id").unwrap().to_owned();
        let headers =
            [format!("Mcp-Session-Id: {id}"), "MCP-Protocol-Version: 2025-06-18".to_owned()];
        let ready = r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#;
        assert_eq!(post(&servers[1], None, &headers, ready).await.status, 202);
        assert_eq!(
            world.count("select count(*) from session").await,
            i64::try_from(ids.len()).unwrap()
        );
        for (server, task) in servers.iter().zip(["t_01", "t_02"]) {
            let answer = post(server, None, &headers, &call_message(&spawn())).await.ok(200);
            let spawned = answered(&answer["result"]);
            assert_eq!(
                (&spawned["task_id"], spawned["session_id"].as_str()),
                (&json!(task), Some(id.as_str()))
            );
        }
        ids.push(id);
    }
    assert_ne!(ids[0], ids[1]);
    let foreign = ["Mcp-Session-Id: somebody".to_owned()];
    post(&servers[0], None, &foreign, &call_message(&list()))
        .await
        .refused(404, "SESSION_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_stdio_a_connection_has_its_own_session_or_the_named_one() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let start = |more: &[&str]| {
        let mut command = mcp();
        command.args(["--url", &format!("http://{}", server.address)]).args(more);
        McpStdioClient::start(command)
    };
    let (one, other) = (start(&[]), start(&[]));
    let mut names = Vec::new();
    for client in [&one, &other] {
        client.initialize("2025-06-18").await;
        for task in ["t_01", "t_02"] {
            assert_eq!(client.call("subagent", spawn()).await["task_id"], task);
        }
        names.push(client.call("subagent", list()).await["session_id"].clone());
    }
    assert_ne!(names[0], names[1]);
    let named = start(&["--session", "café"]);
    named.initialize("2025-06-18").await;
    assert_eq!(named.call("subagent", spawn()).await["session_id"], "café");
    let mut there = list();
    there["session_id"] = names[0].clone();
    assert_eq!(named.call("subagent", there).await.get("session_id"), None);
}
