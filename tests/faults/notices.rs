//! The latency of starts and cancels, with and without notices.

use std::time::Duration;

use adjutant_agent::{TaskId, WorkerId};
use adjutant_store::{Listener, NewTask, Notice, NotifyTarget, Store};
use serde_json::json;

use crate::faults::verdict::Sampler;
use crate::support::database::server;
use crate::support::load::simulation;
use crate::support::proxy::{Line, Proxy};
use crate::support::worker_process::{WorkerProcess, simulate};
use crate::support::world::{World, queued as plain, until};

const LISTENING: &str = "LISTEN connection works";

#[tokio::test(flavor = "multi_thread")]
async fn without_notifications_tasks_start_in_a_second_and_cancels_stop_in_two() {
    let world = World::new().await;
    // Notices are per database, so a worker that listens in another one receives none.
    let _worker = WorkerProcess::start(simulate(world.url()).args([
        "--listen-url",
        server(),
        "--concurrency",
        "1",
        "--lease-seconds",
        "30",
    ]));
    until("it has looked around", async || {
        let polls = "select count(*) from pg_stat_activity
            where datname = current_database() and state = 'idle' and query like '%poll_1%'";
        world.count(polls).await > 0
    })
    .await;
    let (started_in, stopped_in) = start_and_cancel(&world).await;
    assert!(started_in < 2.0, "started in {started_in} s");
    assert!(stopped_in < 2.0, "stopped in {stopped_in} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_detects_lost_notifications() {
    let world = World::new().await;
    let proxy = Proxy::before(&world).await;
    let worker = WorkerProcess::start(simulate(world.url()).args([
        "--listen-url",
        &proxy.url(),
        "--concurrency",
        "1",
        "--lease-seconds",
        "3",
    ]));
    worker.until_logged(LISTENING).await;
    proxy.line_is(Line::Mute);
    worker.until_logged("LISTEN connection failed, polling instead").await;
    let (started_in, stopped_in) = start_and_cancel(&world).await;
    assert!(started_in < 2.0, "started in {started_in} s");
    assert!(stopped_in < 2.0, "stopped in {stopped_in} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_stops_a_running_task_within_a_second_and_frees_its_slot() {
    let world = World::new().await;
    let worker = WorkerProcess::start(simulate(world.url()).args([
        "--concurrency",
        "1",
        "--lease-seconds",
        "30",
    ]));
    worker.until_logged(LISTENING).await;
    let (started_in, stopped_in) = start_and_cancel(&world).await;
    assert!(started_in < 1.0, "started in {started_in} s");
    assert!(stopped_in < 1.0, "stopped in {stopped_in} s");
}

/// The seconds from a spawn to its claim, and from a cancel to the claim of the next task by the
/// same worker, which runs one task at a time. By the clock of the database.
async fn start_and_cancel(world: &World) -> (f64, f64) {
    let running = world.spawn_alone(simulation(json!({"then": "hang"}))).await;
    until("it runs", async || world.count("select count(task) from slot").await == 1).await;
    let next = world.spawn_alone(simulation(json!({}))).await;
    world.store.cancel(running).await.unwrap();
    world.until_finished(2).await;
    world.assert_ended_once().await;
    (
        seconds(world, STARTED_IN, running, running).await,
        seconds(world, STOPPED_IN, running, next).await,
    )
}

const STARTED_IN: &str = "select extract(epoch from a.claimed_at - t.created_at)::float8
    from task t join attempt a on a.task = t.id
    where t.id = $1 and t.id = $2";
const STOPPED_IN: &str = "select extract(epoch from a.claimed_at - t.finished_at)::float8
    from task t, attempt a
    where t.id = $1 and a.task = $2";

async fn seconds(world: &World, query: &'static str, one: TaskId, other: TaskId) -> f64 {
    sqlx::query_scalar(query).bind(one.0).bind(other.0).fetch_one(&world.sql).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_cap_takes_effect_within_a_second() {
    let world = World::new().await;
    let sampler = Sampler::start(&world);
    sampler.set_cap(&world, 2).await;
    let fleet = [1, 2].map(|_| {
        WorkerProcess::start(simulate(world.url()).args([
            "--concurrency",
            "10",
            "--lease-seconds",
            "30",
        ]))
    });
    for worker in &fleet {
        worker.until_logged(LISTENING).await;
    }
    let mut tasks = world.spawn_many(20, &simulation(json!({"work_ms": 3000}))).await;
    let used = async || world.count("select count(task) from slot").await;
    until("as many run as may", async || used().await == 2).await;
    let before: chrono::DateTime<chrono::Utc> =
        sqlx::query_scalar("select clock_timestamp()").fetch_one(&world.sql).await.unwrap();
    sampler.set_cap(&world, 14).await;
    until("as many run as may now", async || used().await == 14).await;
    let last: f64 =
        sqlx::query_scalar("select extract(epoch from max(claimed_at) - $1)::float8 from slot")
            .bind(before)
            .fetch_one(&world.sql)
            .await
            .unwrap();
    assert!(last < 1.0, "the last started after {last} s");
    // The sampler asserts that no task starts above the cap.
    sampler.set_cap(&world, 3).await;
    tasks.extend(world.spawn_many(10, &simulation(json!({"work_ms": 10}))).await);
    world.all_complete_once(&tasks, 0, sampler).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_tasks_start_at_their_time_on_an_idle_fleet() {
    let world = World::new().await;
    let worker = WorkerProcess::start(simulate(world.url()).args(["--lease-seconds", "30"]));
    worker.until_logged(LISTENING).await;
    let delays = [1000, 1300, 1600, 2000];
    for ms in delays {
        let delay = Some(Duration::from_millis(ms));
        world.spawn_alone(NewTask { delay, ..simulation(json!({})) }).await;
    }
    world.until_finished(4).await;
    world.assert_ended_once().await;
    let late: Vec<f64> = sqlx::query_scalar(
        "select extract(epoch from a.claimed_at - t.created_at)::float8
         from task t join attempt a on a.task = t.id order by t.created_at",
    )
    .fetch_all(&world.sql)
    .await
    .unwrap();
    for (delay, after) in delays.iter().zip(late) {
        let late = after - Duration::from_millis(*delay).as_secs_f64();
        assert!((0.0..0.6).contains(&late), "after {after} s instead of {delay} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exiting_process_sends_its_pending_notifications() {
    let world = World::new().await;
    let mut listener = Listener::connect(world.url(), WorkerId::new()).await.unwrap();
    let leaving = Store::open(world.url(), 2).await.unwrap();
    // The second notice is delayed, so that a third could be merged with it.
    leaving.notify_workers(NotifyTarget::All);
    leaving.notify_workers(NotifyTarget::All);
    leaving.close().await;
    for _ in 0..2 {
        let received = tokio::time::timeout(Duration::from_secs(10), listener.next()).await;
        let notice = received.expect("a notice arrives").unwrap();
        assert!(matches!(notice, Notice::Queued { target: NotifyTarget::All, .. }), "{notice:?}");
    }
}

/// The second spawn begins in the pause after the notice of the first, and commits when that pause
/// is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_spawn_that_commits_after_the_pause_is_still_notified() {
    let world = World::new().await;
    let mut listener = Listener::connect(world.url(), WorkerId::new()).await.unwrap();
    let (first, second) = (world.session().await, world.session().await);
    let pool = NotifyTarget::Pool("default".to_owned());
    let blocker =
        world.hold(&format!("select from session where id = {} for update", second.0)).await;
    world.spawn(first, 1).await;
    let store = world.store.clone();
    let spawning = tokio::spawn(async move { store.spawn(second, &[plain()], None).await });
    assert_eq!(queued(&mut listener).await, pool, "of the first spawn");
    world.until_blocked(1).await;
    world.store.notify_workers(pool.clone());
    assert_eq!(queued(&mut listener).await, pool, "at the end of the pause");
    // Notices arrive in the order of commits: this one separates those before the commit from those
    // after.
    sqlx::query("select pg_notify('adjutant_queue', '=marker')").execute(&world.sql).await.unwrap();
    while queued(&mut listener).await == pool {}
    blocker.rollback().await.unwrap();
    spawning.await.unwrap().unwrap();
    assert_eq!(queued(&mut listener).await, pool, "after the commit of the second spawn");
}

async fn queued(listener: &mut Listener) -> NotifyTarget {
    let received = tokio::time::timeout(Duration::from_secs(10), listener.next()).await;
    let notice = received.expect("a notice arrives").unwrap();
    let Notice::Queued { target, .. } = notice else { panic!("{notice:?}") };
    target
}
