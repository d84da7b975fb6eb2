//! Handlers that misbehave.

use adjutant_agent::{FailureKind, TaskId, TaskState};
use adjutant_store::{NewTask, OnWorkerLoss};
use serde_json::json;

use crate::support::load::simulation;
use crate::support::worker_process::{WorkerProcess, simulate};
use crate::support::world::{World, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_its_task_at_the_first_attempt_and_nothing_else() {
    let world = World::new().await;
    let _worker = WorkerProcess::on(world.url());
    let panics = world.spawn_alone(simulation(json!({"turns": 1, "then": "panic"}))).await;
    let others = world.spawn_many(10, &simulation(json!({"turns": 1}))).await;
    world.until_finished(11).await;
    assert_eq!(ending(&world, panics).await, failed(FailureKind::Internal, 1));
    let error: String = sqlx::query_scalar("select error from task where id = $1")
        .bind(panics.0)
        .fetch_one(&world.sql)
        .await
        .unwrap();
    assert!(error.contains("simulated panic"), "{error}");
    for other in others {
        assert_eq!(ending(&world, other).await, (TaskState::Completed, None, 1));
    }
    world.assert_ended_once().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_task_keeps_its_lease_while_others_run_and_a_cancel_frees_it() {
    let world = World::new().await;
    let _fleet = [WorkerProcess::on(world.url()), WorkerProcess::on(world.url())];
    let hangs = world.spawn_alone(simulation(json!({"then": "hang"}))).await;
    world.spawn_many(20, &simulation(json!({"turns": 1}))).await;
    world.until_finished(20).await;
    until("it is held for longer than two leases", async || {
        let held: bool = sqlx::query_scalar(
            "select exists (
                select from slot where task = $1 and attempt = 1 and claimed_at < now() - interval '4 s' and expires_at > now()
             )",
        )
        .bind(hangs.0)
        .fetch_one(&world.sql)
        .await
        .unwrap();
        held
    })
    .await;
    world.store.cancel(hangs).await.unwrap();
    assert_eq!(ending(&world, hangs).await, (TaskState::Cancelled, None, 1));
    world.assert_ended_once().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_runs_for_too_long_fails_with_its_time_counted_over_all_attempts() {
    let world = World::new().await;
    let limited =
        || WorkerProcess::start(simulate(world.url()).args(["--time-limit-seconds", "2"]));
    let hangs = world.spawn_alone(simulation(json!({"then": "hang"}))).await;
    let turns = world.spawn_alone(simulation(json!({"turns": 100, "turn_ms": 100}))).await;
    let mut first = limited();
    until("turns are stored", async || world.count("select count(*) from turn").await >= 10).await;
    let _second = limited();
    first.signal("TERM");
    assert!(first.exited().await.success());
    world.until_finished(2).await;
    for task in [hangs, turns] {
        let (state, failure, _) = ending(&world, task).await;
        assert_eq!((state, failure), (TaskState::Failed, Some(FailureKind::Timeout)));
    }
    let ran: f64 = sqlx::query_scalar(
        "select sum(extract(epoch from ended_at - claimed_at))::float8 from attempt where task = $1",
    )
    .bind(turns.0)
    .fetch_one(&world.sql)
    .await
    .unwrap();
    assert!((2.0..6.0).contains(&ran), "the task ran for {ran} s in total");
    world.assert_ended_once().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_kills_its_worker_every_time_is_lost_after_three_of_them() {
    let world = World::new().await;
    let kills = NewTask { max_failures: 3, ..simulation(json!({"then": "kill"})) };
    let resumed = world.spawn_alone(kills.clone()).await;
    let once = world.spawn_alone(NewTask { on_worker_loss: OnWorkerLoss::Fail, ..kills }).await;
    let one_at_a_time = || WorkerProcess::start(simulate(world.url()).args(["--concurrency", "1"]));
    let mut fleet = [one_at_a_time(), one_at_a_time()];
    until("both have ended", async || {
        for worker in &mut fleet {
            if worker.has_exited() {
                *worker = one_at_a_time();
            }
        }
        world.finished().await == 2
    })
    .await;
    assert_eq!(ending(&world, resumed).await, failed(FailureKind::Lost, 3));
    assert_eq!(ending(&world, once).await, failed(FailureKind::Lost, 1));
    world.assert_ended_once().await;
}

fn failed(failure: FailureKind, attempts: i32) -> (TaskState, Option<FailureKind>, i32) {
    (TaskState::Failed, Some(failure), attempts)
}

/// The state, the failure and the attempt in which the task ended.
async fn ending(world: &World, task: TaskId) -> (TaskState, Option<FailureKind>, i32) {
    let (state, failure, attempt): (String, Option<String>, i32) =
        sqlx::query_as("select state, failure, attempt from task_history where id = $1")
            .bind(task.0)
            .fetch_one(&world.sql)
            .await
            .unwrap();
    (state.parse().unwrap(), failure.map(|failure| failure.parse().unwrap()), attempt)
}
