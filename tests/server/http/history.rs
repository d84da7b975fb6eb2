//! The task history: `/v1/tasks`.

use adjutant_agent::FailureKind;
use serde_json::{Value, json};

use crate::support::test_server::TestServer;
use crate::support::world::{World, turn};

const CALL: &str = "/v1/sessions/s/tools/subagent";
const SPAWN: &str =
    r#"{"action": "spawn", "agent": "researcher", "task": "Look.", "label": "The Label"}"#;

/// A server with a session and one task, and the id of the task.
async fn with_a_task(world: &World) -> (TestServer, String) {
    let server = TestServer::on(world);
    server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    let spawned = server.post(CALL, SPAWN).await.ok(200);
    (server, spawned["id"].as_str().unwrap().to_owned())
}

async fn end_it(world: &World) {
    let mut claim = world.claim_one(&world.worker().await).await;
    claim.lease.checkpoint(&turn("Thinking.")).await.unwrap();
    claim.lease.complete("Found.".to_owned(), None).write().await.unwrap();
}

#[track_caller]
fn assert_is_utc(time: &Value) {
    let text = time.as_str().unwrap_or_default();
    assert!(text.len() == 24 && text.ends_with('Z'), "{time} is not a UTC time with milliseconds");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_0_4_a_record_has_everything_of_its_task() {
    let world = World::new().await;
    let (server, id) = with_a_task(&world).await;
    let path = format!("/v1/tasks/{id}");
    let queued = server.get(&path).await.ok(200);
    for (field, value) in [
        ("task_id", json!("t_01")),
        ("agent", json!("researcher")),
        ("assignment", json!("Look.")),
        ("state", json!("queued")),
        ("result", Value::Null),
        ("error", Value::Null),
        ("turns_used", json!(0)),
        ("finished_at", Value::Null),
        ("queue_position", json!(0)),
    ] {
        assert_eq!(queued[field], value, "{field}");
    }
    assert_is_utc(&queued["created_at"]);
    end_it(&world).await;
    let done = server.get(&path).await.ok(200);
    for (field, value) in [
        ("state", json!("completed")),
        ("result", json!("Found.")),
        ("error", Value::Null),
        ("turns_used", json!(1)),
        ("queue_position", Value::Null),
    ] {
        assert_eq!(done[field], value, "{field}");
    }
    for time in [
        &done["created_at"],
        &done["started_at"],
        &done["finished_at"],
        &done["attempts"][0]["ended_at"],
    ] {
        assert_is_utc(time);
    }
    assert!(done["config"].get("system_prompt").is_none(), "the history does not show prompts");
    let turns = server.get(&format!("{path}/turns")).await.ok(200);
    assert_eq!(
        (&turns["turns"][0]["text"], &turns["next_cursor"]),
        (&json!("Thinking."), &Value::Null)
    );
    assert_is_utc(&turns["turns"][0]["at"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_searched_by_the_fields_of_a_task() {
    let world = World::new().await;
    let (server, id) = with_a_task(&world).await;
    let found = async |query: &str| {
        let page = server.get(&format!("/v1/tasks?{query}")).await.ok(200);
        page["tasks"].as_array().unwrap().len()
    };
    for query in [
        "q=label",
        "q=RESEARCH",
        "q=t_01",
        &format!("q={id}"),
        "state=queued",
        "session=s",
        "limit=500",
    ] {
        assert_eq!(found(query).await, 1, "{query}");
    }
    for query in [
        "q=writer",
        "state=failed",
        "failure=lost",
        "session=t",
        "agent=research",
        "since=2999-01-01T00:00:00Z",
    ] {
        assert_eq!(found(query).await, 0, "{query}");
    }
    for (query, field) in [
        ("limit=501", "limit"),
        ("limit=0", "limit"),
        ("state=done", "state"),
        ("colour=red", "colour"),
        ("cursor=nonsense", "cursor"),
        (&format!("cursor={id}"), "cursor"),
    ] {
        let message =
            server.get(&format!("/v1/tasks?{query}")).await.refused(400, "INVALID_ARGUMENT");
        assert!(message.starts_with(&format!("{field}: ")), "{message}");
    }
    for cursor in ["x", "0", "-1", "+1", "01"] {
        server
            .get(&format!("/v1/tasks/{id}/turns?cursor={cursor}"))
            .await
            .refused(400, "INVALID_ARGUMENT");
    }
    for unknown in ["nonsense", "00000000-0000-0000-0000-000000000000"] {
        server.get(&format!("/v1/tasks/{unknown}")).await.refused(404, "TASK_NOT_FOUND");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_34_a_retry_is_a_new_task_and_with_a_key_it_is_created_once() {
    let world = World::new().await;
    let (server, id) = with_a_task(&world).await;
    let path = format!("/v1/tasks/{id}/retry");
    server.post(&path, "").await.refused(409, "TASK_NOT_READY");
    let claim = world.claim_one(&world.worker().await).await;
    claim.lease.fail(FailureKind::Model, "away".to_owned(), None).write().await.unwrap();
    let retry = async |id: &str, key: &str| {
        let key = format!("Idempotency-Key: {key}");
        server.request("POST", &format!("/v1/tasks/{id}/retry"), &[&key], "").await
    };
    let first = retry(&id, "k").await.ok(200);
    assert_eq!((&first["task_id"], &first["retry_of"]), (&json!("t_02"), &json!(id)));
    assert_eq!((&first["assignment"], &first["label"]), (&json!("Look."), &json!("The Label")));
    assert_eq!(retry(&id, "k").await.ok(200)["id"], first["id"]);
    assert_eq!(retry(&id, "another").await.ok(200)["task_id"], "t_03");
    end_it(&world).await;
    retry(first["id"].as_str().unwrap(), "k").await.refused(409, "IDEMPOTENCY_CONFLICT");
    let message = retry(&id, &"x".repeat(256)).await.refused(400, "INVALID_ARGUMENT");
    assert!(message.starts_with("Idempotency-Key: "), "{message}");
    assert_eq!(world.count("select count(*) from task").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_without_parameters_refuse_parameters() {
    let world = World::new().await;
    let (server, id) = with_a_task(&world).await;
    for path in [
        format!("/v1/tasks/{id}/cancel"),
        format!("/v1/tasks/{id}/retry"),
        "/v1/sessions/s/archive".to_owned(),
    ] {
        let message =
            server.post(&format!("{path}?force=true"), "{}").await.refused(400, "INVALID_ARGUMENT");
        assert!(message.starts_with("force: "), "{message}");
        let message =
            server.post(&path, r#"{"reason": "x"}"#).await.refused(400, "INVALID_ARGUMENT");
        assert!(message.starts_with("reason: "), "{message}");
        server.post(&path, "[]").await.refused(400, "INVALID_ARGUMENT");
    }
    for _ in 0..2 {
        let cancelled =
            server.post(&format!("/v1/tasks/{id}/cancel"), r#"{"reason": null}"#).await.ok(200);
        assert_eq!((&cancelled["state"], &cancelled["id"]), (&json!("cancelled"), &json!(id)));
    }
}
