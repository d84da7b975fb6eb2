//! The orchestrator's configuration in a session: prompt, tools, skills and permissions.

use serde_json::{Value, json};

use crate::support::http_client::Answer;
use crate::support::test_server::TestServer;
use crate::support::world::{World, tool};

const SKILL: &str = "[skills.sql]\ndescription = 'Reads tables'\ninstructions = 'Count first.'\ntools = ['fetch']\n";

async fn opened() -> (World, TestServer) {
    let world = World::new().await;
    let server = TestServer::with(&world, SKILL);
    world.store.publish_tools(&[tool("fetch").into()]).await.unwrap();
    (world, server)
}

async fn change(server: &TestServer, body: Value) -> Answer {
    server
        .request("PATCH", "/v1/sessions/s", &["Content-Type: application/json"], &body.to_string())
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_stores_its_parent_and_shows_it() {
    let (_world, server) = opened().await;
    let bare = server.post("/v1/sessions", "{}").await.ok(201);
    assert_eq!(
        (&bare["system_prompt"], &bare["tools"], &bare["skills"], &bare["permissions"]),
        (&Value::Null, &json!([]), &json!([]), &Value::Null)
    );
    let body = json!({"session_id": "s", "system_prompt": "Verify.", "tools": ["fetch", "shared_context", "subagent"],
        "skills": ["sql"], "permissions": {"deny": ["pay*"]}});
    let made = server.post("/v1/sessions", &body.to_string()).await.ok(201);
    assert_eq!(made, server.get("/v1/sessions/s").await.ok(200));
    assert_eq!(
        (&made["system_prompt"], &made["tools"], &made["skills"], &made["permissions"]),
        (
            &json!("Verify."),
            &json!(["fetch", "shared_context"]),
            &json!(["sql"]),
            &json!({"allow": null, "deny": ["pay*"]})
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_changes_the_named_fields_and_null_removes_them() {
    let (_world, server) = opened().await;
    let body = json!({"session_id": "s", "system_prompt": "Verify.", "tools": ["fetch"], "metadata": {"a": 1}});
    server.post("/v1/sessions", &body.to_string()).await.ok(201);
    let changed = change(&server, json!({"permissions": {"allow": ["fetch"]}, "model": "sonnet"}))
        .await
        .ok(200);
    assert_eq!(
        (
            &changed["system_prompt"],
            &changed["tools"],
            &changed["permissions"],
            &changed["model"],
            &changed["metadata"]
        ),
        (
            &json!("Verify."),
            &json!(["fetch"]),
            &json!({"allow": ["fetch"], "deny": []}),
            &json!("main"),
            &json!({"a": 1})
        )
    );
    let emptied = json!({"permissions": null, "model": null, "system_prompt": null, "tools": [], "metadata": null});
    let emptied = change(&server, emptied).await.ok(200);
    assert_eq!(
        (
            &emptied["system_prompt"],
            &emptied["tools"],
            &emptied["permissions"],
            &emptied["model"],
            &emptied["metadata"]
        ),
        (&Value::Null, &json!([]), &Value::Null, &Value::Null, &json!({}))
    );
    assert_eq!(change(&server, json!({})).await.ok(200), emptied, "an empty patch changes nothing");
    server.post("/v1/sessions/s/archive", "").await.ok(200);
    change(&server, json!({"tools": null})).await.refused(409, "SESSION_ARCHIVED");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_parent_fields_are_refused_by_name() {
    let (_world, server) = opened().await;
    server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    for (body, code, start) in [
        (json!({"tools": ["fly"]}), "INVALID_TOOL", "tools: there is no tool \"fly\""),
        (json!({"tools": "fetch"}), "INVALID_ARGUMENT", "tools: "),
        (
            json!({"skills": ["cooking"]}),
            "INVALID_ARGUMENT",
            "skills: there is no skill \"cooking\"",
        ),
        (json!({"system_prompt": ""}), "INVALID_ARGUMENT", "system_prompt: "),
        (json!({"system_prompt": "x".repeat(16_004)}), "PROMPT_TOO_LARGE", "system_prompt: "),
        (json!({"model": "gpt"}), "INVALID_MODEL", "model: "),
        (json!({"permissions": {"allow": [""]}}), "INVALID_ARGUMENT", "permissions.allow[0]: "),
        (json!({"permissions": {"permit": []}}), "INVALID_ARGUMENT", "permissions.permit: "),
        (json!([]), "INVALID_ARGUMENT", "body: "),
    ] {
        let message = change(&server, body.clone()).await.refused(400, code);
        assert!(message.starts_with(start), "{body}: {message}");
        let message = server.post("/v1/sessions", &body.to_string()).await.refused(400, code);
        assert!(message.starts_with(start), "{body}: {message}");
    }
    change(&server, json!({"max_active": 1})).await.refused(400, "INVALID_ARGUMENT");
    let nowhere = server
        .request("PATCH", "/v1/sessions/none", &["Content-Type: application/json"], "{}")
        .await;
    nowhere.refused(404, "SESSION_NOT_FOUND");
}
