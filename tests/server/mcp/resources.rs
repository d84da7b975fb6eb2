//! Prompts and resources.

use serde_json::json;

use crate::support::mcp_client::McpClient;
use crate::support::orchestrator::{CONFIG, Orchestrator, SESSION};
use crate::support::test_server::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_result_and_the_shared_context_can_be_read() {
    let orchestrator = Orchestrator::in_process().await;
    let secret = orchestrator.world.api_key("tenant", "delegate").await;
    let mut client = McpClient::new(TestServer::of(&orchestrator.world, CONFIG), &secret);
    let long = "lots of é ".repeat(3_000);
    orchestrator.completed(&long).await;
    orchestrator.collect("t_01").await;
    orchestrator.spawn("x").await;
    orchestrator
        .context(json!({"action": "write", "key": "findings", "value": "Slow since Monday."}))
        .await;

    client.headers = vec![format!("Adjutant-Session: {SESSION}")];
    let listed = client.request("resources/list", json!({})).await["result"]["resources"].clone();
    let uris: Vec<&str> =
        listed.as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap()).collect();
    assert_eq!(
        uris,
        [
            "adjutant://sessions/the%20session/context",
            "adjutant://sessions/the%20session/tasks/t_01/result"
        ]
    );
    let templates = client.request("resources/templates/list", json!({})).await;
    assert_eq!(templates["result"]["resourceTemplates"].as_array().unwrap().len(), 3);

    let read = async |uri: &str| client.request("resources/read", json!({"uri": uri})).await;
    let result = read(uris[1]).await["result"]["contents"][0].clone();
    assert_eq!(
        (result["text"].as_str(), result["mimeType"].as_str()),
        (Some(long.as_str()), Some("text/plain"))
    );
    let context = read(uris[0]).await["result"]["contents"][0]["text"].clone();
    let context: serde_json::Value = serde_json::from_str(context.as_str().unwrap()).unwrap();
    assert_eq!(context["findings"]["value"], "Slow since Monday.");
    let note = read("adjutant://sessions/the%20session/context/findings").await;
    assert_eq!(note["result"]["contents"][0]["text"], "Slow since Monday.");
    for missing in [
        "adjutant://sessions/the%20session/tasks/t_02/result",
        "adjutant://sessions/the%20session/tasks/t_99/result",
        "adjutant://sessions/the%20session/context/nothing",
        "adjutant://sessions/nowhere/context",
        "adjutant://sessions/%00/context",
        "file:///etc/passwd",
    ] {
        assert_eq!(read(missing).await["error"]["code"], -32602, "{missing}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prompt_of_an_orchestrator_lists_its_agents() {
    let orchestrator = Orchestrator::in_process().await;
    let secret = orchestrator.world.api_key("tenant", "delegate").await;
    let client = McpClient::new(TestServer::of(&orchestrator.world, CONFIG), &secret);
    let listed = client.request("prompts/list", json!({})).await;
    assert_eq!(listed["result"]["prompts"][0]["name"], "orchestrator");
    let get = async |arguments| {
        client.request("prompts/get", json!({"name": "orchestrator", "arguments": arguments})).await
    };
    let prompt = get(json!({"session_id": SESSION})).await;
    let text = prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("researcher") && text.contains("How to delegate"), "{text}");
    assert!(!text.contains("session_id"), "{text}");
    let prompt = get(json!({})).await;
    let text = prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("Give the session_id \"mcp-"), "{text}");
    assert_eq!(get(json!({"session_id": "nowhere"})).await["error"]["code"], -32602);
    assert_eq!(get(json!({"colour": "red"})).await["error"]["code"], -32602);
    let other = client.request("prompts/get", json!({"name": "poem"})).await;
    assert_eq!(other["error"]["code"], -32602);
}
