//! Retries of all tasks that match a filter.

use std::sync::Arc;

use adjutant_agent::{FailureKind, SessionId, TaskState};
use adjutant_store::{Actor, BulkAction, SkipReason};
use serde_json::json;

use super::{filter, in_state, of_agent, retry_all, tasks};
use crate::support::world::{World, queued, task};

/// A session with this many failed tasks.
async fn with_failed(world: &World, tasks: usize) -> SessionId {
    world.store.set_cap(1000).await.unwrap();
    let session = world
        .session_with(|new| (new.max_active, new.max_queued) = (Some(1000), Some(100_000)))
        .await;
    world.spawn_queued(session, tasks, &queued()).await;
    fail_all(world).await;
    session
}

async fn fail_all(world: &World) {
    let worker = world.worker().await;
    for claim in worker.claim(1000).await.unwrap() {
        claim.lease.fail(FailureKind::Model, "no".to_owned(), None).write().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_retry_retries_each_failed_and_cancelled_task_once() {
    let world = World::new().await;
    let session = with_failed(&world, 3).await;
    let [cancelled, completed]: [_; 2] = world.spawn(session, 2).await.try_into().unwrap();
    world.store.cancel(cancelled.id).await.unwrap();
    let claim = world.claim_one(&world.worker().await).await;
    assert_eq!(claim.lease.task(), completed.id);
    let child = claim.lease.spawn(&[task()], None).await.unwrap().remove(0);
    world.store.cancel(child.id).await.unwrap();
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();

    let counted =
        world.store.count_matching(BulkAction::Retry, &filter(|_| ()), None).await.unwrap();
    assert_eq!((counted.tasks, &counted.skipped), (4, &[(SkipReason::Child, 1)].into()));
    let batches = retry_all(&world.store, &filter(|_| ())).await;
    assert_eq!((batches[0].tasks, &batches[0].skipped), (4, &counted.skipped));
    assert_eq!(
        world.count("select count(distinct config ->> 'retry_of') from task").await,
        4,
        "each once"
    );
    let again = retry_all(&world.store, &filter(|_| ())).await;
    let skipped = [(SkipReason::Child, 1), (SkipReason::AlreadyRetried, 4)];
    assert_eq!((again[0].tasks, &again[0].skipped), (0, &skipped.into()));
    // A retry that fails is a failed task itself.
    fail_all(&world).await;
    assert_eq!(tasks(&retry_all(&world.store, &filter(|_| ())).await), 4);
    world.drain(&world.worker().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_was_retried_by_hand_is_not_retried_in_bulk() {
    let world = World::new().await;
    with_failed(&world, 2).await;
    let failed = in_state(TaskState::Failed);
    let one = world.store.tasks(&failed, None, 1).await.unwrap().tasks.remove(0).task.id;
    world.store.retry_task("tenant", one, None).await.unwrap();
    world.store.retry_task("tenant", one, None).await.unwrap();
    let batches = retry_all(&world.store, &failed).await;
    let skipped = [(SkipReason::AlreadyRetried, 1)].into();
    assert_eq!((batches[0].tasks, &batches[0].skipped), (1, &skipped));
}

/// Both have found the task before either retries it.
#[tokio::test(flavor = "multi_thread")]
async fn two_bulk_retries_at_once_retry_each_task_once() {
    let world = World::new().await;
    let session = with_failed(&world, 1).await;
    let held =
        world.hold(&format!("select from session where id = {} for update", session.0)).await;
    let racers: Vec<_> = (0..2)
        .map(|_| {
            let store = world.store.clone();
            tokio::spawn(async move { store.retry_matching(&filter(|_| ()), None).await })
        })
        .collect();
    world.until_blocked(2).await;
    held.commit().await.unwrap();
    let mut counts = Vec::new();
    for racer in racers {
        let batch = racer.await.unwrap().unwrap();
        counts.push((batch.tasks, batch.skipped.get(&SkipReason::AlreadyRetried).copied()));
    }
    counts.sort_unstable();
    assert_eq!(counts, [(0, Some(1)), (1, None)]);
    assert_eq!(world.count("select count(*) from task").await, 2);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_retried_is_counted_by_its_reason() {
    let world = World::new().await;
    let session =
        world.session_with(|new| (new.max_active, new.max_queued) = (Some(2), Some(3))).await;
    world.spawn(session, 2).await;
    fail_all(&world).await;
    world.spawn(session, 2).await;
    fail_all(&world).await;
    world.spawn(session, 1).await;
    let archived = world.session().await;
    world.spawn(archived, 1).await;
    world.store.cancel_matching(&filter(|filter| filter.session = None), None).await.unwrap();
    world.spawn(session, 1).await;
    world.store.archive_session(archived).await.unwrap();
    let batches = retry_all(&world.store, &filter(|_| ())).await;
    let skipped = [(SkipReason::SessionArchived, 1), (SkipReason::TooManyTasks, 3)];
    assert_eq!((batches[0].tasks, &batches[0].skipped), (2, &skipped.into()), "a full session");
    world.store.cancel_matching(&filter(|_| ()), None).await.unwrap();
    let rest = retry_all(&world.store, &filter(|_| ())).await;
    assert_eq!(rest[0].tasks, 3, "there is room for three again: {rest:?}");
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_retry_gives_a_key_nothing_that_it_is_not_granted() {
    let world = World::new().await;
    let session = world.session().await;
    for agent in ["scout", "secretary"] {
        world.spawn_one(session, of_agent(agent)).await;
    }
    world.store.cancel_matching(&filter(|_| ()), None).await.unwrap();
    let grants = serde_json::from_value(json!({"agents": ["scout"]})).unwrap();
    let actor =
        Actor { tenant: Some("tenant".to_owned()), grants: Arc::new(grants), ..Actor::default() };
    let store = world.store.acting_for(Arc::new(actor));
    let batches = retry_all(&store, &filter(|_| ())).await;
    let skipped = [(SkipReason::Refused, 1)].into();
    assert_eq!((batches[0].tasks, &batches[0].skipped), (1, &skipped));
    let carried = "select count(*) from task where config -> 'grants' ->> 'agents' = '[\"scout\"]'";
    assert_eq!(world.count(carried).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_retries_of_a_deleted_session_are_forgotten() {
    let world = World::new().await;
    let session = with_failed(&world, 2).await;
    assert_eq!(tasks(&retry_all(&world.store, &filter(|_| ())).await), 2);
    assert_eq!(world.count("select count(*) from retried").await, 2);
    world.delete(session).await;
    assert_eq!(world.count("select count(*) from retried").await, 0);
}
