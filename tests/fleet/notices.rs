//! What notices save, and what is left without them.

use std::time::Duration;

use adjutant_agent::{TaskId, WorkerId};
use adjutant_store::{Listener, NewTask, News, Store, Whom};
use serde_json::json;

use super::load::rehearsal;
use super::process::{WorkerProcess, work};
use super::proxy::{Line, Proxy};
use super::verdict::Sampler;
use crate::world::{World, server, until};

const LISTENING: &str = "notices come through";

#[tokio::test(flavor = "multi_thread")]
async fn without_any_notice_tasks_start_in_about_a_second_and_cancels_stop_in_two() {
    let world = World::new().await;
    // In another database nothing of ours is ever said.
    let _worker = WorkerProcess::start(work(world.url()).args([
        "--listen-url",
        server(),
        "--concurrency",
        "1",
        "--lease-seconds",
        "30",
    ]));
    until("it has looked around", async || {
        let looks = "select count(*) from pg_stat_activity
            where datname = current_database() and state = 'idle' and query like '%look_1%'";
        world.count(looks).await > 0
    })
    .await;
    let (started_in, stopped_in) = start_and_cancel(&world).await;
    assert!(started_in < 2.0, "started in {started_in} s");
    assert!(stopped_in < 2.0, "stopped in {stopped_in} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_notices_stop_coming_notices_that() {
    let world = World::new().await;
    let proxy = Proxy::before(&world).await;
    let worker = WorkerProcess::start(work(world.url()).args([
        "--listen-url",
        &proxy.url(),
        "--concurrency",
        "1",
        "--lease-seconds",
        "3",
    ]));
    worker.says(LISTENING).await;
    proxy.line_is(Line::Mute);
    worker.says("notices do not come through any more").await;
    let (started_in, stopped_in) = start_and_cancel(&world).await;
    assert!(started_in < 2.0, "started in {started_in} s");
    assert!(stopped_in < 2.0, "stopped in {stopped_in} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_stops_a_running_task_within_a_second_and_the_next_has_its_slot() {
    let world = World::new().await;
    let worker =
        WorkerProcess::start(work(world.url()).args(["--concurrency", "1", "--lease-seconds", "30"]));
    worker.says(LISTENING).await;
    let (started_in, stopped_in) = start_and_cancel(&world).await;
    assert!(started_in < 1.0, "started in {started_in} s");
    assert!(stopped_in < 1.0, "stopped in {stopped_in} s");
}

/// By the database's clock: from a spawn to its claim; and from a cancel to the claim of the next task by the same
/// worker, which can run only one.
async fn start_and_cancel(world: &World) -> (f64, f64) {
    let running = world.spawn_alone(rehearsal(json!({"then": "hang"}))).await;
    until("it runs", async || world.count("select count(task) from slot").await == 1).await;
    let next = world.spawn_alone(rehearsal(json!({}))).await;
    world.store.cancel(running).await.unwrap();
    world.until_finished(2).await;
    world.assert_ended_once().await;
    (seconds(world, STARTED_IN, running, running).await, seconds(world, STOPPED_IN, running, next).await)
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
        WorkerProcess::start(work(world.url()).args(["--concurrency", "10", "--lease-seconds", "30"]))
    });
    for worker in &fleet {
        worker.says(LISTENING).await;
    }
    let mut tasks = world.spawn_many(20, &rehearsal(json!({"work_ms": 3000}))).await;
    let used = async || world.count("select count(task) from slot").await;
    until("as many run as may", async || used().await == 2).await;
    let before: chrono::DateTime<chrono::Utc> =
        sqlx::query_scalar("select clock_timestamp()").fetch_one(&world.sql).await.unwrap();
    sampler.set_cap(&world, 14).await;
    until("as many run as may now", async || used().await == 14).await;
    let last: f64 = sqlx::query_scalar("select extract(epoch from max(claimed_at) - $1)::float8 from slot")
        .bind(before)
        .fetch_one(&world.sql)
        .await
        .unwrap();
    assert!(last < 1.0, "the last started after {last} s");
    // The looks see that none starts above it.
    sampler.set_cap(&world, 3).await;
    tasks.extend(world.spawn_many(10, &rehearsal(json!({"work_ms": 10}))).await);
    world.all_complete_once(&tasks, 0, sampler).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_tasks_start_at_their_time_on_an_idle_fleet() {
    let world = World::new().await;
    let worker = WorkerProcess::start(work(world.url()).args(["--lease-seconds", "30"]));
    worker.says(LISTENING).await;
    let delays = [1000, 1300, 1600, 2000];
    for ms in delays {
        let delay = Some(Duration::from_millis(ms));
        world.spawn_alone(NewTask { delay, ..rehearsal(json!({})) }).await;
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
async fn a_process_that_ends_says_what_it_had_left_to_say() {
    let world = World::new().await;
    let mut listener = Listener::connect(world.url(), WorkerId::new()).await.unwrap();
    let leaving = Store::open(world.url(), 2).await.unwrap();
    // The second is kept back for a moment, to be one with a third.
    leaving.tell(Whom::All);
    leaving.tell(Whom::All);
    leaving.close().await;
    for _ in 0..2 {
        let heard = tokio::time::timeout(Duration::from_secs(10), listener.next()).await;
        let news = heard.expect("it is said").unwrap();
        assert!(matches!(news, News::Queued { whom: Whom::All, .. }), "{news:?}");
    }
}
