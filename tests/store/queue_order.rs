//! First in, first out, per pool and priority, in the order of entry into the queue.

use adjutant_agent::TaskId;
use adjutant_store::NewTask;

use crate::support::world::{World, queued};

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_claimed_in_the_order_in_which_they_were_spawned() {
    let world = World::new().await;
    let worker = world.worker().await;
    let mut spawned = Vec::new();
    for _ in 0..20 {
        let session = world.session().await;
        spawned.extend(world.spawn(session, 2).await);
    }
    let spawned: Vec<TaskId> = spawned.iter().map(|task| task.id).collect();
    assert_eq!(world.drain(&worker).await, spawned);
}

#[tokio::test(flavor = "multi_thread")]
async fn higher_priority_goes_first_and_is_in_order_itself() {
    let world = World::new().await;
    let worker = world.worker().await;
    let mut expected = Vec::new();
    for priority in [0, 5, -5, 5, 0] {
        let session = world.session().await;
        let task = world.spawn_one(session, NewTask { priority, ..queued() }).await;
        expected.push((std::cmp::Reverse(priority), expected.len(), task.id));
    }
    expected.sort_unstable();
    let expected: Vec<TaskId> = expected.into_iter().map(|(_, _, id)| id).collect();
    assert_eq!(world.drain(&worker).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_admitted_later_goes_to_the_back() {
    let world = World::new().await;
    let worker = world.worker().await;
    let (one, other) = (
        world.session_with(|session| session.max_active = Some(1)).await,
        world.session_with(|session| session.max_active = Some(1)).await,
    );
    let ones = world.spawn(one, 2).await;
    let others = world.spawn(other, 2).await;
    let expected = [ones[0].id, others[0].id, ones[1].id, others[1].id];
    world.store.set_cap(1).await.unwrap();
    assert_eq!(world.drain(&worker).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_task_goes_to_the_front_behind_those_released_before_it() {
    let world = World::new().await;
    let worker = world.worker().await;
    let mut spawned = Vec::new();
    for _ in 0..4 {
        let session = world.session().await;
        spawned.push(world.spawn(session, 1).await[0].id);
    }
    let claims = worker.claim(3).await.unwrap();
    let [first, second, third]: [_; 3] = claims.try_into().unwrap();
    second.lease.release().write().await.unwrap();
    first.lease.release().write().await.unwrap();
    third.lease.release().write().await.unwrap();
    let expected = [spawned[1], spawned[0], spawned[2], spawned[3]];
    assert_eq!(world.drain(&worker).await, expected);
}
