use serde_json::{Value, json};

use crate::support::test_server::TestServer;
use crate::support::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_created_shown_archived_and_deleted() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let body = json!({"session_id": "é/1", "model": "sonnet", "metadata": {"ticket": 42}, "max_active": 2, "max_cost_usd": 0.5});
    let made = server.post("/v1/sessions", &body.to_string()).await.ok(201);
    for (name, value) in [
        ("session_id", json!("é/1")),
        ("archived", json!(false)),
        ("model", json!("main")),
        ("metadata", json!({"ticket": 42})),
        ("max_active", json!(2)),
        ("max_queued", json!(1000)),
        ("max_cost_usd", json!(0.5)),
        ("cost_usd", json!(0.0)),
        ("key_count", json!(0)),
    ] {
        assert_eq!(made[name], value, "{name}");
    }
    assert_eq!(server.get("/v1/sessions/%C3%A9%2F1").await.ok(200), made);
    server.post("/v1/sessions", &body.to_string()).await.refused(409, "SESSION_ALREADY_EXISTS");

    for _ in 0..2 {
        let archived = server.post("/v1/sessions/%C3%A9%2F1/archive", "").await.ok(200);
        assert_eq!(archived["archived"], true);
        assert!(archived["archived_at"].is_string());
    }
    let gone = server.delete("/v1/sessions/%C3%A9%2F1").await;
    assert_eq!((gone.status, gone.text.as_str()), (204, ""));
    for answer in [
        server.get("/v1/sessions/%C3%A9%2F1").await,
        server.delete("/v1/sessions/%C3%A9%2F1").await,
        server.post("/v1/sessions/%C3%A9%2F1/archive", "").await,
        server.get("/v1/sessions/%C3%A9%2F1/prompt").await,
    ] {
        answer.refused(404, "SESSION_NOT_FOUND");
    }
    let again = server.post("/v1/sessions", r#"{"session_id": "é/1"}"#).await.ok(201);
    assert_eq!(
        (&again["archived"], &again["metadata"]),
        (&json!(false), &json!({})),
        "the new session is empty"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_a_name_gets_one_and_an_empty_body_is_enough() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let first = server.request("POST", "/v1/sessions", &[], "").await.ok(201);
    let second = server.post("/v1/sessions", "{}").await.ok(201);
    assert!(first["session_id"].as_str().unwrap().len() >= 20);
    assert_ne!(first["session_id"], second["session_id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_has_pages_and_only_the_tenants_own() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    world.session_with(|new| new.name = "of another tenant".to_owned()).await;
    for name in ["a", "b", "c"] {
        server.post("/v1/sessions", &json!({"session_id": name}).to_string()).await.ok(201);
    }
    let first = server.get("/v1/sessions?limit=2").await.ok(200);
    let entry = |name: &str| json!({"session_id": name, "archived": false, "key_count": 0, "total_size_tokens": 0});
    assert_eq!(first, json!({"sessions": [entry("a"), entry("b")], "next_cursor": "b"}));
    let rest = server.get("/v1/sessions?limit=2&cursor=b").await.ok(200);
    assert_eq!(rest, json!({"sessions": [entry("c")], "next_cursor": Value::Null}));
    server.get("/v1/sessions/of%20another%20tenant").await.refused(404, "SESSION_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_session_is_refused_by_field() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    for (body, field) in [
        (r#"{"session_id": ""}"#.to_owned(), "session_id"),
        (json!({"session_id": "x".repeat(256)}).to_string(), "session_id"),
        (r#"{"session_id": "nul\u0000"}"#.to_owned(), "session_id"),
        (r#"{"session_id": 1}"#.to_owned(), "session_id"),
        (r#"{"max_active": 6}"#.to_owned(), "max_active"),
        (r#"{"colour": "red"}"#.to_owned(), "colour"),
        (r#"{"metadata": {"a": 1, "a": 2}}"#.to_owned(), "metadata.a"),
        (r#"[]"#.to_owned(), "body"),
    ] {
        let message = server.post("/v1/sessions", &body).await.refused(400, "INVALID_ARGUMENT");
        assert!(message.starts_with(&format!("{field}: ")), "{body}: {message}");
    }
    server.post("/v1/sessions", r#"{"model": "gpt"}"#).await.refused(400, "INVALID_MODEL");
    let longest = "é".repeat(255);
    server.post("/v1/sessions", &json!({"session_id": longest}).to_string()).await.ok(201);
    assert_eq!(
        world.count("select count(*) from session").await,
        1,
        "no session is left by a refused request"
    );
    for (path, field) in [
        ("?limit=0", "limit"),
        ("?colour=red", "colour"),
        ("?limit=1&limit=2", "limit"),
        ("?cursor=%00", "cursor"),
    ] {
        let message =
            server.get(&format!("/v1/sessions{path}")).await.refused(400, "INVALID_ARGUMENT");
        assert!(message.starts_with(&format!("{field}: ")), "{path}: {message}");
    }
    server.get("/v1/sessions/%00").await.refused(400, "INVALID_ARGUMENT");
    server.get("/v1/sessions/%ff").await.refused(400, "INVALID_ARGUMENT");
    let message = server.get("/v1/tasks?q=%ff").await.refused(400, "INVALID_ARGUMENT");
    assert!(message.contains("UTF-8"), "{message}");
    server.get("/v1/tasks?q=%C3%A9%EF%BF%BD%25").await.ok(200);
}

/// The database stores all digits of a number, so all of them must survive parsing.
#[tokio::test(flavor = "multi_thread")]
async fn metadata_keeps_the_largest_numbers() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let metadata =
        json!({"largest": f64::MAX, "least": f64::MIN, "smallest": 5e-324, "whole": i64::MIN});
    let body = json!({"session_id": "s", "metadata": metadata});
    assert_eq!(server.post("/v1/sessions", &body.to_string()).await.ok(201)["metadata"], metadata);
    assert_eq!(server.get("/v1/sessions/s").await.ok(200)["metadata"], metadata);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_sc_12_entries_outlive_their_server_and_end_with_their_session() {
    let world = World::new().await;
    let call = "/v1/sessions/s/tools/shared_context";
    let read = r#"{"action": "read", "key": "a"}"#;
    let first = TestServer::on(&world);
    first.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    first.post(call, r#"{"action": "write", "key": "a", "value": "kept"}"#).await.ok(200);
    first.signal("KILL");
    let second = TestServer::on(&world);
    assert_eq!(second.post(call, read).await.ok(200)["value"], "kept");
    second.delete("/v1/sessions/s").await;
    second.post(call, read).await.refused(404, "SESSION_NOT_FOUND");
    second.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    second.post(call, read).await.refused(404, "KEY_NOT_FOUND");
}
