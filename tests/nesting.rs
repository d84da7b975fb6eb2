//! Parents and children: a parent that waits holds nothing, and wakes in front.

use adjutant_agent::{ErrorCode, TaskNumber, TaskState};
use adjutant_store::{Await, Claim, Dependency, IdempotencyKey, NewTask, Spawned, Worker};

use crate::world::{World, assert_lost, assert_refused, queued, race, task, turn};

async fn spawn_children(claim: &Claim, count: usize) -> Vec<Spawned> {
    claim.lease.spawn(&vec![task(); count], None).await.unwrap()
}

async fn park(claim: Claim, children: &[Spawned], waiting_for: Await) {
    let children = children.iter().map(|child| child.id).collect();
    claim.lease.wait(children, waiting_for).write().await.unwrap();
}

async fn complete_one(world: &World, worker: &Worker) {
    world.claim_one(worker).await.lease.complete("done".to_owned(), None).write().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn at_cap_1_a_tree_of_depth_3_completes() {
    let world = World::new().await;
    world.store.set_cap(1).await.unwrap();
    let session = world.session_with(|session| session.max_active = Some(1)).await;
    let worker = world.worker().await;
    let root = world.spawn(session, 1).await.remove(0);
    for depth in 0..3 {
        let claim = world.claim_one(&worker).await;
        assert_eq!(claim.assignment.depth, depth);
        assert_eq!(claim.assignment.root, root.id);
        let children = spawn_children(&claim, 1).await;
        park(claim, &children, Await::All).await;
        world.assert_sound().await;
    }
    complete_one(&world, &worker).await;
    let order = world.drain(&worker).await;
    assert_eq!(order.last(), Some(&root.id), "the root ends last");
    assert_eq!(world.count("select max(attempt)::bigint from task").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_wakes_when_its_last_child_ends_and_goes_to_the_front() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let parent = world.spawn(session, 1).await.remove(0);
    let claim = world.claim_one(&worker).await;
    let children = spawn_children(&claim, 2).await;
    park(claim, &children, Await::All).await;
    let bystander = world.spawn(world.session().await, 1).await.remove(0);
    assert_eq!(world.state(session, parent.number).await, TaskState::Waiting);
    complete_one(&world, &worker).await;
    assert_eq!(world.state(session, parent.number).await, TaskState::Waiting);
    complete_one(&world, &worker).await;
    assert_eq!(world.drain(&worker).await, [parent.id, bystander.id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_waits_for_any_child_wakes_with_the_first() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let parent = world.spawn(session, 1).await.remove(0);
    let claim = world.claim_one(&worker).await;
    let children = spawn_children(&claim, 2).await;
    park(claim, &children, Await::Any).await;
    complete_one(&world, &worker).await;
    assert_eq!(world.state(session, parent.number).await, TaskState::Queued);
    world.drain(&worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_wakes_when_a_child_fails_or_is_cancelled_too() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let parent = world.spawn(session, 1).await.remove(0);
    let claim = world.claim_one(&worker).await;
    let children = spawn_children(&claim, 2).await;
    park(claim, &children, Await::All).await;
    let lease = world.claim_one(&worker).await.lease;
    lease.fail(adjutant_agent::FailureKind::Tool, "broken".to_owned(), None).write().await.unwrap();
    world.store.cancel(children[1].id).await.unwrap();
    assert_eq!(world.drain(&worker).await, [parent.id]);
    assert_eq!(
        world.count("select count(*) from notification").await,
        1,
        "children tell their parent, nobody else"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_whose_children_have_ended_goes_on_at_once() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let parent = world.spawn(session, 1).await.remove(0);
    let claim = world.claim_one(&worker).await;
    let children = spawn_children(&claim, 1).await;
    complete_one(&world, &worker).await;
    park(claim, &children, Await::All).await;
    assert_eq!(world.drain(&worker).await, [parent.id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_waits_for_no_child_goes_on_at_once() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let stranger = world.spawn(world.session().await, 1).await;
    world.store.cancel(stranger[0].id).await.unwrap();
    for waiting_for in [Await::All, Await::Any] {
        let parent = world.spawn(session, 1).await.remove(0);
        park(world.claim_one(&worker).await, &[], waiting_for).await;
        assert_eq!(world.state(session, parent.number).await, TaskState::Queued);
        // Somebody else's task is no child, and is not waited for.
        park(world.claim_one(&worker).await, &stranger, waiting_for).await;
        assert_eq!(world.drain(&worker).await, [parent.id]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_and_the_last_childs_end_at_once_lose_no_wake_up() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    for _ in 0..100 {
        let parent = world.spawn(session, 1).await.remove(0);
        let claim = world.claim_one(&worker).await;
        let children: Vec<_> = spawn_children(&claim, 1).await.into_iter().map(|child| child.id).collect();
        let child = world.claim_one(&worker).await;
        let endings =
            vec![claim.lease.wait(children, Await::All), child.lease.complete("done".to_owned(), None)];
        race(endings.into_iter().map(|ending| async move { ending.write().await.unwrap() }).collect()).await;
        assert_eq!(world.drain(&worker).await, [parent.id]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn children_are_never_refused_for_want_of_room() {
    let world = World::new().await;
    let session = world.session_with(|session| {
        session.max_active = Some(1);
        session.max_queued = Some(1);
    });
    let session = session.await;
    let worker = world.worker().await;
    world.spawn(session, 1).await;
    let claim = world.claim_one(&worker).await;
    let children = spawn_children(&claim, 10).await;
    park(claim, &children, Await::All).await;
    assert_refused(world.store.spawn(session, &[task()], None).await, ErrorCode::MaxTasksExceeded);
    assert_eq!(world.drain(&worker).await.len(), 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_may_depend_on_a_sibling_but_on_nobody_outside() {
    let world = World::new().await;
    let (_, worker, claim) = world.one_running().await;
    let on_parent = NewTask { depends_on: vec![Dependency::Task(TaskNumber(1))], ..queued() };
    assert_refused(claim.lease.spawn(&[on_parent], None).await, ErrorCode::TaskNotFound);
    let batch = [NewTask { depends_on: vec![Dependency::InBatch(1)], ..queued() }, queued()];
    let children = claim.lease.spawn(&batch, None).await.unwrap();
    park(claim, &children, Await::All).await;
    let order = world.drain(&worker).await;
    assert_eq!(order[..2], [children[1].id, children[0].id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_holder_of_the_lease_can_spawn_children() {
    let world = World::new().await;
    let (_, worker, claim) = world.one_running().await;
    world.expire(claim.lease.id()).await;
    worker.sweep(std::time::Duration::ZERO).await.unwrap();
    assert_lost(claim.lease.spawn(&[task()], None).await);
    let current = world.claim_one(&worker).await;
    assert_lost(claim.lease.spawn(&[task()], None).await);
    assert_eq!(world.count("select count(*) from task").await, 1);
    current.lease.spawn(&[task()], None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_its_parents_own_and_the_next_attempts() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.steady_worker().await;
    world.spawn(session, 2).await;
    let [one, other]: [Claim; 2] = worker.claim(2).await.unwrap().try_into().unwrap();
    let key = Some(IdempotencyKey { key: "turn 1, call 1", body: b"body" });
    let mine = one.lease.spawn(&[task()], key).await.unwrap();
    assert_eq!(one.lease.spawn(&[task()], key).await.unwrap(), mine);
    assert_ne!(other.lease.spawn(&[task()], key).await.unwrap(), mine, "the other has children of its own");
    world.expire(one.lease.id()).await;
    worker.sweep(std::time::Duration::ZERO).await.unwrap();
    assert_lost(one.lease.spawn(&[task()], key).await);
    let next = world.claim_one(&worker).await;
    assert_eq!(next.lease.spawn(&[task()], key).await.unwrap(), mine);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_at_most_10_deep() {
    let world = World::new().await;
    let (_, worker, mut parent) = world.one_running().await;
    for _ in 0..10 {
        spawn_children(&parent, 1).await;
        parent = world.claim_one(&worker).await;
        // Room in the window and in the cap for the next: this one waits for nothing.
        world.store.set_cap(20).await.unwrap();
        sqlx::query("update session set max_active = 20").execute(&world.sql).await.unwrap();
    }
    assert_eq!(parent.assignment.depth, 10);
    let message = assert_refused(parent.lease.spawn(&[task()], None).await, ErrorCode::InvalidArgument);
    assert!(message.starts_with("depth:"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_woken_parent_finds_its_turns() {
    let world = World::new().await;
    let (_, worker, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("I delegate.")).await.unwrap();
    let children = spawn_children(&claim, 1).await;
    park(claim, &children, Await::All).await;
    complete_one(&world, &worker).await;
    let resumed = world.claim_one(&worker).await;
    assert_eq!((resumed.lease.attempt(), resumed.lease.answers()), (2, 1));
    let turns = world.store.turns(resumed.lease.task()).await.unwrap();
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].turn, turn("I delegate."));
}
