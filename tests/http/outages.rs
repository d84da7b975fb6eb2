//! A database that is away: calls are refused soon, and granted when it is back.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::Answer;
use super::server::{CONFIG, Server};
use crate::fleet::proxy::Proxy;
use crate::fleet::server::OwnServer;
use crate::world::World;

/// Less than the time that a client gives a call, with room for a machine that has little of it.
const SOON: Duration = Duration::from_secs(8);

async fn call(server: &Server, arguments: &Value) -> Answer {
    server.post("/v1/sessions/s/tools/subagent", &arguments.to_string()).await
}

fn spawn(key: &str) -> Value {
    json!({"action": "spawn", "agent": "researcher", "task": "x", "idempotency_key": key})
}

fn status() -> Value {
    json!({"action": "status", "task_id": "t_01"})
}

/// With a session, and a task in it.
async fn server_at(url: &str) -> Server {
    let server = Server::at(url, CONFIG);
    server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    assert_eq!(call(&server, &spawn("before")).await.ok(200)["task_id"], "t_01");
    server
}

async fn assert_refused_soon(server: &Server, arguments: &Value) {
    let asked_at = Instant::now();
    let answer = call(server, arguments).await;
    let took = asked_at.elapsed();
    assert_eq!(answer.refused(503, "UNAVAILABLE"), "The database is not available; ask again soon");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(took < SOON, "{arguments}: {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_while_the_database_is_away_is_refused_soon_and_granted_when_it_is_back() {
    let mut database = OwnServer::start();
    let world = database.world().await;
    let server = server_at(world.url()).await;
    database.go_away();
    for arguments in [spawn("meanwhile"), status(), spawn("meanwhile")] {
        assert_refused_soon(&server, &arguments).await;
    }
    database.come_back();
    assert_eq!(call(&server, &status()).await.ok(200)["status"], "running");
    for _ in 0..2 {
        assert_eq!(call(&server, &spawn("meanwhile")).await.ok(200)["task_id"], "t_02", "it is made once");
    }
}

/// Over TCP sqlx would ask again for as long as it may.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_refused_soon_where_nobody_listens() {
    let world = World::new().await;
    let proxy = Proxy::before(&world).await;
    let server = server_at(&proxy.url()).await;
    proxy.cut();
    drop(proxy);
    // The first ones find connections that were cut.
    for arguments in [status(), spawn("meanwhile"), status(), spawn("meanwhile")] {
        assert_refused_soon(&server, &arguments).await;
    }
}
