use serde_json::{Value, json};

use crate::support::test_server::TestServer;
use crate::support::world::{World, until};

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_are_there_in_the_form_of_each_vendor() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let anthropic = server.get("/v1/tools").await.ok(200);
    assert_eq!(server.get("/v1/tools?dialect=spec&format=anthropic").await.ok(200), anthropic);
    let openai = server.get("/v1/tools?format=openai").await.ok(200);
    let mcp = server.get("/v1/tools?format=mcp").await.ok(200);
    for (nth, name) in ["subagent", "shared_context"].into_iter().enumerate() {
        let schema = &anthropic[nth]["input_schema"];
        assert_eq!(
            (&anthropic[nth]["name"], &schema["required"]),
            (&json!(name), &json!(["action"]))
        );
        assert_eq!(openai[nth]["type"], "function");
        assert_eq!(
            (&openai[nth]["function"]["name"], &openai[nth]["function"]["parameters"]),
            (&json!(name), schema)
        );
        assert_eq!((&mcp[nth]["name"], &mcp[nth]["inputSchema"]), (&json!(name), schema));
    }
    let message = server.get("/v1/tools?format=gemini").await.refused(400, "INVALID_ARGUMENT");
    assert!(message.starts_with("format: "), "{message}");
    let message = server.get("/v1/tools?dialect=nonsense").await.refused(400, "INVALID_ARGUMENT");
    assert!(message.starts_with("dialect: must be one of: spec, "), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prompt_lists_the_agents_of_the_config() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    let prompt = server.get("/v1/sessions/s/prompt").await;
    assert_eq!(
        (prompt.status, prompt.header("content-type")),
        (200, Some("text/plain; charset=utf-8"))
    );
    assert!(prompt.text.contains("researcher  Investigates"), "{}", prompt.text);
    server.post("/v1/sessions", r#"{"session_id": "other"}"#).await.ok(201);
    let define = r#"{"action": "define", "name": "analyst", "description": "Analyses", "system_prompt": "x"}"#;
    server.post("/v1/sessions/s/tools/subagent", define).await.ok(200);
    for (session, is_there) in [("s", true), ("other", false)] {
        let prompt = server.get(&format!("/v1/sessions/{session}/prompt")).await;
        assert_eq!(prompt.text.contains("analyst"), is_there, "{session}: {}", prompt.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_logged_with_its_names_and_never_with_its_texts() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    let call = "/v1/sessions/s/tools/shared_context";
    let write = r#"{"action": "write", "key": "plan", "value": "the secret"}"#;
    assert_eq!(server.post(call, write).await.ok(200)["version"], 1);
    server.post(call, r#"{"action": "the secret"}"#).await.refused(400, "INVALID_ACTION");
    server.post("/v1/sessions/s/tools/nonsense", "{}").await.refused(404, "TOOL_NOT_FOUND");
    server
        .post("/v1/sessions/none/tools/shared_context", write)
        .await
        .refused(404, "SESSION_NOT_FOUND");
    server.get("/healthz").await.ok(200);
    until("the calls are logged", async || server.stderr().contains("SESSION_NOT_FOUND")).await;
    let logged: Vec<Value> =
        server.stderr().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for (tool, action, code) in [
        ("shared_context", "write", Value::Null),
        ("shared_context", "unknown", json!("INVALID_ACTION")),
        ("unknown", "unknown", json!("TOOL_NOT_FOUND")),
        ("shared_context", "write", json!("SESSION_NOT_FOUND")),
    ] {
        let same = |line: &&Value| {
            line["tool.name"] == tool && line["action"] == action && line["error.code"] == code
        };
        let line = logged
            .iter()
            .find(same)
            .unwrap_or_else(|| panic!("{tool} {action} {code}: {logged:?}"));
        assert!(line["duration_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{line}");
    }
    let log = server.stderr();
    assert!(
        !log.contains("secret") && !log.contains("healthz") && !log.contains("nonsense"),
        "{log}"
    );
}
