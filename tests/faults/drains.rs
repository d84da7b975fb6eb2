//! Workers that drain.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::faults::verdict::Sampler;
use crate::support::load::simulation;
use crate::support::private_postgres::PostgresServer;
use crate::support::worker_process::{WorkerProcess, simulate};
use crate::support::world::{World, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_worker_hands_over_between_turns_and_others_continue_within_a_second() {
    let world = World::new().await;
    world.store.set_cap(12).await.unwrap();
    let sampler = Sampler::start(&world);
    let start = || {
        WorkerProcess::start(simulate(world.url()).args([
            "--lease-seconds",
            "30",
            "--concurrency",
            "12",
        ]))
    };
    let mut leaving = [start(), start()];
    let tasks = world.spawn_many(12, &simulation(json!({"turns": 30, "turn_ms": 200}))).await;
    until("all are under way", async || {
        world.count("select count(*) from slot where turns_used > 0").await == 12
    })
    .await;
    let _staying = start();
    for (worker, signal) in leaving.iter_mut().zip(["TERM", "INT"]) {
        worker.signal(signal);
        assert_eq!(worker.exited().await.code(), Some(0));
    }
    world.all_complete_once(&tasks, 30, sampler).await;
    assert_eq!(world.count("select sum(failures) from task").await, 0);
    assert_eq!(world.count("select count(*) from attempt where outcome = 'lost'").await, 0);
    let gaps: Vec<f64> = sqlx::query_scalar(
        "select extract(epoch from b.claimed_at - a.ended_at)::float8
         from attempt a join attempt b on b.task = a.task and b.attempt = a.attempt + 1",
    )
    .fetch_all(&world.sql)
    .await
    .unwrap();
    assert!(gaps.len() >= 12, "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap < 1.0), "{gaps:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_without_a_turn_boundary_is_released_when_the_grace_ends() {
    let world = World::new().await;
    let mut worker = WorkerProcess::start(simulate(world.url()).args([
        "--lease-seconds",
        "30",
        "--grace-seconds",
        "2",
    ]));
    let mut tasks = world.spawn_many(3, &simulation(json!({"then": "hang"}))).await;
    until("all run", async || world.count("select count(task) from slot").await == 3).await;
    worker.signal("TERM");
    assert_eq!(worker.exited().await.code(), Some(0));
    assert_eq!(world.count("select count(*) from attempt where outcome = 'released'").await, 3);
    assert_eq!(world.count("select count(*) from queue").await, 3);

    let mut worker = WorkerProcess::start(simulate(world.url()).args([
        "--lease-seconds",
        "30",
        "--grace-seconds",
        "2",
    ]));
    for task in tasks.drain(..) {
        world.store.cancel(task).await.unwrap();
    }
    world.spawn_alone(simulation(json!({"then": "block"}))).await;
    until("it runs", async || world.count("select count(task) from slot").await == 1).await;
    worker.signal("TERM");
    assert_eq!(
        worker.exited().await.code(),
        Some(0),
        "a blocked thread does not keep the process alive"
    );
    assert_eq!(world.count("select count(*) from queue").await, 1);
    assert_eq!(world.count("select sum(failures) from task").await, 0);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_interrupt_exits_at_once() {
    let world = World::new().await;
    let mut worker = WorkerProcess::on(world.url());
    world.spawn_alone(simulation(json!({"then": "hang"}))).await;
    until("it runs", async || world.count("select count(task) from slot").await == 1).await;
    worker.signal("INT");
    worker.until_logged("draining").await;
    worker.signal("INT");
    assert_eq!(worker.exited().await.code(), Some(130));
    assert_eq!(
        world.count("select count(task) from slot").await,
        1,
        "its lease runs out by itself"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_draining_during_an_outage_exits_in_time_and_logs_its_tasks() {
    let mut server = PostgresServer::start();
    let world = server.world().await;
    let sampler = Sampler::start(&world);
    let mut worker = WorkerProcess::start(simulate(world.url()).args(["--grace-seconds", "4"]));
    let tasks = world.spawn_many(3, &simulation(json!({"turns": 20, "turn_ms": 300}))).await;
    until("turns are stored", async || world.count("select count(*) from turn").await >= 3).await;
    server.stop();
    let logged = Instant::now();
    worker.signal("TERM");
    assert_eq!(worker.exited().await.code(), Some(1));
    assert!(logged.elapsed() < Duration::from_secs(8), "{:?}", logged.elapsed());
    worker.until_logged("3 tasks could not be released").await;
    server.restart();
    let _next = WorkerProcess::on(world.url());
    world.all_complete_once(&tasks, 20, sampler).await;
}
