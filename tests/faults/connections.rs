//! Connections that break, or stop transferring data without being closed.

use std::time::Duration;

use serde_json::json;
use sqlx::AssertSqlSafe;

use crate::faults::verdict::Sampler;
use crate::support::load::simulation;
use crate::support::proxy::{Line, Proxy};
use crate::support::worker_process::{WorkerProcess, simulate};
use crate::support::world::{World, until, until_within};

#[tokio::test(flavor = "multi_thread")]
async fn repeatedly_cut_connections_lose_nothing() {
    let world = World::new().await;
    let proxy = Proxy::before(&world).await;
    let sampler = Sampler::start(&world);
    let _fleet = [1, 2]
        .map(|_| WorkerProcess::start(simulate(&proxy.url()).args(["--lease-seconds", "30"])));
    let tasks = world.spawn_many(200, &simulation(json!({"turns": 2, "turn_ms": 10}))).await;
    for round in 1..=15 {
        world.until_finished(round * 12).await;
        proxy.cut();
    }
    world.all_complete_once(&tasks, 2, sampler).await;
    world.assert_no_work_was_thrown_away().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_on_a_silent_connection_loses_its_tasks_and_recovers() {
    let world = World::new().await;
    let proxy = Proxy::before(&world).await;
    let sampler = Sampler::start(&world);
    let cut_off = WorkerProcess::on(&proxy.url());
    let mut tasks = world.spawn_many(5, &simulation(json!({"turns": 20, "turn_ms": 100}))).await;
    until("turns are stored", async || world.count("select count(*) from turn").await >= 10).await;
    proxy.line_is(Line::Dead);
    let mut direct = WorkerProcess::on(world.url());
    world.until_finished(5).await;
    assert!(
        world.count("select count(*) from attempt where outcome = 'lost'").await > 0,
        "the tasks were taken over"
    );

    proxy.line_is(Line::Good);
    direct.signal("TERM");
    assert!(direct.exited().await.success());
    tasks.extend(world.spawn_many(10, &simulation(json!({"turns": 20, "turn_ms": 1}))).await);
    world.all_complete_once(&tasks, 20, sampler).await;
    let completed =
        "select count(*) from attempt where attempt = 1 and outcome = 'completed' and worker = ";
    let completed: i64 = sqlx::query_scalar(AssertSqlSafe(format!("{completed}'{}'", cut_off.id)))
        .fetch_one(&world.sql)
        .await
        .unwrap();
    assert_eq!(completed, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_answer_is_lost_is_released_and_costs_no_failure() {
    let world = World::new().await;
    world.store.set_cap(0).await.unwrap();
    let proxy = Proxy::before(&world).await;
    let sampler = Sampler::start(&world);
    // The lease is longer than this test.
    let worker = WorkerProcess::start(simulate(&proxy.url()).args([
        "--listen-url",
        world.url(),
        "--lease-seconds",
        "30",
    ]));
    worker.until_logged("LISTEN connection works").await;
    let tasks = world.spawn_many(4, &simulation(json!({}))).await;
    let mut hold = world.hold("lock table slot in access exclusive mode").await;
    until("the claim waits", async || {
        world.store.notify_workers(adjutant_store::NotifyTarget::All);
        world
            .count(
                "select count(*) from pg_stat_activity
                 where datname = current_database() and wait_event_type = 'Lock' and query like '%claim_1%'",
            )
            .await
            == 1
    })
    .await;
    proxy.line_is(Line::Mute);
    sqlx::query("select set_cap_1(5)").execute(&mut *hold).await.unwrap();
    hold.commit().await.unwrap();
    until("the worker has claimed", async || {
        world.count("select count(task) from slot").await == 4
    })
    .await;
    proxy.cut();
    proxy.line_is(Line::Good);

    until_within(Duration::from_secs(60), "all have ended", async || world.finished().await == 4)
        .await;
    world.all_complete_once(&tasks, 0, sampler).await;
    assert_eq!(world.count("select sum(failures) from task").await, 0);
    assert_eq!(world.count("select count(*) from attempt where outcome = 'released'").await, 4);
    assert!(worker.stderr().contains("its claim got no answer"));
}
