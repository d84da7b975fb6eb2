//! Why a task waits, for the reasons that have to do with models, tools and budgets. Each code has
//! a test here or in `why.rs`.

use std::time::Duration;

use adjutant_agent::{BudgetScope, SessionId};
use adjutant_store::{Abilities, GateCause, GateReason, NewTask, NewWorker, Spawned};
use serde_json::{Value, json};

use crate::store::budgets::{answer, limited, output, pause};
use crate::store::failed_calls::failed;
use crate::store::requirements::{MINUTE, abilities, an_hour_passes, needs, worker};
use crate::store::why::{assert_why, run_sql, why};
use crate::support::world::{World, queued};

async fn spawn(world: &World, model: &str, tools: Value) -> (SessionId, Spawned) {
    let session = world.session().await;
    (session, world.spawn_one(session, needs(model, tools)).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_or_tools_that_no_worker_of_the_pool_has_are_named_until_the_patience_ends() {
    let world = World::new().await;
    let (one, big) = spawn(&world, "big\u{1b}[2J", json!([])).await;
    let (two, search) = spawn(&world, "small", json!(["search", "serch"])).await;
    let (three, both) = spawn(&world, "other", json!(["fetch"])).await;
    let none = "No worker of pool default is alive";
    assert_why(why(&world, one, &big).await, "no_worker", none, false);

    let small = worker(&world, &["small"], &["fetch"]).await;
    let model = "No worker of the pool default has the model \"big\\u001b[2J\"";
    assert_why(why(&world, one, &big).await, "missing_model", model, false);
    let tools = "No worker of the pool default has the tools \"search\", \"serch\"";
    assert_why(why(&world, two, &search).await, "missing_tools", tools, false);
    small.fail_without_tools(MINUTE * 10).await.unwrap();
    assert_why(why(&world, two, &search).await, "missing_tools", tools, true);
    small.fail_without_tools(MINUTE).await.unwrap();
    let until = "select until from why_waiting where code = 'missing_tools'";
    let expected = "select t.created_at + interval '1 minute' from task t where t.number = 1 and t.session = $1";
    // The patience begins with the latest of the task, the shortage and the first worker.
    run_sql(&world, "update tool_shortage set since = since - interval '1 hour'").await;
    run_sql(&world, "update worker set started_at = started_at - interval '1 hour'").await;
    let times: [chrono::DateTime<chrono::Utc>; 2] = [
        sqlx::query_scalar(until).fetch_one(&world.sql).await.unwrap(),
        sqlx::query_scalar(expected).bind(two.0).fetch_one(&world.sql).await.unwrap(),
    ];
    assert_eq!(times[0], times[1]);

    let _other = worker(&world, &["other"], &[]).await;
    let apart = "No worker of the pool default has both its model and all of its tools";
    assert_why(why(&world, three, &both).await, "missing_tools", apart, false);
    // Another pool does not count.
    let abilities = abilities(&["big\u{1b}[2J"], &["search", "serch"]);
    let gpu = NewWorker { pool: "gpu".to_owned(), abilities, ..NewWorker::default() };
    world.store.register(&gpu).await.unwrap();
    assert_why(why(&world, one, &big).await, "missing_model", model, false);
    small.set_abilities(&Abilities::default()).await.unwrap();
    let next = "A worker is about to start it";
    assert_why(why(&world, three, &both).await, "next", next, false);
    an_hour_passes(&world).await;
    assert_why(why(&world, one, &big).await, "next", next, false);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_workers_that_can_run_a_task_are_full_for_it() {
    let world = World::new().await;
    world.store.set_cap(50).await.unwrap();
    let abilities = abilities(&["big"], &[]);
    let one_place = NewWorker { concurrency: 1, abilities, ..NewWorker::default() };
    let big = world.store.register(&one_place).await.unwrap();
    let _small = worker(&world, &["small"], &[]).await;
    spawn(&world, "big", json!([])).await;
    world.claim_one(&big).await;
    let (session, task) = spawn(&world, "big", json!([])).await;
    let full = "All 1 places of the workers of pool default that can run it are in use";
    assert_why(why(&world, session, &task).await, "workers", full, false);
    let (session, task) = spawn(&world, "small", json!([])).await;
    let next = "A worker is about to start it";
    assert_why(why(&world, session, &task).await, "next", next, false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_over_budget_says_whose_and_what_to_do() {
    let world = World::new().await;
    let session = world.session_with(|session| session.budget = output(30)).await;
    let worker = world.worker().await;
    let paused = async |scope, task: NewTask| {
        let spawned = world.spawn_one(session, task).await;
        let mut claim = world.claim_one(&worker).await;
        claim.lease.checkpoint(&answer()).await.unwrap();
        pause(claim.lease, scope).await;
        spawned
    };
    let own = paused(BudgetScope::Task, limited(output(10))).await;
    let text = "Its budget is used up: raise t_01, or cancel it";
    assert_why(why(&world, session, &own).await, "budget", text, false);

    let root = world.spawn_one(session, limited(output(15))).await;
    let mut lead = world.claim_one(&worker).await;
    lead.lease.checkpoint(&answer()).await.unwrap();
    let child = lead.lease.spawn(&[queued()], None).await.unwrap().remove(0);
    let mut claim = world.claim_one(&worker).await;
    claim.lease.checkpoint(&answer()).await.unwrap();
    pause(claim.lease, BudgetScope::Tree).await;
    assert_eq!(root.number.0, 2);
    let text = "The budget of its tree is used up: raise t_02, or cancel t_03";
    assert_why(why(&world, session, &child).await, "budget", text, false);

    world.store.raise(session, root.number, &output(100)).await.unwrap();
    let text = "The budget of its session is used up: raise the session, or cancel t_03";
    assert_why(why(&world, session, &child).await, "budget", text, false);

    world.store.archive_tenant("tenant").await.unwrap();
    let text = "Its budget is used up, and nobody can raise it while its tenant is archived";
    assert_why(why(&world, session, &own).await, "archived", text, false);
    let (other, runs) = spawn(&world, "", json!([])).await;
    let next = "A worker is about to start it";
    assert_why(why(&world, other, &runs).await, "next", next, false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circuit_has_the_end_of_the_patience_and_a_call_that_is_tried_again_its_next_try() {
    let world = World::new().await;
    let (session, worker, claim) = world.one_running().await;
    let task = Spawned {
        id: claim.lease.task(),
        number: claim.assignment.number,
        ..world.spawn(session, 1).await.remove(0)
    };
    run_sql(&world, "update task set model = 'main' where number = 1").await;
    assert_eq!(world.store.status(session, task.number).await.unwrap().why, None, "it runs");
    claim.lease.record_failed_call(&failed(2), None).await.unwrap();
    let again = "Its model call is tried again: model `main` at host:1: 503 api_error, try 2 of 8";
    assert_why(why(&world, session, &task).await, "retrying", again, true);
    let released = claim.lease.release_for(Duration::from_millis(5500));
    released.write().await.unwrap();
    assert_why(why(&world, session, &task).await, "retrying", again, true);

    run_sql(&world, "update task set not_before = now() where not_before is not null").await;
    world.store.admit_due().await.unwrap();
    let claim = world.claim_one(&worker).await;
    let refused = GateCause { reason: GateReason::Circuit, error: Some("401"), status: Some(401) };
    world.store.close_gate("main", MINUTE, refused).await.unwrap();
    let mut waits = failed(2);
    waits.waits = Some(MINUTE * 9);
    claim.lease.record_failed_call(&waits, None).await.unwrap();
    claim.lease.release_for(MINUTE).write().await.unwrap();
    let circuit = "Calls of model main are refused: 401; one call a minute is tried";
    assert_why(why(&world, session, &task).await, "circuit", circuit, true);
    let left: f64 = sqlx::query_scalar(
        "select extract(epoch from until - now())::double precision from why_waiting where code = 'circuit'",
    )
    .fetch_one(&world.sql)
    .await
    .unwrap();
    assert!((500.0..=540.0).contains(&left), "{left} s of its patience");
    run_sql(
        &world,
        "update failed_call set model = 'named'; update model_gate set model = 'named'",
    )
    .await;
    let named = "Calls of model named are refused: 401; one call a minute is tried";
    assert_why(why(&world, session, &task).await, "circuit", named, true);
    assert!(world.store.open_circuit("named").await.unwrap());
    let next = "A worker is about to start it";
    assert_why(why(&world, session, &task).await, "next", next, false);
}
