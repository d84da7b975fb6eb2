//! `POST /v1/tasks/cancel` and `POST /v1/tasks/retry`: all tasks that match a filter.

use adjutant_store::NewKey;
use serde_json::{Value, json};

use crate::support::http_client::Answer;
use crate::support::test_server::TestServer;
use crate::support::world::World;

async fn send(server: &TestServer, key: &str, path: &str, body: &Value) -> Answer {
    let key = format!("Authorization: Bearer {key}");
    server.request("POST", path, &["Content-Type: application/json", &key], &body.to_string()).await
}

async fn spawn(server: &TestServer, key: &str, count: usize) {
    send(server, key, "/v1/sessions", &json!({"session_id": "s"})).await;
    for _ in 0..count {
        let task = json!({"action": "spawn", "agent": "researcher", "task": "Find the murderer.", "queue": true});
        send(server, key, "/v1/sessions/s/tools/subagent", &task).await.ok(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_tasks_of_a_filter_are_cancelled_and_retried_for_one_tenant_only() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let (key, other) = (world.api_key("a", "admin").await, world.api_key("b", "admin").await);
    spawn(&server, &key, 3).await;
    spawn(&server, &other, 2).await;
    let queued = json!({"filter": {"state": "queued", "agent": "researcher"}});
    let mut dry_run = queued.clone();
    dry_run["dry_run"] = json!(true);
    let counted = send(&server, &key, "/v1/tasks/cancel", &dry_run).await.ok(200);
    let expected = json!({
        "dry_run": true, "tasks": 3, "below": 0, "skipped": {}, "next_cursor": null, "searched_until": null,
    });
    assert_eq!(counted, expected);
    assert_eq!(world.count("select count(*) from task where state = 'queued'").await, 5);

    let done = send(&server, &key, "/v1/tasks/cancel", &queued).await.ok(200);
    assert_eq!((&done["dry_run"], &done["tasks"]), (&json!(false), &json!(3)));
    let again = send(&server, &key, "/v1/tasks/cancel", &queued).await.ok(200);
    assert_eq!(again["tasks"], 0);
    assert_eq!(world.count("select count(*) from task where state = 'queued'").await, 2);
    assert_eq!(world.count("select count(*) from task where state = 'cancelled'").await, 3);

    let all = json!({"all": true});
    let theirs = send(&server, &other, "/v1/tasks/retry", &all).await.ok(200);
    assert_eq!(theirs["tasks"], 0, "nothing of theirs has ended");
    let retried = send(&server, &key, "/v1/tasks/retry", &all).await.ok(200);
    assert_eq!(retried["tasks"], 3);
    let again = send(&server, &key, "/v1/tasks/retry", &all).await.ok(200);
    assert_eq!((&again["tasks"], &again["skipped"]), (&json!(0), &json!({"already_retried": 3})));
    world.assert_sound().await;

    let admin = format!("Authorization: Bearer {key}");
    let audit = server.request("GET", "/v1/audit", &[&admin], "").await.ok(200);
    let of = |action: &str| {
        let entries = audit["entries"].as_array().unwrap();
        let entries = entries.iter().filter(|entry| entry["action"] == action);
        entries.map(|entry| entry["after"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("tasks.cancel")[0]["filter"], queued["filter"]);
    assert_eq!(of("tasks.retry"), [json!({"filter": {}, "tasks": 3})]);
    assert_eq!(of("task.retry").len(), 3);
    assert!(!audit.to_string().contains("murderer"), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_change_needs_a_filter_a_body_and_the_scope_to_delegate() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let key = world.api_key("a", "delegate").await;
    spawn(&server, &key, 1).await;
    for path in ["/v1/tasks/cancel", "/v1/tasks/retry"] {
        for (body, start) in [
            (json!({}), "filter: has no field"),
            (json!({"filter": {}}), "filter: has no field"),
            (json!({"filter": {"state": "done"}}), "filter.state: must be one of queued, running"),
            (json!({"filter": {"colour": "red"}}), "filter.colour: is not a field"),
            (json!({"filter": {"tenant": "b"}}), "filter.tenant: is not a field"),
            (json!({"filter": {"agent": "x"}, "dryrun": true}), "dryrun: is not a field"),
            (json!({"filter": {"agent": "x"}, "cursor": "x"}), "cursor: must be the next_cursor"),
            (json!({"filter": {"state": "completed"}}), "filter.state: must be"),
            (json!({"filter": {"state": "completed"}, "dry_run": true}), "filter.state: must be"),
            (json!([]), "body: must be an object"),
        ] {
            let message = send(&server, &key, path, &body).await.refused(400, "INVALID_ARGUMENT");
            assert!(message.starts_with(start), "{body}: {message}");
        }
        let body = json!({"all": true});
        send(&server, &key, &format!("{path}?all=true"), &body)
            .await
            .refused(400, "INVALID_ARGUMENT");
        let reader = world.api_key("a", "read").await;
        send(&server, &reader, path, &body).await.refused(403, "FORBIDDEN");
        send(&server, "adj_wrong", path, &body).await.refused(401, "UNAUTHENTICATED");
    }
    assert_eq!(world.count("select count(*) from task where finished_at is null").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_retry_over_http_gives_no_more_than_the_key_is_granted() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let full = world.api_key("a", "admin").await;
    spawn(&server, &full, 2).await;
    let key = NewKey {
        tenant: "a".to_owned(),
        name: "narrow".to_owned(),
        scopes: vec!["delegate".to_owned()],
        grants: serde_json::from_value(json!({"agents": ["writer"]})).unwrap(),
        ..NewKey::default()
    };
    let narrow = world.store.create_key(&key).await.unwrap().1;
    let all = json!({"all": true});
    // As with a single task, a key may cancel what it may not spawn.
    let cancelled = send(&server, &narrow, "/v1/tasks/cancel", &all).await.ok(200);
    assert_eq!(cancelled["tasks"], 2);
    let retried = send(&server, &narrow, "/v1/tasks/retry", &all).await.ok(200);
    assert_eq!((&retried["tasks"], &retried["skipped"]), (&json!(0), &json!({"refused": 2})));
    assert_eq!(send(&server, &full, "/v1/tasks/retry", &all).await.ok(200)["tasks"], 2);
}
