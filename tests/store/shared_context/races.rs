//! Shared context while others are busy with the same rows.

use adjutant_agent::ErrorCode;
use serde_json::json;
use sqlx::AssertSqlSafe;

use crate::store::shared_context::{context, list_keys, read, task_call, write};
use crate::support::world::{World, assert_lost, assert_refused, completion, race, turn};

/// What `task_context_1` is called with, for a transaction that the test holds.
fn task_write(lease: &adjutant_store::Lease, key: &str) -> String {
    format!(
        "select task_context_1({}, {}, '{}', '{}', {}, 'c', '{}')",
        lease.session().0,
        lease.slot(),
        lease.task(),
        lease.id(),
        lease.answers(),
        json!({"action": "write", "key": key, "value": "text"})
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_at_once_never_fill_the_store_beyond_its_limit() {
    let world = World::with_connections(12).await;
    let session = world.session().await;
    let writers = (0..12).map(|writer| {
        let store = world.store.clone();
        let arguments =
            json!({"action": "write", "key": format!("k{writer}"), "value": "x".repeat(4000)});
        async move { store.shared_context(session, &context(&arguments)).await }
    });
    let mut written = 0;
    for answer in race(writers.collect()).await {
        match answer {
            Ok(_) => written += 1,
            refused => _ = assert_refused(refused, ErrorCode::StoreFull),
        }
    }
    assert_eq!(written, 10);
    assert_eq!(list_keys(&world, session).await["total_size_tokens"], 10_000);
}

/// A write that another one's commit has made too much is refused, though it saw room when it
/// began.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waited_counts_what_it_waited_for() {
    let world = World::new().await;
    let (session, _, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    for key in 0..9 {
        write(&world, session, &format!("k{key}"), &"x".repeat(4000)).await.unwrap();
    }
    write(&world, session, "k9", &"x".repeat(3996)).await.unwrap();
    let held = world.hold(&task_write(&claim.lease, "last")).await;
    let store = world.store.clone();
    let one_more = context(&json!({"action": "write", "key": "one_more", "value": ""}));
    let late = tokio::spawn(async move { store.shared_context(session, &one_more).await });
    world.until_blocked(1).await;
    held.commit().await.unwrap();
    assert_refused(late.await.unwrap(), ErrorCode::StoreFull);
    assert_eq!(list_keys(&world, session).await["total_size_tokens"], 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_before_the_commit_leaves_neither_the_write_nor_its_result() {
    let world = World::new().await;
    let (session, _, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    world.hold(&task_write(&claim.lease, "a")).await.rollback().await.unwrap();
    assert_refused(read(&world, session, "a").await, ErrorCode::KeyNotFound);
    assert!(world.store.turns(claim.lease.task()).await.unwrap()[0].tool_results.is_empty());
    let (answer, _) =
        task_call(&claim.lease, "c", &json!({"action": "write", "key": "a", "value": "text"}))
            .await;
    assert_eq!(answer["version"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_call_at_the_same_instant_writes_once() {
    let world = World::new().await;
    let (session, _, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    let held = world.hold(&task_write(&claim.lease, "a")).await;
    let again = tokio::spawn(async move {
        claim
            .lease
            .shared_context("c", &context(&json!({"action": "write", "key": "a", "value": "text"})))
            .await
    });
    world.until_blocked(1).await;
    held.commit().await.unwrap();
    let again = again.await.unwrap().unwrap();
    assert!(again.content.contains("\"version\": 1"), "{}", again.content);
    assert_eq!(read(&world, session, "a").await.unwrap()["version"], 1);
    assert_eq!(world.count("select count(*) from tool_result").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waited_for_a_sweep_writes_nothing() {
    let world = World::new().await;
    let (session, worker, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    world.expire(claim.lease.id()).await;
    let sweep = world.hold(&format!("select sweep_1('{}', '0 s')", worker.id())).await;
    let late = tokio::spawn(async move {
        claim
            .lease
            .shared_context("c", &context(&json!({"action": "write", "key": "a", "value": "late"})))
            .await
    });
    world.until_blocked(1).await;
    sweep.commit().await.unwrap();
    assert_lost(late.await.unwrap());
    assert_eq!(list_keys(&world, session).await["keys"], json!([]));
    world.drain(&worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waited_for_the_archiving_is_refused() {
    let world = World::new().await;
    let session = world.session().await;
    let archiving = world.hold("update session set archived_at = now()").await;
    let store = world.store.clone();
    let late = context(&json!({"action": "write", "key": "a", "value": "late"}));
    let late = tokio::spawn(async move { store.shared_context(session, &late).await });
    world.until_blocked(1).await;
    archiving.commit().await.unwrap();
    assert_refused(late.await.unwrap(), ErrorCode::SessionArchived);
}

/// Whoever ends a task has its session and then asks for its slot; a write that held the slot and
/// asked for the session would meet it in a deadlock.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_waits_for_its_session_before_it_takes_its_slot() {
    let world = World::new().await;
    let (session, worker, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    let mut ending = world.hold("select from session for no key update").await;
    let end = format!("select end_1({}, true)", completion(&claim.lease));
    let late = tokio::spawn(async move {
        claim
            .lease
            .shared_context("c", &context(&json!({"action": "write", "key": "a", "value": "late"})))
            .await
    });
    world.until_blocked(1).await;
    sqlx::raw_sql(AssertSqlSafe(end)).execute(&mut *ending).await.unwrap();
    ending.commit().await.unwrap();
    assert_lost(late.await.unwrap());
    assert_eq!(list_keys(&world, session).await["keys"], json!([]));
    world.drain(&worker).await;
}
