//! A database outage: calls are refused quickly during it, and accepted after it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::http_client::Answer;
use crate::support::private_postgres::PostgresServer;
use crate::support::proxy::Proxy;
use crate::support::test_server::{CONFIG, TestServer};
use crate::support::world::World;

/// Shorter than the timeouts of clients, and long enough for a slow test machine.
const SOON: Duration = Duration::from_secs(8);

async fn call(server: &TestServer, arguments: &Value) -> Answer {
    server.post("/v1/sessions/s/tools/subagent", &arguments.to_string()).await
}

fn spawn(key: &str) -> Value {
    json!({"action": "spawn", "agent": "researcher", "task": "x", "idempotency_key": key})
}

fn status() -> Value {
    json!({"action": "status", "task_id": "t_01"})
}

/// A server with a session and one task.
async fn server_at(url: &str) -> TestServer {
    let server = TestServer::at(url, CONFIG);
    server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    assert_eq!(call(&server, &spawn("before")).await.ok(200)["task_id"], "t_01");
    server
}

async fn assert_refused_soon(server: &TestServer, arguments: &Value) {
    let started = Instant::now();
    let answer = call(server, arguments).await;
    let took = started.elapsed();
    assert_eq!(answer.refused(503, "UNAVAILABLE"), "The database is not available; retry soon");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(took < SOON, "{arguments}: {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_during_an_outage_is_refused_soon_and_accepted_after_it() {
    let mut database = PostgresServer::start();
    let world = database.world().await;
    let server = server_at(world.url()).await;
    database.stop();
    for arguments in [spawn("meanwhile"), status(), spawn("meanwhile")] {
        assert_refused_soon(&server, &arguments).await;
    }
    database.restart();
    assert_eq!(call(&server, &status()).await.ok(200)["status"], "running");
    for _ in 0..2 {
        assert_eq!(
            call(&server, &spawn("meanwhile")).await.ok(200)["task_id"],
            "t_02",
            "the repeated spawn creates no second task"
        );
    }
}

/// sqlx retries a refused TCP connection until its own timeout, which would be too long.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_refused_soon_when_the_databases_port_is_closed() {
    let world = World::new().await;
    let proxy = Proxy::before(&world).await;
    let server = server_at(&proxy.url()).await;
    proxy.cut();
    drop(proxy);
    // The first calls use pooled connections that were cut.
    for arguments in [status(), spawn("meanwhile"), status(), spawn("meanwhile")] {
        assert_refused_soon(&server, &arguments).await;
    }
}
