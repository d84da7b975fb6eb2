//! Deleting a session: gone for everyone at once; its rows go in batches.

use std::time::Duration;

use adjutant_agent::{ErrorCode, SessionId, TaskId, TaskNumber, TaskState, WaitMode};
use adjutant_store::{
    Check, DeletionsLeft, DeliveryFilter, Dependency, EndWait, IdempotencyKey, NewSession, NewTask,
    NotificationWait, TaskFilter,
};
use serde_json::json;

use crate::store::shared_context::{call, write};
use crate::support::many_tasks::with_overlay;
use crate::support::world::{World, assert_lost, assert_refused, queued, task, turn};
use crate::worker::webhooks::deliveries::{all_events, completes};

/// More than one batch deletes.
const MANY: i32 = 20_000;

/// A session with tasks in every state, and every kind of row that a session can have. Returns the
/// number of tasks.
async fn fill(world: &World, session: SessionId) -> i64 {
    let key = IdempotencyKey { key: "k", body: b"" };
    world.store.spawn(session, &[queued()], Some(key)).await.unwrap();
    write(world, session, "a", "text").await.unwrap();
    call(world, session, json!({"action": "snapshot", "label": "x"})).await.unwrap();
    let first = world.spawn_one(session, with_overlay()).await;
    let depends_on = vec![Dependency::Task(first.number)];
    world.spawn_one(session, NewTask { depends_on, ..queued() }).await;
    let delay = Some(Duration::from_secs(3600));
    world.spawn_one(session, NewTask { delay, ..queued() }).await;
    world.spawn_queued(session, 1500, &queued()).await;
    world.count("select count(*) from task").await
}

fn left(sessions: i64, tasks: i64) -> DeletionsLeft {
    DeletionsLeft { sessions, tasks }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rows_of_a_deleted_session_go_in_batches_while_others_work() {
    let world = World::new().await;
    world.store.set_cap(10).await.unwrap();
    let worker = world.worker().await;
    let session = world.session_with_completed(MANY, |_| ()).await;
    let tasks = fill(&world, session).await;
    let held = world.claim_one(&worker).await;
    let (other, empty) = (world.session().await, world.session().await);
    world.spawn(other, 3).await;
    world.assert_sound().await;

    let rows = world.rows().await;
    world.store.delete_session(session).await.unwrap();
    world.store.delete_session(empty).await.unwrap();
    assert!(world.rows().await >= rows, "its rows are not deleted in this transaction");
    assert_eq!(world.store.deletions_left().await.unwrap(), left(2, tasks));
    assert_lost(held.lease.complete("late".to_owned(), None).write().await);
    assert_eq!(world.store.slots().await.unwrap().used, 0);
    world.assert_sound().await;

    // A batch that does not end holds up nobody.
    let batch = world.hold("select delete_batch_1()").await;
    assert!(!world.store.delete_batch().await.unwrap(), "one process deletes at a time");
    for _ in 0..3 {
        let claim = world.claim_one(&worker).await;
        assert_eq!(claim.lease.session(), other);
        claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    }
    assert!(worker.claim(10).await.unwrap().is_empty(), "deleted tasks do not run");
    batch.rollback().await.unwrap();
    assert_eq!(world.store.deletions_left().await.unwrap(), left(2, tasks), "it left no trace");

    let mut before = tasks;
    while before > 0 {
        assert!(world.store.delete_batch().await.unwrap());
        let now = world.store.deletions_left().await.unwrap().tasks;
        assert!(before - now <= 1000, "{} tasks in one transaction", before - now);
        assert_eq!(world.count("select count(*) from task").await, now + 3, "of both sessions");
        before = now;
    }
    world.assert_sound().await;
    while world.store.delete_batch().await.unwrap() {}
    assert_eq!(world.tables_with_rows_of(session).await, [""; 0]);
    assert_eq!(world.store.deletions_left().await.unwrap(), left(0, 0));
    world.assert_sound().await;
    let states = world.store.stats("tenant", None).await.unwrap().states;
    let (queued, completed) = (states["queued"], states["completed"]);
    assert_eq!((queued, completed), (0, i64::from(MANY) + 3), "what was done stays counted");
    assert_eq!(states["cancelled"], tasks - i64::from(MANY));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_a_deleted_session_is_free_at_once() {
    let world = World::new().await;
    let new = NewSession { tenant: "t".into(), name: "name".into(), ..NewSession::default() };
    let old = world.store.create_session(&new).await.unwrap().id;
    let key = IdempotencyKey { key: "k", body: b"" };
    world.store.spawn(old, &vec![queued(); 3], Some(key)).await.unwrap();
    write(&world, old, "a", "old").await.unwrap();
    world.store.delete_session(old).await.unwrap();
    let young = world.store.create_session(&new).await.unwrap().id;
    assert!(young.0 > old.0, "numbers are never used again");
    let key = IdempotencyKey { key: "k", body: b"" };
    let spawned = world.store.spawn(young, &[queued()], Some(key)).await.unwrap();
    assert_eq!(spawned.len(), 1, "the key is not known");
    assert_eq!(spawned[0].number, TaskNumber(1));
    assert_eq!(world.store.session_details("t", "name").await.unwrap().key_count, 0);
    while world.store.delete_batch().await.unwrap() {}
    assert_eq!(world.tables_with_rows_of(old).await, [""; 0]);
    let worker = world.worker().await;
    assert_eq!(world.drain(&worker).await, [spawned[0].id]);
}

/// Before any batch ran.
#[tokio::test(flavor = "multi_thread")]
async fn no_call_finds_anything_of_a_deleted_session() {
    let world = World::new().await;
    let (session, worker, claim) = world.one_running().await;
    let name = world.name_of(session).await;
    let done = claim.lease.task();
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    let open = world.spawn(session, 1).await.remove(0);
    let numbers = [TaskNumber(1), open.number];
    world.store.delete_session(session).await.unwrap();

    let store = &world.store;
    let none = ErrorCode::SessionNotFound;
    assert_refused(store.session("tenant", &name).await, none);
    assert_refused(store.session_details("tenant", &name).await, none);
    assert!(store.sessions("tenant", None, 10).await.unwrap().is_empty());
    assert_refused(store.delete_session(session).await, none);
    assert_refused(store.archive_session(session).await, none);
    assert_refused(store.spawn(session, &[task()], None).await, none);
    for number in numbers {
        assert_refused(store.status(session, number).await, none);
        assert_refused(store.cancel_by_number(session, number).await, none);
        assert_refused(store.collect(session, number, None).await, none);
        assert_refused(store.read_result(session, number, 0, 100).await, none);
        assert_refused(store.task_details(session, number).await, ErrorCode::TaskNotFound);
    }
    let mut ends = EndWait::of(&numbers, WaitMode::Any);
    assert_refused(store.check_ends(session, &mut ends, Check::Last).await, none);
    let mut notifications = NotificationWait::of(None);
    assert_refused(store.check_notifications(session, &mut notifications, Check::Last).await, none);
    assert_refused(store.cancel(open.id).await, none);
    assert_refused(store.task("tenant", done).await, ErrorCode::TaskNotFound);
    assert_refused(store.task_turns("tenant", done, None, 10).await, ErrorCode::TaskNotFound);
    assert_refused(store.retry_task("tenant", done, None).await, ErrorCode::TaskNotFound);
    assert_refused(store.task_session("tenant", done).await, ErrorCode::TaskNotFound);
    assert!(store.has_ended(open.id).await.unwrap());
    let all = TaskFilter { tenant: "tenant".to_owned(), ..TaskFilter::default() };
    assert!(store.tasks(&all, None, 10).await.unwrap().tasks.is_empty());
    assert_eq!(store.session_tasks(session, 10).await.unwrap().count, 0);
    assert_refused(store.events(session, 0, 10).await, none);
    assert_eq!(store.newest_events(&[(session, 0)]).await.unwrap(), [(session, i64::MAX)]);
    assert_refused(store.agents(session).await, none);
    assert_refused(write(&world, session, "a", "late").await, none);
    let fleet = store.fleet().await.unwrap();
    assert!(fleet.pools.iter().all(|pool| (pool.ready, pool.running) == (0, 0)), "{fleet:?}");
    assert!(worker.claim(10).await.unwrap().is_empty());
    world.assert_sound().await;
    while store.delete_batch().await.unwrap() {}
    let fleet = store.fleet().await.unwrap();
    assert_eq!((fleet.queued, fleet.unfinished), (0, 0), "they count until their rows are deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_waits_for_a_deletion_finds_no_session() {
    let world = World::new().await;
    let session = world.session().await;
    let spawned = world.spawn(session, 1).await.remove(0);
    let deletion = world.hold(&format!("select delete_session_1({})", session.0)).await;
    let store = world.store.clone();
    let cancel = tokio::spawn(async move { store.cancel(spawned.id).await });
    world.until_blocked(1).await;
    deletion.commit().await.unwrap();
    assert_refused(cancel.await.unwrap(), ErrorCode::SessionNotFound);
    world.assert_sound().await;
    while world.store.delete_batch().await.unwrap() {}
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_of_a_deleted_session_are_not_sent() {
    let world = World::new().await;
    let url = "https://example.com/".to_owned();
    let webhook = Some(all_events(url.clone()));
    let session = world.session_with(|new| new.webhook = webhook).await;
    let spawned = world.spawn(session, 2).await;
    world.store.cancel(spawned[0].id).await.unwrap();
    let kept = world.spawn_with_webhook(completes(url)).await;
    world.store.cancel(kept.id).await.unwrap();
    let running = world.claim_one(&world.worker().await).await;
    world.store.delete_session(session).await.unwrap();
    drop(running);
    let filter = DeliveryFilter { tenant: "tenant".to_owned(), ..DeliveryFilter::default() };
    let listed = world.store.deliveries(&filter, 10).await.unwrap();
    assert_eq!(listed.iter().map(|one| TaskId(one.task)).collect::<Vec<_>>(), [kept.id]);
    let lease = Duration::from_secs(60);
    let claimed = world.store.claim_deliveries(1, &[], lease).await.unwrap();
    assert_eq!(claimed.iter().map(|one| one.task.id).collect::<Vec<_>>(), [kept.id]);
    while world.store.delete_batch().await.unwrap() {}
    assert_eq!(world.count("select count(*) from webhook_delivery").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_tasks_of_a_deleted_session_never_run() {
    let world = World::new().await;
    let worker = world.worker().await;
    let (gone, kept) = (world.session().await, world.session().await);
    let delayed = NewTask { delay: Some(Duration::from_secs(3600)), ..queued() };
    world.spawn_one(gone, delayed.clone()).await;
    let kept = world.spawn_one(kept, delayed).await;
    world.store.delete_session(gone).await.unwrap();
    sqlx::query("update task set not_before = now() - interval '1 s'")
        .execute(&world.sql)
        .await
        .unwrap();
    world.store.admit_due().await.unwrap();
    assert!(!worker.poll(&[], Duration::ZERO).await.unwrap().due, "nothing is due any more");
    assert_eq!(world.claim_one(&worker).await.lease.task(), kept.id);
    assert!(worker.claim(1).await.unwrap().is_empty());
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_has_fewer_tasks_if_they_have_many_turns_or_overlays() {
    let world = World::new().await;
    let session = world.session_with_completed(99, |_| ()).await;
    // Only the batch reads the number of answers.
    for statement in [
        "alter table task disable trigger user",
        "update task set answers = 900",
        "alter table task enable trigger user",
    ] {
        sqlx::query(statement).execute(&world.sql).await.unwrap();
    }
    world.spawn_queued(session, 20, &with_overlay()).await;
    world.store.delete_session(session).await.unwrap();
    let mut batches = Vec::new();
    let mut before = 119;
    while before > 0 {
        assert!(world.store.delete_batch().await.unwrap());
        let now = world.store.deletions_left().await.unwrap().tasks;
        batches.push(before - now);
        before = now;
    }
    assert_eq!((batches[0], batches.last()), (3, Some(&4)), "{batches:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_wait_for_a_deleted_one_do_not_wake() {
    let world = World::new().await;
    let (session, worker, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    let children = claim.lease.spawn(&vec![queued(); 3], None).await.unwrap();
    let waits = children.iter().map(|child| child.id).collect();
    claim.lease.wait(waits, WaitMode::All).write().await.unwrap();
    assert_eq!(world.state(session, TaskNumber(1)).await, TaskState::Waiting);
    world.claim_one(&worker).await;
    world.store.delete_session(session).await.unwrap();
    world.assert_sound().await;
    while world.store.delete_batch().await.unwrap() {
        assert!(worker.claim(10).await.unwrap().is_empty());
        world.assert_sound().await;
    }
    assert_eq!(world.tables_with_rows_of(session).await, [""; 0]);
}
