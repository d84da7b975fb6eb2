//! Cancelling: at once, the whole tree, whatever else happens to it at the same instant.

use std::time::Duration;

use adjutant_agent::{ErrorCode, TaskId, TaskState, WaitMode};

use crate::support::world::{World, assert_lost, assert_refused, race, task, turn};

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_task_is_cancelled_and_never_runs() {
    let world = World::new().await;
    let session = world.session().await;
    let spawned = world.spawn(session, 7).await;
    let cancelled = world.store.cancel(spawned[0].id).await.unwrap();
    assert_eq!((cancelled.state, cancelled.changed), (TaskState::Cancelled, true));
    world.store.cancel(spawned[6].id).await.unwrap();
    world.assert_sound().await;
    let order = world.drain(&world.worker().await).await;
    assert_eq!(order, spawned[1..6].iter().map(|task| task.id).collect::<Vec<_>>());
    assert_eq!(
        world.count("select count(*) from notification").await,
        5,
        "a cancelled task leaves none"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_task_is_cancelled_with_its_text_and_its_worker_fenced_off() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let spawned = world.spawn(session, 1).await;
    let mut claim = world.claim_one(&worker).await;
    claim.lease.checkpoint(&turn("so far")).await.unwrap();
    let cancelled = world.store.cancel(spawned[0].id).await.unwrap();
    assert_eq!(cancelled.partial_result.as_deref(), Some("so far"));
    assert_eq!(cancelled.leases, [claim.lease.id()]);
    assert_eq!(
        worker.renew(&[claim.lease.id()]).await.unwrap().lost,
        [claim.lease.id()],
        "the worker learns of it"
    );
    assert_lost(claim.lease.checkpoint(&turn("more")).await);
    assert_lost(claim.lease.complete("done".to_owned(), None).write().await);
    assert_eq!(world.store.slots().await.unwrap().used, 0);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_an_ended_task_changes_nothing_and_returns_its_state() {
    let world = World::new().await;
    let session = world.session().await;
    let spawned = world.spawn(session, 1).await;
    world.drain(&world.worker().await).await;
    let answer = world.store.cancel(spawned[0].id).await.unwrap();
    assert_eq!((answer.state, answer.changed), (TaskState::Completed, false));
    assert_refused(world.store.cancel(TaskId::new()).await, ErrorCode::TaskNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_tree_is_cancelled() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let root = world.spawn(session, 1).await.remove(0);
    let parent = world.claim_one(&worker).await;
    let children = parent.lease.spawn(&vec![task(); 8], None).await.unwrap();
    let running = world.claim_one(&worker).await;
    let grandchildren = running.lease.spawn(&[task()], None).await.unwrap();
    // A finished child does not hide what is below it.
    running.lease.complete("done".to_owned(), None).write().await.unwrap();
    parent
        .lease
        .wait(children.iter().map(|child| child.id).collect(), WaitMode::All)
        .write()
        .await
        .unwrap();
    world.store.cancel(root.id).await.unwrap();
    let open = world.count("select count(*) from task where finished_at is null").await;
    assert_eq!(open, 0);
    assert_eq!(world.state(session, grandchildren[0].number).await, TaskState::Cancelled);
    assert_eq!(world.state(session, children[0].number).await, TaskState::Completed);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn running_children_of_an_ended_task_can_be_cancelled_through_it() {
    let world = World::new().await;
    let (session, worker, parent) = world.one_running().await;
    let root = parent.lease.task();
    let children = parent.lease.spawn(&[task(), task()], None).await.unwrap();
    parent.lease.complete("done".to_owned(), None).write().await.unwrap();
    let running = world.claim_one(&worker).await;
    let answer = world.store.cancel(root).await.unwrap();
    assert_eq!((answer.state, answer.changed), (TaskState::Completed, false));
    assert_eq!(answer.leases, [running.lease.id()]);
    for child in children {
        assert_eq!(world.state(session, child.number).await, TaskState::Cancelled);
    }
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_waited_sets_an_end_after_the_start() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let spawned = world.spawn(session, 1).await.remove(0);
    let held = world.hold("select from session for update").await;
    let store = world.store.clone();
    let cancel = tokio::spawn(async move { store.cancel(spawned.id).await.unwrap() });
    world.until_blocked(1).await;
    let claim = world.claim_one(&worker).await;
    held.commit().await.unwrap();
    assert_eq!(cancel.await.unwrap().leases, [claim.lease.id()]);
    let status = world.store.status(session, spawned.number).await.unwrap();
    assert!(status.finished_at >= status.started_at, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_waits_for_a_claim_in_flight_takes_its_lease_away() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let spawned = world.spawn(session, 1).await.remove(0);
    let claim = world.hold_claim(&worker).await;
    let store = world.store.clone();
    let cancel = tokio::spawn(async move { store.cancel(spawned.id).await });
    world.until_blocked(1).await;
    claim.commit().await.unwrap();
    let cancelled = cancel.await.unwrap().unwrap();
    assert_eq!(cancelled.leases.len(), 1);
    assert_eq!(world.store.slots().await.unwrap().used, 0);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_passes_over_a_task_that_is_being_cancelled() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let spawned = world.spawn(session, 2).await;
    let cancel = world.hold(&format!("select from cancel_1('{}')", spawned[0].id)).await;
    assert_eq!(world.claim_one(&worker).await.lease.task(), spawned[1].id);
    cancel.commit().await.unwrap();
    assert!(worker.claim(1).await.unwrap().is_empty());
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_cancel_and_an_end_at_once_exactly_one_wins() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let mut cancels = 0;
    for _ in 0..100 {
        let spawned = world.spawn(session, 1).await.remove(0);
        let ending = world.claim_one(&worker).await.lease.complete("done".to_owned(), None);
        let store = world.store.clone();
        let cancel = tokio::spawn(async move { store.cancel(spawned.id).await.unwrap() });
        let ended = tokio::spawn(async move { ending.write().await.is_ok() });
        let (cancelled, completed) = (cancel.await.unwrap().changed, ended.await.unwrap());
        assert_ne!(cancelled, completed);
        let expected = if cancelled { TaskState::Cancelled } else { TaskState::Completed };
        assert_eq!(world.state(session, spawned.number).await, expected);
        cancels += i32::from(cancelled);
    }
    world.assert_sound().await;
    eprintln!("the cancel won {cancels} of 100");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_waits_for_a_cancel_finds_its_lease_lost() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let spawned = world.spawn(session, 1).await.remove(0);
    let claim = world.claim_one(&worker).await;
    let cancel = world.hold(&format!("select from cancel_1('{}')", spawned.id)).await;
    let end =
        tokio::spawn(async move { claim.lease.complete("late".to_owned(), None).write().await });
    world.until_blocked(1).await;
    cancel.commit().await.unwrap();
    assert_lost(end.await.unwrap());
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_waits_for_an_end_changes_nothing() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let spawned = world.spawn(session, 1).await.remove(0);
    let claim = world.claim_one(&worker).await;
    let end = world.hold_completion(&claim.lease).await;
    let store = world.store.clone();
    let cancel = tokio::spawn(async move { store.cancel(spawned.id).await.unwrap() });
    world.until_blocked(1).await;
    end.commit().await.unwrap();
    let answer = cancel.await.unwrap();
    assert_eq!((answer.state, answer.changed), (TaskState::Completed, false));
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_and_a_sweep_at_once_end_the_task_once() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.steady_worker().await;
    for _ in 0..50 {
        let spawned = world.spawn(session, 1).await.remove(0);
        let lease = world.claim_one(&worker).await.lease;
        world.expire(lease.id()).await;
        let (store, sweeper) = (world.store.clone(), worker.clone());
        let cancel = tokio::spawn(async move { store.cancel(spawned.id).await.unwrap().changed });
        let sweep = tokio::spawn(async move { sweeper.sweep(Duration::ZERO).await.unwrap() });
        assert!(cancel.await.unwrap());
        sweep.await.unwrap();
        assert_eq!(world.state(session, spawned.number).await, TaskState::Cancelled);
        assert!(worker.claim(1).await.unwrap().is_empty(), "a cancelled task never runs again");
    }
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_waits_for_a_sweep_still_cancels() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.steady_worker().await;
    let spawned = world.spawn(session, 1).await.remove(0);
    let lease = world.claim_one(&worker).await.lease;
    world.expire(lease.id()).await;
    let sweep = world.hold(&format!("select sweep_1('{}', '0 s')", worker.id())).await;
    let store = world.store.clone();
    let cancel = tokio::spawn(async move { store.cancel(spawned.id).await.unwrap() });
    world.until_blocked(1).await;
    sweep.commit().await.unwrap();
    assert!(cancel.await.unwrap().changed);
    assert!(worker.claim(1).await.unwrap().is_empty());
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_and_a_wait_at_once_leave_nothing_waiting() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    for _ in 0..50 {
        let spawned = world.spawn(session, 1).await.remove(0);
        let claim = world.claim_one(&worker).await;
        let children = claim.lease.spawn(&[task(), task()], None).await.unwrap();
        let wait = claim.lease.wait(children.iter().map(|child| child.id).collect(), WaitMode::All);
        let store = world.store.clone();
        let racers: Vec<std::pin::Pin<Box<dyn Future<Output = bool> + Send>>> = vec![
            Box::pin(async move { wait.write().await.is_ok() }),
            Box::pin(async move { store.cancel(spawned.id).await.unwrap().changed }),
        ];
        assert!(race(racers).await[1], "the cancel always wins");
        assert!(worker.claim(5).await.unwrap().is_empty());
    }
    assert_eq!(world.count("select count(*) from task where state <> 'cancelled'").await, 0);
    world.assert_sound().await;
}
