//! Webhooks as callers give them, over HTTP.

use serde_json::{Value, json};

use crate::support::test_server::TestServer;
use crate::support::webhook_receiver::Receiver;
use crate::support::world::{World, until};
use crate::worker::webhooks::deliveries::start_sender;

const TOOL: &str = "/v1/sessions/s/tools/subagent";
const HOOK: &str = "/v1/sessions/s/webhook";
const SECRETS: &str = "/v1/webhooks/secrets";

/// A server that allows every webhook address, a session and a secret.
async fn open(world: &World, more: &str) -> (TestServer, String) {
    let server = TestServer::with(world, more);
    let secret = server.post(SECRETS, "").await.ok(201);
    server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    (server, secret["secret"].as_str().unwrap().to_owned())
}

async fn put(server: &TestServer, path: &str, body: &Value) -> crate::support::http_client::Answer {
    server.request("PUT", path, &["Content-Type: application/json"], &body.to_string()).await
}

async fn spawn(server: &TestServer, more: Value) -> Value {
    let mut call =
        json!({"action": "spawn", "agent": "researcher", "task": "Look.", "queue": true});
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.post(TOOL, &call.to_string()).await.ok(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_webhook_is_refused_by_field_wherever_it_is_given() {
    let world = World::new().await;
    let (server, _) = open(&world, "").await;
    let task = spawn(&server, json!({})).await["id"].as_str().unwrap().to_owned();
    server.post(&format!("/v1/tasks/{task}/cancel"), "").await.ok(200);
    let url = "https://example.com/";
    for (webhook, field) in [
        (json!("https://example.com"), "webhook"),
        (json!([]), "webhook"),
        (json!({}), "webhook.url"),
        (json!({"url": 1}), "webhook.url"),
        (json!({"url": ""}), "webhook.url"),
        (json!({"url": "example.com"}), "webhook.url"),
        (json!({"url": "http://example.com/"}), "webhook.url"),
        (json!({"url": "ftp://example.com/"}), "webhook.url"),
        (json!({"url": "https://127.0.0.1/"}), "webhook.url"),
        (json!({"url": "https://2130706433/"}), "webhook.url"),
        (json!({"url": "https://[::1]/"}), "webhook.url"),
        (json!({"url": "https://169.254.169.254/"}), "webhook.url"),
        (json!({"url": "https://me:secret@example.com/"}), "webhook.url"),
        (json!({"url": format!("{url}{}", "x".repeat(2048))}), "webhook.url"),
        (json!({"url": url, "events": "task.failed"}), "webhook.events"),
        (json!({"url": url, "events": []}), "webhook.events"),
        (json!({"url": url, "events": [null]}), "webhook.events[0]"),
        (json!({"url": url, "events": ["task.failed", "task.begun"]}), "webhook.events[1]"),
        (json!({"url": url, "colour": "red"}), "webhook.colour"),
    ] {
        let spawn =
            json!({"action": "spawn", "agent": "researcher", "task": "x", "webhook": webhook});
        let continue_ =
            json!({"action": "continue", "task_id": "t_01", "task": "x", "webhook": webhook});
        let plain = json!({"agent": "researcher", "task": "x"});
        let item = json!({"agent": "researcher", "task": "x", "webhook": webhook});
        let batch = json!({"action": "batch", "tasks": [plain, item]});
        let session = json!({"session_id": "other", "webhook": webhook});
        let answers = [
            (server.post(TOOL, &spawn.to_string()).await, field.to_owned()),
            (server.post(TOOL, &continue_.to_string()).await, field.to_owned()),
            (server.post(TOOL, &batch.to_string()).await, format!("tasks[1].{field}")),
            (server.post("/v1/sessions", &session.to_string()).await, field.to_owned()),
            (put(&server, HOOK, &webhook).await, field.to_owned()),
        ];
        for (answer, field) in answers {
            let said = answer.refused(400, "INVALID_ARGUMENT");
            assert!(said.starts_with(&format!("{field}: ")), "{webhook}: {said}");
        }
    }
    assert_eq!(world.count("select count(*) from task").await, 1, "nothing was created");
    assert_eq!(world.count("select count(*) from session").await, 1);
    assert_eq!(server.get("/v1/sessions/s").await.ok(200)["webhook"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_secret_query_or_path_is_refused_by_field() {
    let world = World::new().await;
    let (server, _) = open(&world, "").await;
    let url = "https://example.com/";
    for (body, field) in [
        (json!([]), "body"),
        (json!({"secret": 1}), "secret"),
        (json!({"secret": "whsec_c2hvcnQ="}), "secret"),
        (json!({"secret": "\u{0}"}), "secret"),
        (json!({"overlap_s": -1}), "overlap_s"),
        (json!({"overlap_s": "1d"}), "overlap_s"),
        (json!({"overlap_s": 2_592_001}), "overlap_s"),
        (json!({"colour": "red"}), "colour"),
    ] {
        let said = server.post(SECRETS, &body.to_string()).await.refused(400, "INVALID_ARGUMENT");
        assert!(said.starts_with(&format!("{field}: ")), "{body}: {said}");
    }
    for query in
        ["state=done", "state=", "session=", "cursor=x", "limit=0", "limit=501", "colour=red"]
    {
        let path = format!("/v1/webhooks/deliveries?{query}");
        let said = server.get(&path).await.refused(400, "INVALID_ARGUMENT");
        assert!(
            said.starts_with(&format!("{}: ", query.split('=').next().unwrap())),
            "{query}: {said}"
        );
    }
    server.post("/v1/webhooks/deliveries/x/redeliver", "").await.refused(404, "DELIVERY_NOT_FOUND");
    server.delete("/v1/webhooks/secrets/x").await.refused(404, "WEBHOOK_SECRET_NOT_FOUND");
    server.delete("/v1/sessions/nobody/webhook").await.refused(404, "SESSION_NOT_FOUND");
    put(&server, "/v1/sessions/nobody/webhook", &json!({"url": url}))
        .await
        .refused(404, "SESSION_NOT_FOUND");
    put(&server, "/v1/sessions/s/webhook?x=1", &json!({"url": url}))
        .await
        .refused(400, "INVALID_ARGUMENT");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_needs_a_secret_which_is_shown_once() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let webhook = json!({"url": "https://example.com/"});
    let with = json!({"session_id": "s", "webhook": webhook}).to_string();
    server.post("/v1/sessions", &with).await.refused(404, "WEBHOOK_SECRET_NOT_FOUND");
    server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    put(&server, HOOK, &webhook).await.refused(404, "WEBHOOK_SECRET_NOT_FOUND");
    let call = json!({"action": "spawn", "agent": "researcher", "task": "x", "webhook": webhook})
        .to_string();
    let said = server.post(TOOL, &call).await.refused(404, "WEBHOOK_SECRET_NOT_FOUND");
    assert!(said.contains("/v1/webhooks/secrets"), "{said}");

    let made = server.post(SECRETS, "").await.ok(201);
    let secret = made["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_") && secret.len() == 50, "{secret}");
    let given = json!({"secret": secret, "overlap_s": 60}).to_string();
    assert_eq!(server.post(SECRETS, &given).await.ok(201).get("secret"), None);
    let listed = server.get(SECRETS).await;
    assert_eq!(listed.ok(200)["secrets"].as_array().unwrap().len(), 2);
    assert!(!listed.text.contains("secret\":"), "{}", listed.text);
    server.post(TOOL, &call).await.ok(200);
    let id = made["id"].as_str().unwrap();
    assert_eq!(server.delete(&format!("{SECRETS}/{id}")).await.status, 204);
    assert_eq!(server.get(SECRETS).await.ok(200)["secrets"].as_array().unwrap().len(), 1);
    assert!(!server.stderr().contains(&secret[6..]), "a secret is in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sessions_webhook_is_set_shown_changed_and_removed() {
    let world = World::new().await;
    let (server, _) = open(&world, "").await;
    let url = "https://example.com/a?b=c";
    let new =
        json!({"session_id": "t", "webhook": {"url": url, "events": ["task.failed"]}}).to_string();
    let expected = json!({"url": url, "events": ["task.failed"], "disabled_at": null});
    assert_eq!(server.post("/v1/sessions", &new).await.ok(201)["webhook"], expected);
    assert_eq!(server.get("/v1/sessions/t").await.ok(200)["webhook"], expected);
    let all = ["task.completed", "task.failed", "task.cancelled"];
    let changed = put(&server, HOOK, &json!({"url": url, "events": null})).await.ok(200);
    assert_eq!(changed["webhook"], json!({"url": url, "events": all, "disabled_at": null}));
    server.post("/v1/sessions/s/archive", "").await.ok(200);
    put(&server, HOOK, &json!({"url": url})).await.ok(200);
    assert_eq!(server.delete(HOOK).await.status, 204);
    assert_eq!(server.delete(HOOK).await.status, 204, "twice is once");
    assert_eq!(server.get("/v1/sessions/s").await.ok(200)["webhook"], Value::Null);
    server.request("PUT", HOOK, &[], "").await.refused(400, "INVALID_ARGUMENT");
    server
        .request("PUT", HOOK, &["Content-Type: text/plain"], "{}")
        .await
        .refused(415, "UNSUPPORTED_MEDIA_TYPE");
    server.post(HOOK, "{}").await.refused(405, "METHOD_NOT_ALLOWED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_in_the_history_and_can_be_sent_again() {
    let world = World::new().await;
    let (server, secret) = open(&world, "[webhooks]\nallow_private = true\n").await;
    let receiver = Receiver::start().await;
    put(&server, HOOK, &json!({"url": receiver.url("session")})).await.ok(200);
    let _worker = start_sender(&world);
    let own =
        spawn(&server, json!({"webhook": {"url": receiver.url("own"), "events": ["task.failed"]}}))
            .await;
    receiver.receive(1).await;
    let sessions = spawn(&server, json!({})).await;
    // A simulating worker fails unknown assignments.
    for one in receiver.receive(2).await {
        assert_eq!(one.signed_by(&secret), 1);
        assert_eq!(one.json()["type"], "task.failed");
    }
    let path = format!("/v1/tasks/{}", own["id"].as_str().unwrap());
    until("both are delivered", async || {
        let page = server.get("/v1/webhooks/deliveries?state=delivered&session=s").await.ok(200);
        page["deliveries"].as_array().unwrap().len() == 2
    })
    .await;
    let record = server.get(&path).await.ok(200);
    assert_eq!(record["webhook"], json!({"url": receiver.url("own"), "events": ["task.failed"]}));
    let delivery = &record["deliveries"][0];
    for (field, value) in [
        ("session_id", json!("s")),
        ("task_id", json!("t_01")),
        ("task", own["id"].clone()),
        ("event", json!("task.failed")),
        ("url", json!(receiver.url("own"))),
        ("state", json!("delivered")),
        ("tries", json!(1)),
        ("last_status", json!(204)),
        ("last_error", Value::Null),
        ("next_try_at", Value::Null),
    ] {
        assert_eq!(delivery[field], value, "{field} of {delivery}");
    }
    let page = server.get("/v1/webhooks/deliveries?limit=1").await.ok(200);
    assert_eq!(page["deliveries"][0]["task"], sessions["id"], "the newest first");
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = server.get(&format!("/v1/webhooks/deliveries?cursor={cursor}")).await.ok(200);
    assert_eq!((&rest["deliveries"], &rest["next_cursor"]), (&json!([delivery]), &Value::Null));

    let id = delivery["id"].as_str().unwrap();
    let again = server.post(&format!("/v1/webhooks/deliveries/{id}/redeliver"), "").await.ok(200);
    assert_eq!((&again["state"], &again["id"]), (&json!("pending"), &json!(id)));
    assert_eq!(receiver.receive(3).await[2].id(), id);
    let said = server.stderr();
    assert!(!said.contains("/own") && !said.contains(&secret), "a URL or a secret is in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_and_a_continued_task_have_webhooks_too() {
    let world = World::new().await;
    let (server, _) = open(&world, "").await;
    let hook = |path: &str| json!({"url": format!("https://example.com/{path}")});
    let batch = json!({"action": "batch", "tasks": [
        {"agent": "researcher", "task": "x", "webhook": hook("a")},
        {"agent": "researcher", "task": "x"},
    ]});
    let made = server.post(TOOL, &batch.to_string()).await.ok(200);
    let task = made["tasks"][0]["id"].as_str().unwrap();
    server.post(&format!("/v1/tasks/{task}/cancel"), "").await.ok(200);
    let continue_ =
        json!({"action": "continue", "task_id": "t_01", "task": "x", "webhook": hook("c")});
    server.post(TOOL, &continue_.to_string()).await.ok(200);
    let urls: Vec<Option<String>> =
        sqlx::query_scalar("select webhook ->> 'url' from task order by number")
            .fetch_all(&world.sql)
            .await
            .unwrap();
    let urls: Vec<Option<&str>> = urls.iter().map(Option::as_deref).collect();
    assert_eq!(urls, [Some("https://example.com/a"), None, Some("https://example.com/c")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_creates_secrets_and_lists_deliveries() {
    let world = World::new().await;
    let server = TestServer::with(&world, "[webhooks]\nallow_private = true\n");
    let receiver = Receiver::start().await;
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_adjutant"));
        command.args(arguments).env("ADJUTANT_URL", format!("http://{}", server.address));
        let output = command.env_remove("ADJUTANT_API_KEY").output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(run(&["webhooks", "secrets"]), "");
    let secret = run(&["webhooks", "rotate", "--overlap", "1h"]);
    assert_eq!(run(&["webhooks", "secrets"]).lines().count(), 2);
    let _worker = start_sender(&world);
    run(&["spawn", "researcher", "Look.", "--webhook", &receiver.url("a")]);
    let received = receiver.receive(1).await.remove(0);
    assert_eq!(received.signed_by(&secret), 1);
    until("it is written down", async || {
        run(&["webhooks", "--state", "delivered"]).contains(received.id())
    })
    .await;
    assert!(
        run(&["tasks", "show", "t_01"]).contains("task.failed: delivered, tries 1, status 204")
    );
    run(&["webhooks", "redeliver", received.id()]);
    receiver.receive(2).await;
    assert!(run(&["webhooks", "--json"]).contains("\"next_cursor\":null"));
}
