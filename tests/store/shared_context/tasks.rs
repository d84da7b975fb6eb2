//! The door of a task: a call and its result are one, and only the holder of the lease has a key.

use std::time::Duration;

use adjutant_agent::{ErrorCode, TaskNumber};
use serde_json::json;

use crate::store::shared_context::{context, list_keys, read, task_call, write};
use crate::support::world::{World, assert_lost, assert_refused, turn};

const TABLES: [&str; 16] = [
    "session",
    "task",
    "turn",
    "tool_result",
    "event",
    "attempt",
    "notification",
    "awaited",
    "queue",
    "idempotency",
    "context_entry",
    "context_history",
    "context_snapshot",
    "webhook_delivery",
    "agent",
    "deleted_session",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_call_and_its_result_are_stored_together_and_once() {
    let world = World::new().await;
    let (session, _, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    let arguments = json!({"action": "write", "key": "a", "value": "text"});
    let (answer, result) = task_call(&claim.lease, "call_1", &arguments).await;
    assert_eq!((&answer["key"], &answer["version"]), (&json!("a"), &json!(1)));
    assert!(!result.is_error);
    let (_, again) = task_call(&claim.lease, "call_1", &arguments).await;
    assert_eq!(again, result, "asked again after an unanswered call");
    assert_eq!(read(&world, session, "a").await.unwrap()["version"], 1, "written once");
    let (answer, _) = task_call(&claim.lease, "call_2", &arguments).await;
    assert_eq!(answer["version"], 2, "another call is another write");
    let turns = world.store.turns(claim.lease.task()).await.unwrap();
    assert_eq!(turns[0].tool_results.len(), 2);
    assert_eq!(turns[0].tool_results[0], result);
    // The same id in a later turn is another call.
    claim.lease.checkpoint(&turn("two")).await.unwrap();
    let (answer, _) = task_call(&claim.lease, "call_1", &arguments).await;
    assert_eq!(answer["version"], 3);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_reads_what_others_wrote_and_the_result_is_stored() {
    let world = World::new().await;
    let (session, _, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    write(&world, session, "plan", "first").await.unwrap();
    let reading = json!({"action": "read", "key": "plan"});
    let (answer, result) = task_call(&claim.lease, "c1", &reading).await;
    assert_eq!(answer, read(&world, session, "plan").await.unwrap());
    write(&world, session, "plan", "second").await.unwrap();
    let (_, again) = task_call(&claim.lease, "c1", &reading).await;
    assert_eq!(again, result, "the model has seen it, or will");
    let (answer, _) = task_call(&claim.lease, "c2", &reading).await;
    assert_eq!(answer["value"], "second");
    // A reader waits for nobody who writes, unless it is a task, whose reading is an event.
    let writer = world.hold("select from session for update").await;
    list_keys(&world, session).await;
    writer.rollback().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_a_result_for_the_task() {
    let world = World::new().await;
    let (session, _, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    let (answer, result) =
        task_call(&claim.lease, "c1", &json!({"action": "read", "key": "none"})).await;
    assert_eq!(answer["error"], "KEY_NOT_FOUND");
    assert!(answer["message"].as_str().unwrap().contains("none"));
    assert!(result.is_error);
    for key in 0..10 {
        write(&world, session, &format!("k{key}"), &"x".repeat(4000)).await.unwrap();
    }
    let one_more = json!({"action": "write", "key": "a", "value": ""});
    let (answer, full) = task_call(&claim.lease, "c2", &one_more).await;
    assert_eq!(answer["error"], "STORE_FULL");
    assert_eq!(list_keys(&world, session).await["total_size_tokens"], 10_000);
    let stored = &world.store.turns(claim.lease.task()).await.unwrap()[0].tool_results;
    assert_eq!(stored, &[result, full.clone()]);
    super::call(&world, session, json!({"action": "delete", "key": "k0"})).await.unwrap();
    let (_, again) = task_call(&claim.lease, "c2", &one_more).await;
    assert_eq!(again, full, "a stored refusal stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_writes_nothing() {
    let world = World::new().await;
    let (session, worker, mut stale) = world.one_running().await;
    stale.lease.checkpoint(&turn("one")).await.unwrap();
    world.expire(stale.lease.id()).await;
    assert_eq!(worker.sweep(Duration::ZERO).await.unwrap().len(), 1);
    let current = world.claim_one(&worker).await;
    assert_eq!(
        current.lease.slot(),
        stale.lease.slot(),
        "in the same slot, so that only the lease tells them apart"
    );
    for arguments in
        [json!({"action": "write", "key": "a", "value": "late"}), json!({"action": "list_keys"})]
    {
        assert_lost(stale.lease.shared_context("c", &context(&arguments)).await);
    }
    assert_eq!(list_keys(&world, session).await["keys"], json!([]));
    assert_eq!(world.count("select count(*) from tool_result").await, 0);
    task_call(&current.lease, "c", &json!({"action": "write", "key": "a", "value": "mine"})).await;
    assert_eq!(read(&world, session, "a").await.unwrap()["value"], "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_renews_the_lease_and_belongs_to_a_turn() {
    let world = World::new().await;
    let (_, worker, mut claim) = world.one_running().await;
    let listing = context(&json!({"action": "list_keys"}));
    let before_any_turn = claim.lease.shared_context("c", &listing).await.unwrap_err();
    assert!(before_any_turn.to_string().contains("no turn 0"), "{before_any_turn}");
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    world.expire(claim.lease.id()).await;
    claim.lease.shared_context("c", &listing).await.unwrap();
    assert!(worker.sweep(Duration::ZERO).await.unwrap().is_empty(), "renewed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_attempt_finds_the_result_and_the_write() {
    let world = World::new().await;
    let (session, worker, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    let arguments = json!({"action": "write", "key": "a", "value": "text"});
    let (_, result) = task_call(&claim.lease, "c\0", &arguments).await;
    assert_eq!(result.call, "c\u{fffd}");
    world.expire(claim.lease.id()).await;
    worker.sweep(Duration::ZERO).await.unwrap();
    let next = world.claim_one(&worker).await;
    let turns = world.store.turns(next.lease.task()).await.unwrap();
    assert_eq!(turns[0].tool_results[0], result);
    let (_, again) = task_call(&next.lease, "c\0", &arguments).await;
    assert_eq!(again, result);
    assert_eq!(read(&world, session, "a").await.unwrap()["version"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_an_archived_session_may_end_but_its_writes_are_refused() {
    let world = World::new().await;
    let (session, _, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    world.store.archive_session(session).await.unwrap();
    let (answer, _) =
        task_call(&claim.lease, "c1", &json!({"action": "write", "key": "a", "value": "late"}))
            .await;
    assert_eq!(answer["error"], "SESSION_ARCHIVED");
    task_call(&claim.lease, "c2", &json!({"action": "list_keys"})).await;
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    world.store.status(session, TaskNumber(1)).await.unwrap();
    assert_refused(
        world.store.spawn(session, &[crate::support::world::queued()], None).await,
        ErrorCode::SessionArchived,
    );
    world.store.collect(session, TaskNumber(1), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_leaves_nothing_and_takes_its_leases_back() {
    let world = World::new().await;
    let kept = world.session().await;
    write(&world, kept, "a", "kept").await.unwrap();
    let (session, worker, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    task_call(&claim.lease, "c", &json!({"action": "write", "key": "a", "value": ""})).await;
    super::call(&world, session, json!({"action": "snapshot", "label": "x"})).await.unwrap();
    let key = adjutant_store::IdempotencyKey { key: "k", body: b"" };
    world
        .store
        .spawn(session, &vec![crate::support::world::queued(); 10], Some(key))
        .await
        .unwrap();
    claim.lease.spawn(&[crate::support::world::task()], None).await.unwrap();
    world.delete(session).await;
    assert_lost(claim.lease.checkpoint(&turn("late")).await);
    assert_lost(claim.lease.complete("late".to_owned(), None).write().await);
    assert!(worker.claim(10).await.unwrap().is_empty());
    assert_eq!(world.store.slots().await.unwrap().used, 0);
    let mut left = Vec::new();
    for table in TABLES {
        let rows: i64 =
            sqlx::query_scalar(sqlx::AssertSqlSafe(format!("select count(*) from {table}")))
                .fetch_one(&world.sql)
                .await
                .unwrap();
        left.extend((rows > 0).then_some((table, rows)));
    }
    assert_eq!(
        left,
        [("session", 1), ("context_entry", 1), ("context_history", 1)],
        "of the other session"
    );
    world.assert_sound().await;
}
