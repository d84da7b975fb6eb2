//! Sweeping: a dead worker's tasks go on elsewhere, and what kills its worker every time ends.

use std::time::Duration;

use adjutant_agent::{FailureKind, TaskNumber, TaskState};
use adjutant_store::{NewTask, OnWorkerLoss};

use crate::support::world::{World, task, turn};

const FIRST: TaskNumber = TaskNumber(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_task_is_requeued_in_front_with_its_turns() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.steady_worker().await;
    let lost = world.spawn(session, 1).await.remove(0);
    let mut claim = world.claim_one(&worker).await;
    claim.lease.checkpoint(&turn("kept")).await.unwrap();
    let other = world.spawn(session, 1).await.remove(0);
    assert!(worker.sweep(Duration::ZERO).await.unwrap().is_empty(), "its lease still runs");
    world.expire(claim.lease.id()).await;
    let swept = worker.sweep(Duration::ZERO).await.unwrap();
    assert_eq!((swept.len(), swept[0].task, swept[0].ended), (1, lost.id, false));
    let resumed = world.claim_one(&worker).await;
    assert_eq!(
        (resumed.lease.task(), resumed.lease.attempt(), resumed.lease.answers()),
        (lost.id, 2, 1)
    );
    resumed.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(world.drain(&worker).await, [other.id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_swept_only_after_the_grace_period() {
    let world = World::new().await;
    let (_, worker, claim) = world.one_running().await;
    world.expire(claim.lease.id()).await;
    assert!(worker.sweep(Duration::from_secs(3601)).await.unwrap().is_empty());
    assert_eq!(worker.sweep(Duration::from_secs(3599)).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_worker_that_renewed_twice_in_a_row_may_sweep() {
    let world = World::new().await;
    let (_, _, claim) = world.one_running().await;
    let worker = world.worker().await;
    world.expire(claim.lease.id()).await;
    assert!(worker.sweep(Duration::ZERO).await.unwrap().is_empty(), "it never renewed");
    worker.renew(&[]).await.unwrap();
    assert!(worker.sweep(Duration::ZERO).await.unwrap().is_empty(), "it renewed once");
    // An outage: its last renewal is longer ago than a lease lasts.
    sqlx::query("update worker set renewed_at = now() - interval '31 s'")
        .execute(&world.sql)
        .await
        .unwrap();
    worker.renew(&[]).await.unwrap();
    assert!(worker.sweep(Duration::ZERO).await.unwrap().is_empty(), "not in a row");
    worker.renew(&[]).await.unwrap();
    assert_eq!(worker.sweep(Duration::ZERO).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_renewed_while_a_sweep_waits_is_kept() {
    let world = World::new().await;
    let (_, worker, claim) = world.one_running().await;
    world.expire(claim.lease.id()).await;
    let renewal =
        format!("select from renew_1('{}', array['{}'::uuid])", worker.id(), claim.lease.id());
    let renewal = world.hold(&renewal).await;
    let sweeper = worker.clone();
    let sweep = tokio::spawn(async move { sweeper.sweep(Duration::ZERO).await.unwrap() });
    world.until_blocked(1).await;
    renewal.commit().await.unwrap();
    assert!(sweep.await.unwrap().is_empty());
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_loses_three_workers_in_a_row_without_progress_fails() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.steady_worker().await;
    world.spawn(session, 1).await;
    for (loss, progress) in [true, false, false, true, false, false, false].into_iter().enumerate()
    {
        let mut claim = world.claim_one(&worker).await;
        if progress {
            claim.lease.checkpoint(&turn("progress")).await.unwrap();
        }
        world.expire(claim.lease.id()).await;
        let swept = worker.sweep(Duration::ZERO).await.unwrap();
        assert_eq!(swept[0].ended, loss == 6, "loss {loss}");
    }
    let status = world.store.status(session, FIRST).await.unwrap();
    assert_eq!(
        (status.state, status.failure, status.attempt),
        (TaskState::Failed, Some(FailureKind::Lost), 7)
    );
    assert_eq!(
        status.error.as_deref(),
        Some("The worker was lost 3 times in a row without progress")
    );
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_not_to_be_resumed_fails_with_its_worker() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.steady_worker().await;
    world.spawn_one(session, NewTask { on_worker_loss: OnWorkerLoss::Fail, ..task() }).await;
    let mut claim = world.claim_one(&worker).await;
    claim.lease.checkpoint(&turn("half way")).await.unwrap();
    world.expire(claim.lease.id()).await;
    assert!(worker.sweep(Duration::ZERO).await.unwrap()[0].ended);
    let status = world.store.status(session, FIRST).await.unwrap();
    assert_eq!((status.state, status.failure), (TaskState::Failed, Some(FailureKind::Lost)));
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn releasing_and_waiting_cost_no_failure() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.steady_worker().await;
    world.spawn(session, 1).await;
    for _ in 0..5 {
        world.claim_one(&worker).await.lease.release().write().await.unwrap();
    }
    assert_eq!(world.state(session, FIRST).await, TaskState::Queued);
    assert_eq!(world.count("select failures::bigint from task").await, 0);
    assert_eq!(world.drain(&worker).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_started_in_the_future_can_be_swept() {
    let world = World::new().await;
    let (session, worker, claim) = world.one_running().await;
    claim.lease.release().write().await.unwrap();
    // The database's clock was an hour ahead when the task started.
    sqlx::query("update task set started_at = now() + interval '1 hour', max_failures = 1")
        .execute(&world.sql)
        .await
        .unwrap();
    world.spawn(session, 1).await;
    let (late, other) = (world.claim_one(&worker).await, world.claim_one(&worker).await);
    world.expire(late.lease.id()).await;
    world.expire(other.lease.id()).await;
    let swept = worker.sweep(Duration::ZERO).await.unwrap();
    assert_eq!(swept.len(), 2, "one task does not keep the other from being swept");
    assert_eq!(world.state(session, FIRST).await, TaskState::Failed);
}
