//! Tasks that come from others: done again, or gone on with.

use adjutant_agent::{
    AgentConfig, AgentDraft, Budget, DefinitionLimits, ErrorCode, FailureKind, OnWorkerLoss,
    SessionId, TaskNumber, TaskState,
};
use adjutant_store::{
    Dependency, IdempotencyKey, NewDelegation, NewTask, Operator, Redefinition, Spawned,
};
use serde_json::{Map, Value, json};

use crate::support::world::{World, assert_refused, queued, task, turn};

fn config(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn going_on(assignment: &str) -> NewDelegation {
    let task = NewTask { assignment: assignment.to_owned(), ..NewTask::default() };
    NewDelegation { task, ..NewDelegation::default() }
}

/// A task that has ended with one turn.
async fn ended(world: &World, session: SessionId, task: NewTask) -> Spawned {
    let spawned = world.spawn_one(session, task).await;
    let mut claim = world.claim_one(&world.worker().await).await;
    claim.lease.checkpoint(&turn("So far.")).await.unwrap();
    claim.lease.fail(FailureKind::MaxTurns, "too long".to_owned(), None).write().await.unwrap();
    spawned
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_the_same_task_once_more() {
    let world = World::new().await;
    let session = world.session().await;
    let original = NewTask {
        config: config(json!({"model": "main", "system_prompt": "You test."})),
        label: Some("the label".to_owned()),
        metadata: config(json!({"ticket": 7})),
        agent_version: 3,
        priority: 2,
        max_failures: 1,
        on_worker_loss: OnWorkerLoss::Fail,
        ..queued()
    };
    let first = ended(&world, session, original).await;
    let retry = world.store.retry_task("tenant", first.id, None).await.unwrap();
    assert_eq!((retry.number, retry.state), (TaskNumber(2), TaskState::Queued));
    let same = "select count(distinct (
        agent, agent_version, config - 'retry_of', assignment, label, metadata, pool, priority, on_worker_loss, max_failures
    )) from task";
    assert_eq!(world.count(same).await, 1);
    let record = world.store.task("tenant", retry.id).await.unwrap().entry;
    assert_eq!(
        (record.retry_of, record.continues, record.task.turns_used),
        (Some(first.id), None, 0)
    );
    world.drain(&world.worker().await).await;
    let again = world.store.retry_task("tenant", retry.id, None).await.unwrap();
    assert_eq!(world.store.task("tenant", again.id).await.unwrap().entry.retry_of, Some(retry.id));
    let before = world.store.task("tenant", first.id).await.unwrap().entry;
    assert_eq!(
        (before.task.state, before.retry_of),
        (TaskState::Failed, None),
        "what has ended never changes"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_ended_tasks_can_be_retried_or_continued() {
    let world = World::new().await;
    let (session, worker, claim) = world.one_running().await;
    let number = claim.assignment.number;
    let running = world.store.retry_task("tenant", claim.lease.task(), None).await;
    assert_refused(running, ErrorCode::TaskNotReady);
    let continue_task = async |number| {
        world
            .store
            .continue_task(session, number, &going_on("More."), &Operator::default(), None)
            .await
    };
    assert_refused(continue_task(number).await, ErrorCode::TaskNotReady);
    assert_refused(continue_task(TaskNumber(9)).await, ErrorCode::TaskNotFound);
    let child = claim.lease.spawn(&[task()], None).await.unwrap().remove(0);
    world.store.cancel(child.id).await.unwrap();
    let message = assert_refused(
        world.store.retry_task("tenant", child.id, None).await,
        ErrorCode::InvalidArgument,
    );
    assert!(message.contains("t_02 is a child"), "{message}");
    assert_refused(continue_task(child.number).await, ErrorCode::InvalidArgument);
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    world.store.collect(session, number, None).await.unwrap();
    continue_task(number).await.unwrap();
    world.drain(&worker).await;
    world.store.archive_session(session).await.unwrap();
    assert_refused(continue_task(number).await, ErrorCode::SessionArchived);
    let task = world.store.tasks(&filter(), None, 1).await.unwrap().tasks.remove(0).task.id;
    assert_refused(world.store.retry_task("tenant", task, None).await, ErrorCode::SessionArchived);
}

fn filter() -> adjutant_store::TaskFilter {
    adjutant_store::TaskFilter { tenant: "tenant".to_owned(), ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_respect_the_sessions_window() {
    let world = World::new().await;
    let session = world.session_with(|session| session.max_active = Some(1)).await;
    let first = ended(&world, session, queued()).await;
    world.spawn(session, 1).await;
    assert_refused(
        world.store.retry_task("tenant", first.id, None).await,
        ErrorCode::MaxTasksExceeded,
    );
    let operator = Operator::default();
    let mut more = going_on("More.");
    let refused = world.store.continue_task(session, first.number, &more, &operator, None).await;
    assert_refused(refused, ErrorCode::MaxTasksExceeded);
    more.task.queue = true;
    world.store.continue_task(session, first.number, &more, &operator, None).await.unwrap();
    world.drain(&world.worker().await).await;
    world.store.retry_task("tenant", first.id, None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_with_the_same_key_is_one_retry() {
    let world = World::new().await;
    let session = world.session().await;
    let first = ended(&world, session, queued()).await;
    let key = IdempotencyKey { key: "key", body: b"retry t_01" };
    let retry = world.store.retry_task("tenant", first.id, Some(key)).await.unwrap();
    assert_eq!(world.store.retry_task("tenant", first.id, Some(key)).await.unwrap(), retry);
    assert_eq!(world.count("select count(*) from task").await, 2);
    let other = IdempotencyKey { body: b"spawn", ..key };
    world.store.spawn(session, &[queued()], Some(other)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_does_not_wait_for_failed_dependencies() {
    let world = World::new().await;
    let session = world.session().await;
    let first = world.spawn(session, 1).await.remove(0);
    let after = NewTask { depends_on: vec![Dependency::Task(first.number)], ..queued() };
    let after = world.spawn_one(session, after).await;
    world.store.cancel(first.id).await.unwrap();
    assert_eq!(world.state(session, after.number).await, TaskState::Failed);
    let retry = world.store.retry_task("tenant", after.id, None).await.unwrap();
    assert_eq!(retry.state, TaskState::Queued);
    world.drain(&world.worker().await).await;
}

async fn agent_config_of(world: &World, spawned: &Spawned) -> AgentConfig {
    let config: Value = sqlx::query_scalar("select config from task where id = $1")
        .bind(spawned.id.0)
        .fetch_one(&world.sql)
        .await
        .unwrap();
    serde_json::from_value(config).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_continued_task_keeps_its_agent_unless_one_is_named() {
    let world = World::new().await;
    let session = world.session().await;
    let define = async |prompt: &str| {
        let draft = AgentDraft {
            name: "tester".to_owned(),
            description: Some("Tests".to_owned()),
            system_prompt: Some(prompt.to_owned()),
            model: Some("main".to_owned()),
            ..AgentDraft::default()
        };
        let agent = draft.check(&DefinitionLimits::default()).unwrap();
        world.store.define(session, &agent, Redefinition::Replace).await.unwrap();
    };
    define("As it was.").await;
    let (operator, worker) = (Operator::default(), world.worker().await);
    let mut new = going_on("Begin.");
    new.task.agent = "tester".to_owned();
    let first = world.store.delegate(session, &new, &operator, None).await.unwrap();
    world.drain(&worker).await;
    define("As it is now.").await;
    let budget = Budget { max_output_tokens: Some(9), ..Budget::default() };
    let more = NewDelegation { timeout_s: Some(3.0), budget, ..going_on("More.") };
    let then =
        world.store.continue_task(session, first.number, &more, &operator, None).await.unwrap();
    let agent_config = agent_config_of(&world, &then).await;
    assert_eq!(
        (agent_config.system_prompt.as_str(), agent_config.model.as_str()),
        ("As it was.", "main")
    );
    assert_eq!((agent_config.timeout_s, agent_config.budget), (Some(3.0), budget));
    let named =
        world.store.continue_task(session, first.number, &new, &operator, None).await.unwrap();
    assert_eq!(agent_config_of(&world, &named).await.system_prompt, "As it is now.");
    let entry = world.store.task("tenant", named.id).await.unwrap().entry;
    assert_eq!(
        (entry.continues, entry.agent_version, entry.task.agent.as_str()),
        (Some(first.id), 2, "tester")
    );
    new.task.agent = "nobody".to_owned();
    let nobody = world.store.continue_task(session, first.number, &new, &operator, None).await;
    assert_refused(nobody, ErrorCode::AgentNotFound);
    let silent =
        world.store.continue_task(session, first.number, &going_on(" "), &operator, None).await;
    assert_refused(silent, ErrorCode::InvalidArgument);
    let long = going_on(&"x".repeat(4004));
    let long = world.store.continue_task(session, first.number, &long, &operator, None).await;
    assert_refused(long, ErrorCode::TaskTooLarge);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_continuations_is_read_from_its_start() {
    let world = World::new().await;
    let session = world.session().await;
    let operator = Operator::default();
    let first = ended(&world, session, queued()).await;
    let second = world
        .store
        .continue_task(session, first.number, &going_on("Second."), &operator, None)
        .await
        .unwrap();
    world.drain(&world.worker().await).await;
    let third = world
        .store
        .continue_task(session, second.number, &going_on("Third."), &operator, None)
        .await
        .unwrap();
    world.drain(&world.worker().await).await;
    let again = world.store.retry_task("tenant", third.id, None).await.unwrap();
    let claim = world.claim_one(&world.worker().await).await;
    assert_eq!((claim.lease.task(), claim.assignment.text.as_str()), (again.id, "Third."));
    let earlier = world.store.earlier_tasks(&claim.assignment.config).await.unwrap();
    let said: Vec<_> =
        earlier.iter().map(|task| (task.assignment.as_str(), task.turns.len())).collect();
    assert_eq!(
        said,
        [("Test it.", 1), ("Second.", 0)],
        "a retry of what continues goes on from the same place"
    );
    let plain = world.store.earlier_tasks(&json!({"continues": "nonsense"})).await.unwrap();
    assert_eq!(plain, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_means_something_else_breaks_nothing() {
    let world = World::new().await;
    let session = world.session().await;
    let odd =
        config(json!({"retry_of": "-", "continues": 7, "timeout_s": "long", "model": {"a": 1}}));
    let odd = world.spawn_one(session, NewTask { config: odd, ..queued() }).await;
    world.drain(&world.worker().await).await;
    world.store.collect(session, odd.number, None).await.unwrap();
    let entry = world.store.task("tenant", odd.id).await.unwrap().entry;
    assert_eq!((entry.retry_of, entry.continues), (None, None));
}
