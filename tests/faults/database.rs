//! A database that stops, terminates its connections, or has a full disk.

use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::{Connection, PgConnection};

use crate::faults::shim::Shim;
use crate::faults::verdict::Sampler;
use crate::support::load::simulation;
use crate::support::private_postgres::PostgresServer;
use crate::support::process::signal;
use crate::support::test_server::TestServer;
use crate::support::worker_process::{WorkerProcess, simulate};
use crate::support::world::{World, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_restarted_under_load_loses_nothing() {
    let mut server = PostgresServer::start();
    let world = server.world().await;
    let sampler = Sampler::start(&world);
    let _fleet = [WorkerProcess::on(world.url()), WorkerProcess::on(world.url())];
    let tasks = world.spawn_many(150, &simulation(json!({"turns": 2, "turn_ms": 20}))).await;
    for finished in [30, 80] {
        world.until_finished(finished).await;
        server.stop();
        server.restart();
    }
    world.all_complete_once(&tasks, 2, sampler).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_crashes_and_recovers_under_load_loses_nothing() {
    let server = PostgresServer::start();
    let world = server.world().await;
    let sampler = Sampler::start(&world);
    let _fleet = [WorkerProcess::on(world.url()), WorkerProcess::on(world.url())];
    let tasks = world.spawn_many(100, &simulation(json!({"turns": 2, "turn_ms": 20}))).await;
    for finished in [20, 50] {
        world.until_finished(finished).await;
        let backend: i32 =
            sqlx::query_scalar("select pg_backend_pid()").fetch_one(&world.sql).await.unwrap();
        signal("KILL", u32::try_from(backend).unwrap()).unwrap();
    }
    world.all_complete_once(&tasks, 2, sampler).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeatedly_terminated_backends_lose_nothing() {
    let world = World::new().await;
    let sampler = Sampler::start(&world);
    let _fleet =
        [1, 2].map(|_| WorkerProcess::start(simulate(world.url()).args(["--lease-seconds", "30"])));
    let tasks = world.spawn_many(200, &simulation(json!({"turns": 2, "turn_ms": 10}))).await;
    let mut connection = PgConnection::connect(world.url()).await.unwrap();
    for round in 1..=12 {
        world.until_finished(round * 15).await;
        sqlx::query(
            "select pg_terminate_backend(pid) from pg_stat_activity
             where datname = current_database() and pid <> pg_backend_pid()",
        )
        .execute(&mut connection)
        .await
        .unwrap();
    }
    world.all_complete_once(&tasks, 2, sampler).await;
    world.assert_no_work_was_thrown_away().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_during_an_outage_longer_than_a_lease_are_kept_and_not_run_again() {
    const LEASE: Duration = Duration::from_secs(2);
    let mut server = PostgresServer::start();
    let world = server.world().await;
    world.store.set_cap(20).await.unwrap();
    let sampler = Sampler::start(&world);
    let fleet = [WorkerProcess::on(world.url()), WorkerProcess::on(world.url())];
    let tasks = world.spawn_many(10, &simulation(json!({"work_ms": 2500}))).await;
    until("all run", async || world.count("select count(task) from slot").await == 10).await;
    server.stop();
    let stopped_at = Instant::now();
    for worker in &fleet {
        worker.until_logged("storing the ends of").await;
        worker.until_logged("lease renewal failed").await;
    }
    until("every lease has expired", async || stopped_at.elapsed() > 2 * LEASE).await;
    server.restart();
    world.all_complete_once(&tasks, 0, sampler).await;
    assert_eq!(world.count("select count(*) from attempt").await, 10, "each task ran once");
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_stop_between_turns_during_an_outage_and_others_continue() {
    let mut server = PostgresServer::start();
    let world = server.world().await;
    let sampler = Sampler::start(&world);
    let worker = WorkerProcess::on(world.url());
    let tasks = world.spawn_many(5, &simulation(json!({"turns": 12, "turn_ms": 300}))).await;
    until("turns are stored", async || world.count("select count(*) from turn").await >= 10).await;
    server.stop();
    worker.until_logged("storing the ends of").await;
    server.restart();
    world.all_complete_once(&tasks, 12, sampler).await;
    let (released, failures): (i64, i64) = sqlx::query_as(
        "select (select count(*) from attempt where outcome = 'released'), (select sum(failures) from task)",
    )
    .fetch_one(&world.sql)
    .await
    .unwrap();
    assert!(released > 0, "tasks were released");
    assert_eq!(failures, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_continue_when_a_full_disk_has_space_again() {
    let Some(shim) = Shim::build("full_disk", include_str!("full_disk.c")) else { return };
    let full = shim.path().join("full");
    let environment = vec![
        ("LD_PRELOAD", shim.library()),
        ("ADJUTANT_TEST_DISK_IS_FULL", full.display().to_string()),
    ];
    let server = PostgresServer::start_with(environment);
    let world = server.world().await;
    let sampler = Sampler::start(&world);
    let tasks = world.spawn_many(100, &simulation(json!({"turns": 1, "result_bytes": 1500}))).await;
    let fleet =
        [1, 2].map(|_| WorkerProcess::start(simulate(world.url()).args(["--concurrency", "3"])));
    world.until_finished(10).await;
    std::fs::write(&full, "").unwrap();
    until("a worker meets a full disk", async || {
        fleet.iter().any(|worker| worker.stderr().contains("No space left on device"))
    })
    .await;
    assert!(world.finished().await < 100, "the disk was full before all tasks had ended");
    std::fs::remove_file(&full).unwrap();
    world.all_complete_once(&tasks, 1, sampler).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_logged_once_when_it_begins_and_once_when_it_ends() {
    let mut postgres = PostgresServer::start();
    let world = postgres.world().await;
    let server = TestServer::with_default_log(world.url(), "");
    let worker = WorkerProcess::start(simulate(world.url()).env_remove("ADJUTANT_LOG"));
    let tasks = world.spawn_many(5, &simulation(json!({"turns": 12, "turn_ms": 300}))).await;
    until("turns are stored", async || world.count("select count(*) from turn").await >= 5).await;
    postgres.stop();
    let stopped_at = Instant::now();
    for process in [&*server, &*worker] {
        process.until_logged("the database is not available").await;
    }
    // Renewals, polls, ends and calls fail meanwhile.
    until("many calls have failed", async || {
        server.get("/v1/sessions").await.refused(503, "UNAVAILABLE");
        stopped_at.elapsed() > Duration::from_secs(6)
    })
    .await;
    postgres.restart();
    world.until_finished(i64::try_from(tasks.len()).unwrap()).await;
    for (name, process) in [("server", &*server), ("worker", &*worker)] {
        process.until_logged("the database is available again, after ").await;
        let lines: Vec<serde_json::Value> =
            process.stderr().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let about_it = |line: &&serde_json::Value| {
            line["message"].as_str().unwrap().contains("the database is ")
        };
        let levels: Vec<_> = lines.iter().filter(about_it).map(|line| &line["level"]).collect();
        assert_eq!(levels, ["WARN", "INFO"], "{name}: {}", process.stderr());
        let of_it = lines.iter().find(about_it).unwrap();
        assert!(of_it[format!("{name}.name")].is_string(), "{of_it}");
        let failed = lines.iter().filter(|line| line["level"] == "WARN").count();
        assert!(failed <= 2, "one line of the outage: {}", process.stderr());
    }
}
