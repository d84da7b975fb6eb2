//! Parents and children: a parent that waits holds nothing, and wakes in front.

use std::time::Duration;

use adjutant_agent::{
    AgentConfig, AgentDefinition, ErrorCode, OnWorkerLoss, Outcome, SessionId, TaskNumber,
    TaskState, ToolResult, WaitMode,
};
use adjutant_store::{
    Claim, Dependency, IdempotencyKey, NewDelegation, NewTask, Operator, Spawned, Worker,
};

use crate::support::world::{World, assert_lost, assert_refused, queued, race, task, turn};

async fn spawn_children(claim: &Claim, count: usize) -> Vec<Spawned> {
    claim.lease.spawn(&vec![task(); count], None).await.unwrap()
}

async fn park(claim: Claim, children: &[Spawned], waiting_for: WaitMode) {
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
    for depth in 1..=3 {
        let claim = world.claim_one(&worker).await;
        assert_eq!(claim.assignment.depth.0, depth);
        assert_eq!(claim.assignment.root, root.id);
        let children = spawn_children(&claim, 1).await;
        park(claim, &children, WaitMode::All).await;
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
    park(claim, &children, WaitMode::All).await;
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
    park(claim, &children, WaitMode::Any).await;
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
    park(claim, &children, WaitMode::All).await;
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
async fn a_parent_whose_children_have_ended_continues_at_once() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let parent = world.spawn(session, 1).await.remove(0);
    let claim = world.claim_one(&worker).await;
    let children = spawn_children(&claim, 1).await;
    complete_one(&world, &worker).await;
    park(claim, &children, WaitMode::All).await;
    assert_eq!(world.drain(&worker).await, [parent.id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_waits_for_no_child_continues_at_once() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let stranger = world.spawn(world.session().await, 1).await;
    world.store.cancel(stranger[0].id).await.unwrap();
    for waiting_for in [WaitMode::All, WaitMode::Any] {
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
        let children: Vec<_> =
            spawn_children(&claim, 1).await.into_iter().map(|child| child.id).collect();
        let child = world.claim_one(&worker).await;
        let endings = vec![
            claim.lease.wait(children, WaitMode::All),
            child.lease.complete("done".to_owned(), None),
        ];
        race(
            endings
                .into_iter()
                .map(|ending| async move { ending.write().await.unwrap() })
                .collect(),
        )
        .await;
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
    park(claim, &children, WaitMode::All).await;
    assert_refused(world.store.spawn(session, &[task()], None).await, ErrorCode::MaxTasksExceeded);
    assert_eq!(world.drain(&worker).await.len(), 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_may_depend_on_a_sibling_but_on_no_other_task() {
    let world = World::new().await;
    let (_, worker, claim) = world.one_running().await;
    let on_parent = NewTask { depends_on: vec![Dependency::Task(TaskNumber(1))], ..queued() };
    assert_refused(claim.lease.spawn(&[on_parent], None).await, ErrorCode::TaskNotFound);
    let batch = [NewTask { depends_on: vec![Dependency::InBatch(1)], ..queued() }, queued()];
    let children = claim.lease.spawn(&batch, None).await.unwrap();
    park(claim, &children, WaitMode::All).await;
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
async fn an_idempotency_key_belongs_to_the_parent_across_attempts() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.steady_worker().await;
    world.spawn(session, 2).await;
    let [one, other]: [Claim; 2] = worker.claim(2).await.unwrap().try_into().unwrap();
    let key = Some(IdempotencyKey { key: "turn 1, call 1", body: b"body" });
    let mine = one.lease.spawn(&[task()], key).await.unwrap();
    assert_eq!(one.lease.spawn(&[task()], key).await.unwrap(), mine);
    assert_ne!(
        other.lease.spawn(&[task()], key).await.unwrap(),
        mine,
        "the other has children of its own"
    );
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
    for _ in 1..10 {
        spawn_children(&parent, 1).await;
        parent = world.claim_one(&worker).await;
        // Room in the window and in the cap for the next: this one waits for nothing.
        world.store.set_cap(20).await.unwrap();
        sqlx::query("update session set max_active = 20").execute(&world.sql).await.unwrap();
    }
    assert_eq!(parent.assignment.depth.0, 10);
    let message =
        assert_refused(parent.lease.spawn(&[task()], None).await, ErrorCode::InvalidArgument);
    assert!(message.starts_with("depth:"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_woken_parent_finds_its_turns() {
    let world = World::new().await;
    let (_, worker, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("I delegate.")).await.unwrap();
    let children = spawn_children(&claim, 1).await;
    park(claim, &children, WaitMode::All).await;
    complete_one(&world, &worker).await;
    let resumed = world.claim_one(&worker).await;
    assert_eq!((resumed.lease.attempt(), resumed.lease.answers()), (2, 1));
    let turns = world.store.turns(resumed.lease.task()).await.unwrap();
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].turn, turn("I delegate."));
}

fn to(agent: &str) -> NewDelegation {
    NewDelegation {
        task: NewTask { agent: agent.to_owned(), ..task() },
        ..NewDelegation::default()
    }
}

/// A parent that runs and has stored a turn, in a session that has an agent `helper`.
async fn delegating(world: &World) -> (SessionId, Worker, Claim) {
    let (session, worker, mut claim) = world.one_running().await;
    let helper = AgentDefinition {
        name: "helper".to_owned(),
        description: "Helps".to_owned(),
        on_worker_loss: OnWorkerLoss::Resume,
        tenants: None,
        config: AgentConfig {
            system_prompt: "You help.".to_owned(),
            max_turns: 3,
            ..AgentConfig::default()
        },
    };
    world.store.define(session, &helper, adjutant_store::Redefinition::Refuse).await.unwrap();
    claim.lease.checkpoint(&turn("I delegate.")).await.unwrap();
    (session, worker, claim)
}

async fn delegate(claim: &Claim, call: &str, count: usize) -> adjutant_store::Result<Vec<Spawned>> {
    claim.lease.delegate(call, &vec![to("helper"); count], &Operator::default()).await
}

fn ids(spawned: &[Spawned]) -> Vec<TaskNumber> {
    spawned.iter().map(|spawned| spawned.number).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_delegates_once_also_when_its_children_have_ended_and_days_have_passed() {
    let world = World::new().await;
    let (session, worker, claim) = delegating(&world).await;
    let made = delegate(&claim, "call 1", 2).await.unwrap();
    assert_eq!(ids(&made), [TaskNumber(2), TaskNumber(3)]);
    assert_eq!(ids(&delegate(&claim, "call 1", 2).await.unwrap()), ids(&made));
    assert_eq!(
        ids(&delegate(&claim, "call 2", 1).await.unwrap()),
        [TaskNumber(4)],
        "another call, another child"
    );
    let config: serde_json::Value = sqlx::query_scalar("select config from task where number = 2")
        .fetch_one(&world.sql)
        .await
        .unwrap();
    assert_eq!((&config["system_prompt"], &config["max_turns"]), (&"You help.".into(), &3.into()));

    world.store.cancel(made[0].id).await.unwrap();
    sqlx::query("update task set created_at = created_at - interval '3 days', started_at = started_at - interval '3 days' where finished_at is null")
        .execute(&world.sql)
        .await
        .unwrap();
    world.expire(claim.lease.id()).await;
    worker.sweep(Duration::ZERO).await.unwrap();
    let next = worker
        .claim(10)
        .await
        .unwrap()
        .into_iter()
        .find(|claim| claim.assignment.parent.is_none())
        .unwrap();
    assert_eq!(
        ids(&delegate(&next, "call 1", 2).await.unwrap()),
        ids(&made),
        "the next attempt's too"
    );
    assert_eq!(world.count("select count(*) from task").await, 4);
    assert_eq!(world.state(session, TaskNumber(2)).await, TaskState::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_agent_creates_no_child_and_the_call_can_succeed_later() {
    let world = World::new().await;
    let (_, _, claim) = delegating(&world).await;
    let wrong = [to("helper"), to("nobody")];
    let message = assert_refused(
        claim.lease.delegate("call 1", &wrong, &Operator::default()).await,
        ErrorCode::AgentNotFound,
    );
    assert_eq!(message, "Agent not found: nobody");
    assert_eq!(world.count("select count(*) from task").await, 1);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_holder_of_the_lease_handles_children() {
    let world = World::new().await;
    let (_, worker, claim) = delegating(&world).await;
    let child = delegate(&claim, "call 1", 2).await.unwrap().remove(0);
    world.store.cancel(child.id).await.unwrap();
    world.expire(claim.lease.id()).await;
    worker.sweep(Duration::ZERO).await.unwrap();
    let next = worker.claim(10).await.unwrap();
    let result =
        ToolResult { call: "call 2".to_owned(), content: "x".to_owned(), ..ToolResult::default() };
    assert_lost(delegate(&claim, "call 1", 2).await);
    assert_lost(delegate(&claim, "call 9", 1).await);
    assert_lost(claim.lease.cancel_child(TaskNumber(3)).await);
    assert_lost(claim.lease.collect_child(child.number, &result).await);
    assert_eq!(
        world
            .count(
                "select count(*) from task where state = 'cancelled' or collected_at is not null"
            )
            .await,
        1
    );
    assert_eq!(world.count("select count(*) from task").await, 3);
    drop(next);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_is_collected_once_together_with_the_call_result() {
    let world = World::new().await;
    let (session, worker, claim) = delegating(&world).await;
    let child = delegate(&claim, "call 1", 1).await.unwrap().remove(0);
    assert_refused(claim.lease.outcome_of_child(child.number).await, ErrorCode::TaskNotReady);
    complete_one(&world, &worker).await;
    let (notified, outcome) = claim.lease.outcome_of_child(child.number).await.unwrap();
    assert_eq!((notified.number, notified.state), (child.number, TaskState::Completed));
    assert_eq!(outcome, Outcome::Completed { result: "done".to_owned(), summary: None });
    let result = ToolResult {
        call: "call 2".to_owned(),
        content: "done".to_owned(),
        ..ToolResult::default()
    };
    for _ in 0..2 {
        claim.lease.collect_child(child.number, &result).await.unwrap();
    }
    assert_eq!(
        world.store.turns(claim.lease.task()).await.unwrap()[0].tool_results,
        std::slice::from_ref(&result)
    );
    let another = ToolResult { call: "call 3".to_owned(), ..result };
    // Its own child, itself, somebody else's task, and one that its orchestrator has collected.
    let strangers = world.spawn(session, 2).await;
    for stranger in &strangers {
        world.store.cancel(stranger.id).await.unwrap();
    }
    world.store.collect(session, strangers[1].number, None).await.unwrap();
    for (number, said) in [
        (child.number, "was already collected at "),
        (TaskNumber(1), "Task not found: t_01"),
        (strangers[0].number, "Task not found: t_03"),
        (strangers[1].number, "Task not found: t_04"),
    ] {
        for refused in [
            claim.lease.outcome_of_child(number).await.map(drop),
            claim.lease.collect_child(number, &another).await.map(drop),
            claim.lease.cancel_child(number).await.map(drop),
        ] {
            let message = assert_refused(refused, ErrorCode::TaskNotFound);
            assert!(message.contains(said), "{message}");
        }
    }
    assert_eq!(claim.lease.children().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_with_a_timeout_ends_with_its_children_or_the_timeout() {
    let world = World::new().await;
    let (session, worker, claim) = delegating(&world).await;
    let children: Vec<_> =
        delegate(&claim, "call 1", 1).await.unwrap().into_iter().map(|child| child.id).collect();
    let hour = Duration::from_secs(3600);
    claim.lease.wait_at_most(children.clone(), WaitMode::All, hour).write().await.unwrap();
    assert_eq!(world.store.admit_due().await.unwrap(), 0, "it is not due");
    assert_eq!(world.state(session, TaskNumber(1)).await, TaskState::Waiting);
    complete_one(&world, &worker).await;
    let parent = world.claim_one(&worker).await;
    assert_eq!(parent.lease.attempt(), 2, "its children were done before the time was");
    let again: Vec<_> =
        delegate(&parent, "call 2", 1).await.unwrap().into_iter().map(|child| child.id).collect();
    parent.lease.wait_at_most(again, WaitMode::Any, hour).write().await.unwrap();
    sqlx::query("update task set not_before = now() - interval '1 second' where state = 'waiting'")
        .execute(&world.sql)
        .await
        .unwrap();
    assert_eq!(world.store.admit_due().await.unwrap(), 1);
    world.assert_sound().await;
    assert_eq!(world.count("select count(*) from awaited").await, 0);
    let woken = worker.claim(1).await.unwrap().remove(0);
    assert_eq!(woken.lease.attempt(), 3, "it is the first in the queue");
    woken.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(world.drain(&worker).await.len(), 1);
}
