//! Budgets that ask for more: raises, warnings, prices, and calls that were broken off.

use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{
    AgentConfig, BreakReason, Budget, BudgetLimit, BudgetScope, ErrorCode, EventKind, OnBudget,
    OverBudget, SessionId, Spent, TaskId, TaskNumber, TaskState, Turn, Usage,
};
use adjutant_store::{
    Actor, AuditFilter, BrokenCall, Claim, Lease, NewDelegation, NewTask, NewWorker, Operator,
    Spawned, Store,
};
use serde_json::json;

use crate::support::world::{World, assert_refused, queued, turn};

const NONE: Budget =
    Budget { max_input_tokens: None, max_output_tokens: None, max_cost_nanousd: None };

pub fn output(max: i64) -> Budget {
    Budget { max_output_tokens: Some(max), ..NONE }
}

fn cost(max: i64) -> Budget {
    Budget { max_cost_nanousd: Some(max), ..NONE }
}

/// A task with this budget.
pub fn limited(budget: Budget) -> NewTask {
    let config = AgentConfig { budget, on_budget: Some(OnBudget::Pause), ..AgentConfig::default() };
    let serde_json::Value::Object(config) = json!(config) else { panic!("no object") };
    NewTask { config, ..queued() }
}

/// A turn of 10 output tokens and 5 nanodollars.
pub fn answer() -> Turn {
    let usage = Usage { output_tokens: 10, cost_nanousd: 5, ..Usage::default() };
    Turn { usage, model: Some("main".to_owned()), ..turn("said") }
}

fn over(scope: BudgetScope, allowed: i64, spent: i64) -> OverBudget {
    OverBudget { scope, limit: BudgetLimit::OutputTokens, allowed, spent }
}

fn as_me(world: &World) -> Store {
    let (tenant, name) = (Some("tenant".to_owned()), "me".to_owned());
    world.store.acting_for(Arc::new(Actor { tenant, name, ..Actor::default() }))
}

pub async fn pause(lease: Lease, scope: BudgetScope) {
    lease.pause(over(scope, 10, 10)).write().await.unwrap();
}

async fn state(world: &World, task: TaskId) -> (String, Option<String>) {
    sqlx::query_as("select state, waiting_for from task_history where id = $1")
        .bind(task.0)
        .fetch_one(&world.sql)
        .await
        .unwrap()
}

fn paused() -> (String, Option<String>) {
    ("waiting".to_owned(), Some("budget".to_owned()))
}

fn is_queued() -> (String, Option<String>) {
    ("queued".to_owned(), None)
}

async fn events(world: &World, session: SessionId) -> Vec<EventKind> {
    let events = world.store.events(session, 0, 1000).await.unwrap();
    events.iter().map(|event| event.kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_task_holds_nothing_and_goes_on_when_its_budget_is_raised() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let task = world.spawn_one(session, limited(output(10))).await;
    let mut claim = world.claim_one(&worker).await;
    claim.lease.checkpoint(&answer()).await.unwrap();
    pause(claim.lease, BudgetScope::Task).await;
    assert_eq!(state(&world, task.id).await, paused());
    assert_eq!(world.count("select count(task) from slot").await, 0);
    assert_eq!(world.count("select count(*) from queue").await, 0);
    world.assert_sound().await;

    let raise = async |limits| world.store.raise(session, task.number, &limits).await;
    for (limits, message) in [
        (output(9), "max_output_tokens: that of t_01 is 10 already, and a raise does not lower it"),
        (cost(1), "max_cost_usd: t_01 has no such limit"),
    ] {
        assert_eq!(assert_refused(raise(limits).await, ErrorCode::InvalidArgument), message);
    }
    assert_eq!(raise(output(10)).await.unwrap().state, TaskState::Waiting, "nothing changes");
    assert_eq!(state(&world, task.id).await, paused());
    assert_eq!(raise(output(11)).await.unwrap().state, TaskState::Queued);
    raise(output(11)).await.unwrap();

    let mut claim = world.claim_one(&worker).await;
    let budget = world.store.current_budget(task.id).await.unwrap();
    assert_eq!((budget.budget, budget.waits), (output(11), true));
    claim.lease.checkpoint(&answer()).await.unwrap();
    let used = assert_refused(raise(output(20)).await, ErrorCode::InvalidArgument);
    assert_eq!(used, "max_output_tokens: t_01 has used 20 already, so it needs more than that");
    // The worker has not seen a raise that commits before it pauses.
    raise(output(21)).await.unwrap();
    pause(claim.lease, BudgetScope::Task).await;
    assert_eq!(state(&world, task.id).await, is_queued());
    let claim = world.claim_one(&worker).await;
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    let ended = assert_refused(raise(output(30)).await, ErrorCode::InvalidArgument);
    assert_eq!(
        ended,
        "task_id: t_01 has ended (completed), and needs no budget; retry or continue it"
    );

    use EventKind::*;
    let of_budgets = [Paused, Raised, Resumed, Raised, Paused, Resumed];
    let found = events(&world, session).await;
    let found: Vec<_> = found.into_iter().filter(|kind| of_budgets.contains(kind)).collect();
    assert_eq!(found, of_budgets, "a repeated raise has no event");
    let events = world.store.events(session, 0, 1000).await.unwrap();
    let of = |kind| events.iter().find(|event| event.kind == kind).unwrap();
    assert_eq!(of(Paused).limit, Some(over(BudgetScope::Task, 10, 10)));
    assert_eq!(of(Raised).budget, Some(output(11)));
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_paused_goes_on_when_its_root_is_raised() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let root = world.spawn_one(session, limited(output(15))).await;
    let mut lead = world.claim_one(&worker).await;
    lead.lease.checkpoint(&answer()).await.unwrap();
    let children = lead.lease.spawn(&[queued(), limited(output(5)), queued()], None).await.unwrap();
    for child in &children[..2] {
        let mut claim = world.claim_one(&worker).await;
        assert_eq!(claim.lease.task(), child.id);
        claim.lease.checkpoint(&answer()).await.unwrap();
        pause(claim.lease, BudgetScope::Tree).await;
        assert_eq!(state(&world, child.id).await, paused());
    }
    let waits = world.store.current_budget(children[0].id).await.unwrap();
    assert_eq!((waits.budget, waits.waits), (NONE, true), "as its root says");
    let raise = async |number: i32, max| {
        as_me(&world).raise(session, TaskNumber(number), &output(max)).await
    };
    let refused = assert_refused(raise(2, 50).await, ErrorCode::InvalidArgument);
    assert_eq!(
        refused,
        "max_output_tokens: t_02 has no such limit; the budget of its tree is that of t_01"
    );
    let used = assert_refused(raise(1, 30).await, ErrorCode::InvalidArgument);
    assert_eq!(used, "max_output_tokens: t_01 has used 30 already, so it needs more than that");
    raise(1, 31).await.unwrap();
    let audit = world.store.audit(&AuditFilter::default(), 10).await.unwrap();
    assert_eq!(audit.len(), 1, "a refused raise is not in it");
    assert_eq!((audit[0].action.as_str(), &audit[0].subject), ("task.raise", &root.id.to_string()));
    assert_eq!(audit[0].before.as_ref().unwrap()["budget"], json!({"max_output_tokens": 15}));
    assert_eq!(audit[0].after, Some(json!({"budget": {"max_output_tokens": 31}})));
    assert_eq!(state(&world, children[1].id).await, paused(), "its own budget is used up");
    raise(3, 11).await.unwrap();
    assert_eq!(state(&world, root.id).await.0, "running");
    for child in &children[..2] {
        assert_eq!(state(&world, child.id).await, is_queued());
    }
    lead.lease.release().write().await.unwrap();
    world.drain(&worker).await;
    world.assert_sound().await;
}

/// A session with 250 tasks that its budget has paused.
async fn paused_session(world: &World) -> (SessionId, Vec<Spawned>) {
    let session = world
        .session_with(|session| {
            session.budget = output(10);
            session.on_budget = Some(OnBudget::Pause);
        })
        .await;
    let worker = world.worker().await;
    let tasks = world.spawn(session, 250).await;
    let mut claim = world.claim_one(&worker).await;
    assert!(world.store.current_budget(claim.lease.task()).await.unwrap().waits);
    claim.lease.checkpoint(&answer()).await.unwrap();
    pause(claim.lease, BudgetScope::Session).await;
    // As if each had been claimed and had paused.
    sqlx::raw_sql(
        "update task set state = 'waiting', waiting_for = 'budget' where state = 'queued';
         delete from queue;
         insert into usage_delta (tenant, waiting) select tenant, 249 from session",
    )
    .execute(&world.sql)
    .await
    .unwrap();
    (session, tasks)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raise_of_the_task_that_marks_a_batch_keeps_the_raise_of_its_session_going() {
    let world = World::new().await;
    let (session, tasks) = paused_session(&world).await;
    let (tenant, name): (String, String) =
        sqlx::query_as("select tenant, name from session").fetch_one(&world.sql).await.unwrap();
    let store = as_me(&world);
    store.raise_session(&tenant, &name, &output(1000)).await.unwrap();
    // The first batch has left its mark on t_101.
    let limited =
        r#"update task set config = '{"budget": {"max_output_tokens": 1}}' where number = 101"#;
    sqlx::raw_sql(limited).execute(&world.sql).await.unwrap();
    store.raise(session, tasks[100].number, &output(5)).await.unwrap();
    while world.store.admit_due().await.unwrap() > 0 {}
    assert_eq!(world.count("select count(*) from task where state = 'waiting'").await, 0);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raise_of_a_session_goes_on_in_batches_though_its_server_has_died() {
    let world = World::new().await;
    let (_, tasks) = paused_session(&world).await;
    let (tenant, name): (String, String) =
        sqlx::query_as("select tenant, name from session").fetch_one(&world.sql).await.unwrap();
    let store = as_me(&world);
    let refused = store.raise_session(&tenant, &name, &output(5)).await;
    assert_refused(refused, ErrorCode::InvalidArgument);
    assert_refused(
        store.raise_session("other", &name, &output(1000)).await,
        ErrorCode::SessionNotFound,
    );
    store.raise_session(&tenant, &name, &output(1000)).await.unwrap();
    let waiting = "select count(*) from task where state = 'waiting'";
    assert_eq!(world.count(waiting).await, 150, "one batch in the transaction of the raise");
    world.assert_sound().await;
    // The task that marks where to go on is cancelled: the next one does.
    let marked: i32 = sqlx::query_scalar(
        "select number from task where waiting_for = 'budget' and not_before is not null",
    )
    .fetch_one(&world.sql)
    .await
    .unwrap();
    assert_eq!(marked, 101);
    world.store.cancel(tasks[100].id).await.unwrap();
    assert_eq!(world.count(waiting).await, 49);
    world.store.admit_due().await.unwrap();
    assert_eq!(world.count(waiting).await, 0);
    assert_eq!(world.count("select count(*) from queue").await, 5, "the window");
    world.assert_sound().await;
    let audit = store.audit(&AuditFilter::default(), 10).await.unwrap();
    let raise = audit.iter().find(|entry| entry.action == "session.raise").unwrap();
    assert_eq!(raise.before, Some(json!({"budget": {"max_output_tokens": 10}})));
    assert_eq!(raise.after, Some(json!({"budget": {"max_output_tokens": 1000}})));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_warned_of_once_however_many_tasks_come_near_it() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    world.spawn(session, 2).await;
    let claims = worker.claim(2).await.unwrap();
    let near = over(BudgetScope::Session, 100, 80);
    for claim in &claims {
        claim.lease.warn_of_budget(&near).await.unwrap();
        claim.lease.warn_of_budget(&OverBudget { spent: 90, ..near }).await.unwrap();
    }
    claims[0].lease.warn_of_budget(&OverBudget { allowed: 200, ..near }).await.unwrap();
    let found = world.store.events(session, 0, 100).await.unwrap();
    let warnings: Vec<_> =
        found.iter().filter(|event| event.kind == EventKind::BudgetWarning).collect();
    assert_eq!(warnings.len(), 2, "the raised limit is another one");
    assert_eq!(warnings[0].limit, Some(near));
    world.assert_sound().await;
}

/// An agent with this budget on a model.
fn to_model(model: &str, budget: Budget) -> NewDelegation {
    let config = AgentConfig { model: model.to_owned(), ..AgentConfig::default() };
    let task = NewTask { agent: "a".to_owned(), assignment: "x".to_owned(), ..queued() };
    NewDelegation { task, config: Some(config), budget, ..NewDelegation::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_the_cost_is_refused_without_prices_wherever_it_comes_from() {
    let world = World::new().await;
    let models = [("priced".to_owned(), true), ("free".to_owned(), false)].into();
    world.store.publish_models(&models).await.unwrap();
    let (open, operator) = (world.session().await, Operator::default());
    let spawn = async |session, model: &str, budget| {
        world.store.delegate(session, &to_model(model, budget), &operator, None).await
    };
    #[track_caller]
    fn assert_names_the_setting<T: std::fmt::Debug>(answer: Result<T, adjutant_store::Error>) {
        let message = assert_refused(answer, ErrorCode::InvalidArgument);
        assert!(message.starts_with("max_cost_usd: the model \"free\" has no prices"), "{message}");
        assert!(message.contains("models.free.prices"), "{message}");
    }
    assert_names_the_setting(spawn(open, "free", cost(1)).await);
    let both = [to_model("priced", cost(1)), to_model("free", cost(1))];
    assert_names_the_setting(world.store.delegate_all(open, &both, &operator, None).await);
    spawn(open, "free", output(1)).await.unwrap();
    spawn(open, "priced", cost(1)).await.unwrap();
    spawn(open, "nobody-knows", cost(1)).await.unwrap();

    let limited = world.session_with(|session| session.budget = cost(100)).await;
    assert_names_the_setting(spawn(limited, "free", NONE).await);
    spawn(limited, "priced", NONE).await.unwrap();

    let ours = NewWorker { pool: "ours".to_owned(), name: "w".to_owned(), ..NewWorker::default() };
    let worker = world.store.register(&ours).await.unwrap();
    let mut root = to_model("priced", cost(1));
    root.task.pool = "ours".to_owned();
    world.store.delegate(world.session().await, &root, &operator, None).await.unwrap();
    let Claim { lease, .. } = world.claim_one(&worker).await;
    assert_names_the_setting(lease.delegate("c", &[to_model("free", NONE)], &operator).await);
    lease.delegate("c", &[to_model("priced", NONE)], &operator).await.unwrap();

    // The alias of all names stands for the rest.
    world.store.publish_models(&[("*".to_owned(), false)].into()).await.unwrap();
    assert_refused(spawn(open, "nobody-knows", cost(1)).await, ErrorCode::InvalidArgument);
    world.assert_sound().await;
}

fn broken(number: i32) -> BrokenCall {
    let usage = Usage {
        input_tokens: 100,
        output_tokens: 7,
        cost_nanousd: 3,
        estimated: true,
        ..Usage::default()
    };
    BrokenCall {
        number,
        answer: 1,
        model: "main".to_owned(),
        reason: BreakReason::Stopped,
        usage,
        duration_ms: 1,
    }
}

async fn spent(world: &World, table: &str, id: &str) -> Spent {
    let query = format!(
        "select coalesce(sum(input_tokens), 0)::bigint, coalesce(sum(output_tokens), 0)::bigint,
            coalesce(sum(cost_nanousd), 0)::bigint
         from {table} {id}"
    );
    let (input_tokens, output_tokens, cost_nanousd) =
        sqlx::query_as(sqlx::AssertSqlSafe(query)).fetch_one(&world.sql).await.unwrap();
    Spent { input_tokens, output_tokens, cost_nanousd }
}

fn calls(count: i64) -> Spent {
    Spent { input_tokens: 100 * count, output_tokens: 7 * count, cost_nanousd: 3 * count }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_off_call_counts_once_everywhere_even_if_its_task_has_ended() {
    let world = World::new().await;
    let (session, _, claim) = world.one_running().await;
    let (lease, task) = (claim.lease, claim.assignment.clone());
    assert!(lease.broken_call(&broken(1)).await.unwrap());
    assert!(lease.broken_call(&broken(1)).await.unwrap(), "a repeated report");
    assert_eq!(world.store.spent_on_broken_calls(lease.task()).await.unwrap(), calls(1));
    assert_eq!(spent(&world, "slot", "").await, calls(1));
    world.assert_sound().await;
    world.store.cancel(lease.task()).await.unwrap();
    assert!(lease.broken_call(&broken(2)).await.unwrap());
    assert!(lease.broken_call(&broken(2)).await.unwrap());
    for (table, id) in [("broken_call", ""), ("task", ""), ("session", ""), ("usage_delta", "")] {
        assert_eq!(spent(&world, table, id).await, calls(2), "{table} {}", task.number);
    }
    assert_eq!(world.state(session, task.number).await, TaskState::Cancelled);
    world.assert_sound().await;
    let lower = sqlx::query("update task set cost_nanousd = cost_nanousd - 1").execute(&world.sql);
    assert!(lower.await.is_err(), "the use of a task that has ended only grows");
    world.delete(session).await;
    assert!(!lease.broken_call(&broken(3)).await.unwrap(), "the session is deleted");
    assert_eq!(world.count("select count(*) from broken_call").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_lost_attempt_is_counted_beside_the_attempt_that_took_over() {
    let world = World::new().await;
    let (_, worker, claim) = world.one_running().await;
    let lost = claim.lease;
    world.expire(lost.id()).await;
    let steady = world.steady_worker().await;
    assert_eq!(steady.sweep(Duration::ZERO).await.unwrap().len(), 1);
    // A claim that is about to take over has read the counters of the task.
    let claiming = world.hold_claim(&worker).await;
    let report = {
        let call = broken(1);
        let lost = lost.broken_call(&call);
        tokio::pin!(lost);
        tokio::select! {
            _ = &mut lost => panic!("it does not wait for the claim"),
            () = world.until_blocked(1) => {}
        }
        claiming.commit().await.unwrap();
        lost.await
    };
    assert!(report.unwrap());
    world.assert_sound().await;
    let ids: (i32, uuid::Uuid) = sqlx::query_as("select n, lease from slot where task is not null")
        .fetch_one(&world.sql)
        .await
        .unwrap();
    sqlx::query("select * from end_1(array[$1], array[$2], array[$3], '{completed}', '{done}', array[null::jsonb], true)")
        .bind(ids.0)
        .bind(lost.task().0)
        .bind(ids.1)
        .execute(&world.sql)
        .await
        .unwrap();
    for table in ["broken_call", "task", "session", "usage_delta"] {
        assert_eq!(spent(&world, table, "").await, calls(1), "{table}");
    }
    world.assert_sound().await;
}
