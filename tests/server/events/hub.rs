//! The hub: a watch wakes quickly with notices, reliably without them, and an idle hub makes
//! few queries.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use adjutant_agent::SessionId;
use adjutant_server::Hub;
use adjutant_store::Store;
use serde_json::json;

use crate::support::database::server;
use crate::support::load::simulation;
use crate::support::worker_process::WorkerProcess;
use crate::support::world::World;

async fn woken(watch: &mut adjutant_server::Watch) {
    tokio::time::timeout(Duration::from_secs(10), watch.changed()).await.expect("the watch wakes");
}

async fn sessions(world: &World, count: usize) -> Vec<SessionId> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        sessions.push(world.session().await);
    }
    sessions
}

async fn hub_at(world: &World, listen_url: &str) -> Hub {
    Hub::start(Store::open(world.url(), 2).await.unwrap(), listen_url.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_without_notices_misses_nothing() {
    let world = World::new().await;
    // Notices do not cross databases, so none arrive here.
    let hub = hub_at(&world, server()).await;
    let sessions = sessions(&world, 40).await;
    for round in 1..=3 {
        let mut watches: Vec<_> =
            sessions.iter().map(|session| (*session, hub.watch(*session))).collect();
        for (session, watch) in &mut watches {
            if round % 2 == 0 {
                watch.ready().await;
            }
            let seen = world.store.events(*session, 0, 100).await.unwrap().len();
            watch.mark_seen(i64::try_from(seen).unwrap());
            world.spawn(*session, 1).await;
        }
        for (session, watch) in &mut watches {
            woken(watch).await;
            assert_eq!(world.store.events(*session, 0, 100).await.unwrap().len(), round);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_does_not_wake_for_old_events_or_other_sessions() {
    let world = World::new().await;
    let hub = hub_at(&world, world.url()).await;
    let (mine, other) = (world.session().await, world.session().await);
    world.spawn(mine, 1).await;
    let (mut watch, mut of_other) = (hub.watch(mine), hub.watch(other));
    watch.ready().await;
    of_other.ready().await;
    world.spawn(other, 1).await;
    woken(&mut of_other).await;
    let nothing = tokio::time::timeout(Duration::ZERO, watch.changed()).await;
    assert!(nothing.is_err());
    world.store.delete_session(mine).await.unwrap();
    woken(&mut watch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_wakes_soon_after_a_worker_has_stored_an_event() {
    let world = World::new().await;
    let worker = WorkerProcess::on(world.url());
    worker.until_logged("LISTEN connection works").await;
    let hub = hub_at(&world, world.url()).await;
    let session = world.session().await;
    let mut watch = hub.watch(session);
    watch.ready().await;
    let mut soonest = Duration::MAX;
    for _ in 0..5 {
        let task = world.spawn_one(session, simulation(json!({"work_ms": 150}))).await;
        loop {
            woken(&mut watch).await;
            let woken_at = Instant::now();
            let finished: Option<f64> = sqlx::query_scalar(
                "select extract(epoch from clock_timestamp() - finished_at)::float8 from task where id = $1",
            )
            .bind(task.id.0)
            .fetch_one(&world.sql)
            .await
            .unwrap();
            if let Some(ago) = finished {
                let late = Duration::from_secs_f64(ago).saturating_sub(woken_at.elapsed());
                soonest = soonest.min(late);
                break;
            }
        }
    }
    assert!(
        soonest < Duration::from_millis(500),
        "woken after {soonest:?}, which is as slow as polling"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_queries_without_watches_and_few_while_idle() {
    let world = World::new().await;
    let hub = hub_at(&world, world.url()).await;
    let sessions = sessions(&world, 100).await;
    let mut watches: Vec<_> = sessions.iter().map(|session| hub.watch(*session)).collect();
    for watch in &mut watches {
        watch.ready().await;
    }
    let watched = queries_in(&world, Duration::from_secs(8)).await;
    assert!(watched <= 8, "{watched} queries in 8 seconds, with 100 watches");
    drop(watches);
    let unwatched = queries_in(&world, Duration::from_secs(5)).await;
    // The last query may still have been running.
    assert!(unwatched <= 1, "{unwatched} queries in 5 seconds, without watches");
}

/// Counts the queries of other connections in this database. Samples every 5 ms, which is less than
/// the time between two queries of one connection.
async fn queries_in(world: &World, time: Duration) -> usize {
    let mut observer = world.sql.acquire().await.unwrap();
    let since: chrono::DateTime<chrono::Utc> =
        sqlx::query_scalar("select clock_timestamp()").fetch_one(&mut *observer).await.unwrap();
    let mut seen = HashSet::new();
    let (until, mut tick) =
        (Instant::now() + time, tokio::time::interval(Duration::from_millis(5)));
    while Instant::now() < until {
        tick.tick().await;
        let queries: Vec<String> = sqlx::query_scalar(
            "select pid || ' ' || query_start
             from pg_stat_activity
             where datname = current_database() and pid <> pg_backend_pid() and query_start > $1",
        )
        .bind(since)
        .fetch_all(&mut *observer)
        .await
        .unwrap();
        seen.extend(queries);
    }
    seen.len()
}
