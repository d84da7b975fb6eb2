use std::time::Duration;

use adjutant_agent::{FailureKind, TaskState};
use adjutant_store::{Dependency, NewTask};
use serde_json::json;

use crate::store::shared_context::write;
use crate::store::snapshots::{claim, context_call, note, one_apart, overlay_rows, with_snapshot};
use crate::support::world::{World, task};

#[tokio::test(flavor = "multi_thread")]
async fn an_overlay_ends_in_the_transaction_that_ends_its_task() {
    let world = World::new().await;
    let (_, claim) = one_apart(&world).await;
    assert_eq!(overlay_rows(&world).await, 2);
    let mut ending = world.hold_completion(&claim.lease).await;
    let left: i64 = sqlx::query_scalar("select count(*) from context_entry where session < 0")
        .fetch_one(&mut *ending)
        .await
        .unwrap();
    assert_eq!(
        (left, overlay_rows(&world).await),
        (0, 2),
        "gone in there, and for nobody else yet"
    );
    ending.commit().await.unwrap();
    assert_eq!(overlay_rows(&world).await, 0);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn however_a_task_ends_its_overlay_ends_with_it() {
    let world = World::new().await;
    let (session, failing) = one_apart(&world).await;
    failing.lease.fail(FailureKind::Model, "no".to_owned(), None).write().await.unwrap();
    assert_eq!(overlay_rows(&world).await, 0, "failed");

    let queued = world.spawn_one(session, with_snapshot()).await;
    assert_eq!(overlay_rows(&world).await, 2);
    world.store.cancel(queued.id).await.unwrap();
    assert_eq!(overlay_rows(&world).await, 0, "cancelled in the queue");

    let running = world.spawn_one(session, with_snapshot()).await;
    let mut cancelled = claim(&world).await;
    note(&mut cancelled.lease, "own", "text").await;
    world.store.cancel(running.id).await.unwrap();
    assert_eq!(overlay_rows(&world).await, 0, "cancelled while it ran");

    let first = world.spawn(session, 1).await.remove(0);
    let after = NewTask { depends_on: vec![Dependency::Task(first.number)], ..with_snapshot() };
    let after = world.spawn_one(session, after).await;
    assert_eq!(overlay_rows(&world).await, 2, "it waits");
    world.store.cancel(first.id).await.unwrap();
    assert_eq!(world.state(session, after.number).await, TaskState::Failed);
    assert_eq!(overlay_rows(&world).await, 0, "failed by its dependency");

    let frail = NewTask { max_failures: 1, ..with_snapshot() };
    world.spawn_one(session, frail).await;
    let worker = world.steady_worker().await;
    let lost = world.claim_one(&worker).await;
    world.expire(lost.lease.id()).await;
    assert!(worker.sweep(Duration::ZERO).await.unwrap()[0].ended);
    assert_eq!(overlay_rows(&world).await, 0, "lost for good");

    world.spawn_one(session, with_snapshot()).await;
    world.delete(session).await;
    assert_eq!(overlay_rows(&world).await, 0, "deleted with its session");
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_ends_without_its_task_leaves_the_overlay() {
    let world = World::new().await;
    let (_, mut first) = one_apart(&world).await;
    note(&mut first.lease, "own", "text").await;
    first.lease.release().write().await.unwrap();
    let mut next = claim(&world).await;
    assert_eq!(
        context_call(&mut next.lease, json!({"action": "read", "key": "own"})).await["value"],
        "text"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overlay_ends_with_the_last_task_that_works_on_it() {
    let world = World::new().await;
    let (_, parent) = one_apart(&world).await;
    parent.lease.spawn(&[task(), task()], None).await.unwrap();
    let (one, other) = (claim(&world).await, claim(&world).await);
    one.lease.complete("done".to_owned(), None).write().await.unwrap();
    parent.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(overlay_rows(&world).await, 2, "one of its children goes on");
    other.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(overlay_rows(&world).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_end_together_leave_nothing() {
    let world = World::new().await;
    let session = world.session().await;
    write(&world, session, "plan", "text").await.unwrap();
    world.store.spawn(session, &vec![with_snapshot(); 5], None).await.unwrap();
    let claims = world.worker().await.claim(5).await.unwrap();
    assert_eq!(overlay_rows(&world).await, 10);
    let endings: Vec<_> =
        claims.into_iter().map(|claim| claim.lease.complete("done".to_owned(), None)).collect();
    world.store.end(&endings).await.unwrap();
    assert_eq!(overlay_rows(&world).await, 0);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_shares_has_no_overlay() {
    let world = World::new().await;
    let (session, _, _claim) = world.one_running().await;
    write(&world, session, "plan", "text").await.unwrap();
    assert_eq!(world.count("select count(*) from task where context is not null").await, 0);
    assert_eq!(world.count("select count(*) from context_overlay where is_called").await, 0);
}
