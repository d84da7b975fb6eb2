//! Workers that are killed at any point of their work.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::json;

use crate::faults::verdict::Sampler;
use crate::support::load::simulation;
use crate::support::worker_process::{WorkerProcess, simulate};
use crate::support::world::{World, until, until_within};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_under_load_and_replaced_loses_nothing() {
    let world = World::new().await;
    world.store.set_cap(7).await.unwrap();
    let sampler = Sampler::start(&world);
    // Two workers do not fill the cap, so each of the three has tasks.
    let start = || WorkerProcess::start(simulate(world.url()).args(["--concurrency", "3"]));
    let mut fleet = [start(), start(), start()];
    let tasks = world.spawn_many(300, &simulation(json!({"turns": 2, "turn_ms": 50}))).await;
    for (worker, finished) in fleet.iter_mut().zip([40, 100]) {
        world.until_finished(finished).await;
        worker.kill_while_it_runs_tasks(&world).await;
        *worker = start();
    }
    world.all_complete_once(&tasks, 2, sampler).await;
    assert!(
        world.count("select count(*) from attempt where outcome = 'lost'").await > 0,
        "the killed worker held tasks"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_killed_at_each_point_of_their_work_lose_nothing_and_store_nothing_twice() {
    let world = World::new().await;
    world.store.set_cap(12).await.unwrap();
    let sampler = Sampler::start(&world);
    let tasks = world.spawn_many(120, &simulation(json!({"turns": 3, "turn_ms": 30}))).await;
    let points = [
        "claimed:kill",
        "checkpointed:kill:4",
        "before_end:kill:2",
        "after_end:kill:2",
        "renewing:kill:3",
    ];
    let mut doomed: Vec<_> = points
        .iter()
        .map(|fault| {
            WorkerProcess::start(
                simulate(world.url()).args(["--concurrency", "2"]).env("ADJUTANT_FAULT", fault),
            )
        })
        .collect();
    for worker in &mut doomed {
        worker.killed_itself().await;
    }
    let mut sweeper = WorkerProcess::with_fault(world.url(), "swept:kill");
    sweeper.killed_itself().await;
    let _healthy = WorkerProcess::on(world.url());
    world.all_complete_once(&tasks, 3, sampler).await;
    let lost =
        world.count("select count(distinct worker) from attempt where outcome = 'lost'").await;
    assert!(lost >= 3, "only {lost} of the workers held tasks when they were killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_default_lease_tasks_of_a_killed_worker_run_elsewhere_within_40_seconds() {
    let world = World::new().await;
    let default = |world: &World| {
        WorkerProcess::start(simulate(world.url()).env_remove("ADJUTANT_LEASE_SECONDS"))
    };
    let tasks = world.spawn_many(3, &simulation(json!({"then": "hang"}))).await;
    let mut first = default(&world);
    let running = "select count(*) from slot where attempt = 1";
    until("all run", async || world.count(running).await == 3).await;
    let _second = default(&world);
    let killed_at: DateTime<Utc> =
        sqlx::query_scalar("select clock_timestamp()").fetch_one(&world.sql).await.unwrap();
    first.kill();

    let taken_over = "select count(*) from slot where attempt = 2";
    until_within(Duration::from_secs(60), "all run elsewhere", async || {
        world.count(taken_over).await == 3
    })
    .await;
    let (after_kill, after_loss): (f64, f64) = sqlx::query_as(
        "select extract(epoch from max(s.claimed_at) - $1)::float8, extract(epoch from max(s.claimed_at - a.ended_at))::float8
         from slot s join attempt a using (task)",
    )
    .bind(killed_at)
    .fetch_one(&world.sql)
    .await
    .unwrap();
    assert!(after_kill < 40.0, "{after_kill} s after the kill");
    assert!(after_loss < 2.0, "{after_loss} s after the leases were swept");
    for task in tasks {
        world.store.cancel(task).await.unwrap();
    }
    world.assert_ended_once().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_killed_with_a_full_queue_continues_in_order_of_entry() {
    let world = World::new().await;
    world.store.set_cap(1).await.unwrap();
    let sampler = Sampler::start(&world);
    let tasks = world.spawn_many(40, &simulation(json!({"turns": 1, "turn_ms": 30}))).await;
    let one_at_a_time = || WorkerProcess::start(simulate(world.url()).args(["--concurrency", "1"]));
    let mut fleet = [one_at_a_time(), one_at_a_time()];
    world.until_finished(5).await;
    fleet.iter_mut().for_each(|worker| worker.kill());
    let _replacement = one_at_a_time();
    world.all_complete_once(&tasks, 1, sampler).await;
    let order: Vec<uuid::Uuid> =
        sqlx::query_scalar("select task from attempt where attempt = 1 order by claimed_at")
            .fetch_all(&world.sql)
            .await
            .unwrap();
    assert_eq!(order, tasks.iter().map(|task| task.0).collect::<Vec<_>>());
}
