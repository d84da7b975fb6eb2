//! Locks that are held for long, and callers that give up.

use std::time::Duration;

use adjutant_agent::{SessionId, TaskId};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::support::http_client::{Answer, try_send};
use crate::support::load::simulation;
use crate::support::test_server::TestServer;
use crate::support::worker_process::{WorkerProcess, simulate};
use crate::support::world::{World, queued, until, until_within};

async fn lock(world: &World, session: SessionId) -> sqlx::Transaction<'static, sqlx::Postgres> {
    world.hold(&format!("select from session where id = {} for update", session.0)).await
}

/// Statements that wait for a lock, and are not the test's own.
const WAITING: &str = "select count(*) from pg_stat_activity
    where datname = current_database() and application_name = 'adjutant' and wait_event_type = 'Lock'";

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_end_waits_for_a_lock_ends_claims_and_renews_everything_else() {
    let world = World::new().await;
    world.store.set_cap(4).await.unwrap();
    let session = world.session().await;
    let stuck = world.spawn_one(session, simulation(json!({"turns": 0, "turn_ms": 0}))).await;
    let held = lock(&world, session).await;
    // It ends each task at once, and runs at most four.
    let _worker = WorkerProcess::start(simulate(world.url()).args(["--concurrency", "4"]));
    until("the end of the task is tried", async || {
        world.count("select count(*) from slot where task is not null").await == 1
            && world.count(WAITING).await > 0
    })
    .await;
    world.spawn_many(60, &simulation(json!({"turns": 0, "turn_ms": 0}))).await;
    world.until_finished(60).await;
    // A lease of two seconds, renewed while its end waits.
    let expiry =
        "select (extract(epoch from expires_at) * 1000)::bigint from slot where task is not null";
    let expires = world.count(expiry).await;
    until("it is renewed", async || world.count(expiry).await > expires).await;
    assert_eq!(unfinished(&world).await, [stuck.id], "while the lock is held");
    held.rollback().await.unwrap();
    world.until_finished(61).await;
    assert_eq!(world.count("select count(*) from attempt where outcome <> 'completed'").await, 0);
    world.assert_sound().await;
}

async fn unfinished(world: &World) -> Vec<TaskId> {
    let ids: Vec<uuid::Uuid> = sqlx::query_scalar("select id from task where finished_at is null")
        .fetch_all(&world.sql)
        .await
        .unwrap();
    ids.into_iter().map(TaskId).collect()
}

/// More ends than a batch takes, all of one session.
#[tokio::test(flavor = "multi_thread")]
async fn many_ends_that_wait_for_a_lock_leave_room_for_others() {
    let world = World::new().await;
    world.store.set_cap(70).await.unwrap();
    let session = world.session_with(|new| new.max_active = Some(60)).await;
    world.spawn_queued(session, 60, &simulation(json!({"turns": 0, "turn_ms": 0}))).await;
    let held = lock(&world, session).await;
    let _worker = WorkerProcess::start(simulate(world.url()).args(["--concurrency", "70"]));
    until("all are claimed", async || {
        world.count("select count(*) from slot where task is not null").await == 60
    })
    .await;
    world.spawn_many(20, &simulation(json!({"turns": 0, "turn_ms": 0}))).await;
    world.until_finished(20).await;
    assert_eq!(unfinished(&world).await.len(), 60, "while the lock is held");
    held.rollback().await.unwrap();
    world.until_finished(80).await;
    world.assert_sound().await;
}

/// A call over HTTP that waits for the lock of its session.
async fn waiting_call(world: &World, server: &TestServer) -> JoinHandle<std::io::Result<Answer>> {
    let address = server.address.clone();
    let body = json!({"action": "write", "key": "a", "value": "b"}).to_string();
    let call = tokio::spawn(async move {
        let length = body.len();
        let request = format!(
            "POST /v1/sessions/s/tools/shared_context HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        try_send(&address, request.as_bytes()).await
    });
    until("it waits", async || world.count(WAITING).await == 1).await;
    call
}

/// Sooner than the lock's time limit would end it.
async fn until_cancelled(world: &World) {
    until_within(Duration::from_secs(7), "the server has cancelled it", async || {
        world.count(WAITING).await == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_given_up_is_cancelled_on_the_server() {
    let world = World::new().await;
    let mut server = TestServer::on(&world);
    server.post("/v1/sessions", &json!({"session_id": "s"}).to_string()).await.ok(201);
    let held = world.hold("select from session for update").await;
    let session = SessionId(world.count("select id from session").await);
    // Its future is dropped.
    let store = world.store.clone();
    let call = tokio::spawn(async move { store.spawn(session, &[queued()], None).await });
    until("it waits", async || world.count(WAITING).await == 1).await;
    call.abort();
    until_cancelled(&world).await;
    // Its client disconnects.
    waiting_call(&world, &server).await.abort();
    until_cancelled(&world).await;
    // Its process is killed.
    let call = waiting_call(&world, &server).await;
    server.kill();
    until_cancelled(&world).await;
    assert!(call.await.unwrap().is_err());
    held.rollback().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_held_for_long_is_an_error_that_may_be_retried() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    server.post("/v1/sessions", &json!({"session_id": "s"}).to_string()).await.ok(201);
    let held = world.hold("select from session for update").await;
    let answer = waiting_call(&world, &server).await.await.unwrap().unwrap();
    let message = answer.refused(503, "UNAVAILABLE");
    assert_eq!(message, "Another request has held the session for too long; retry soon");
    assert_eq!(answer.header("retry-after"), Some("1"));
    held.rollback().await.unwrap();
    let write = json!({"action": "write", "key": "a", "value": "b"}).to_string();
    server.post("/v1/sessions/s/tools/shared_context", &write).await.ok(200);
}
