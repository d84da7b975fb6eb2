//! `/v1/audit`: a tenant's admin sees who has changed what in the tenant.

use serde_json::{Value, json};

use crate::support::test_server::TestServer;
use crate::support::world::World;

async fn send(server: &TestServer, key: &str, method: &str, path: &str, body: Value) -> Value {
    let key = format!("Authorization: Bearer {key}");
    let headers = ["Content-Type: application/json", &key, "X-Forwarded-For: 198.51.100.7"];
    let answer = server.request(method, path, &headers, &body.to_string()).await;
    answer.ok(answer.status)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_admin_sees_the_changes_of_the_tenant_and_nobody_else_does() {
    let world = World::new().await;
    let server = TestServer::with(&world, "[server]\ntrusted_proxies = ['127.0.0.0/8']\n");
    let (admin, other) = (world.api_key("a", "admin").await, world.api_key("b", "admin").await);
    for name in ["one", "two"] {
        send(&server, &admin, "POST", "/v1/sessions", json!({"session_id": name})).await;
    }
    send(&server, &admin, "POST", "/v1/sessions/one/archive", json!({})).await;
    let spawn = json!({"action": "spawn", "agent": "researcher", "task": "Find the murderer."});
    let path = "/v1/sessions/two/tools/subagent";
    let spawned = send(&server, &admin, "POST", path, spawn).await;
    let cancel = json!({"action": "cancel", "task_id": spawned["task_id"]});
    send(&server, &admin, "POST", path, cancel).await;
    send(&server, &admin, "POST", "/v1/webhooks/secrets", json!({})).await;
    send(&server, &admin, "DELETE", "/v1/sessions/two", Value::Null).await;
    send(&server, &other, "POST", "/v1/webhooks/secrets", json!({})).await;

    let audit = send(&server, &admin, "GET", "/v1/audit", Value::Null).await;
    let entries = audit["entries"].as_array().unwrap();
    let actions: Vec<&Value> = entries.iter().map(|entry| &entry["action"]).collect();
    assert_eq!(
        actions,
        ["session.delete", "webhook_secret.rotate", "task.cancel", "session.archive"]
    );
    for entry in entries {
        assert_eq!((&entry["tenant"], &entry["source"]), (&json!("a"), &json!("api")), "{entry}");
        assert_eq!(
            (&entry["actor"], &entry["actor_tenant"]),
            (&json!("test"), &json!("a")),
            "{entry}"
        );
        assert_eq!(entry["address"], "198.51.100.7", "behind the trusted proxy: {entry}");
        assert!(entry["key"].is_string(), "{entry}");
    }
    assert!(!audit.to_string().contains("murderer"), "{audit}");
    let theirs = send(&server, &other, "GET", "/v1/audit", Value::Null).await;
    assert_eq!(theirs["entries"].as_array().unwrap().len(), 1, "{theirs}");

    let mut paged = Vec::new();
    let mut next = String::from("/v1/audit?limit=3");
    loop {
        let page = send(&server, &admin, "GET", &next, Value::Null).await;
        paged.extend(page["entries"].as_array().unwrap().clone());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        next = format!("/v1/audit?limit=3&cursor={cursor}");
    }
    assert_eq!(&paged, entries);
    let only = send(&server, &admin, "GET", "/v1/audit?action=task.cancel", Value::Null).await;
    assert_eq!(only["entries"].as_array().unwrap().len(), 1);

    for scope in ["delegate", "read"] {
        let key = world.api_key("a", scope).await;
        let refused = send(&server, &key, "GET", "/v1/audit", Value::Null).await;
        assert_eq!(refused["error"], "FORBIDDEN", "{scope}");
    }
}
