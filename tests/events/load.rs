//! What 5,000 watches cost: `cargo nextest run -p adjutant --run-ignored only events::load --no-capture`.

use std::time::{Duration, Instant};

use adjutant_server::Hub;
use adjutant_store::Store;
use serde_json::json;

use super::hub::queries_in;
use crate::fleet::load::rehearsal;
use crate::fleet::process::{WorkerProcess, work};
use crate::world::World;

const WATCHES: usize = 5000;

#[ignore = "a measurement, of half a minute"]
#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_watches() {
    let world = World::with_connections(16).await;
    world.store.set_cap(50).await.unwrap();
    let worker =
        WorkerProcess::start(work(world.url()).args(["--concurrency", "50", "--lease-seconds", "30"]));
    worker.says("notices come through").await;
    let mut sessions = Vec::new();
    for _ in 0..WATCHES {
        sessions.push(world.session().await);
    }
    let others: Vec<i32> =
        sqlx::query_scalar("select pid from pg_stat_activity").fetch_all(&world.sql).await.unwrap();
    let hub = Hub::start(Store::open(world.url(), 2).await.unwrap(), world.url().to_owned());
    let before = resident_kb();
    let mut watches: Vec<_> = sessions.iter().map(|session| (*session, hub.watch(*session))).collect();
    for (_, watch) in &mut watches {
        watch.ready().await;
    }
    let running: Vec<_> = watches
        .into_iter()
        .map(|(session, mut watch)| {
            tokio::spawn(async move {
                // Spawned, and then ended at once: the second is the end.
                watch.saw(1);
                watch.changed().await;
                (session, Instant::now())
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("{} KB for {WATCHES} watches", resident_kb() - before);
    let queries = queries_in(&world, Duration::from_secs(10), &others).await;
    println!("{queries} queries in 10 s while nothing happens");

    let clock: chrono::DateTime<chrono::Utc> =
        sqlx::query_scalar("select clock_timestamp()").fetch_one(&world.sql).await.unwrap();
    let here = Instant::now();
    for session in &sessions {
        world.spawn_one(*session, rehearsal(json!({}))).await;
    }
    let mut late = Vec::new();
    for watch in running {
        let (session, woken_at) = watch.await.unwrap();
        let finished: chrono::DateTime<chrono::Utc> =
            sqlx::query_scalar("select max(finished_at) from task where session = $1")
                .bind(session.0)
                .fetch_one(&world.sql)
                .await
                .unwrap();
        let finished_after = (finished - clock).to_std().unwrap();
        late.push((woken_at - here).saturating_sub(finished_after));
    }
    late.sort();
    let at = |part: usize| late[late.len() * part / 1000];
    println!(
        "{:.0} ends/s; woken after: p50 {:?}, p99 {:?}, p99.9 {:?}, longest {:?}",
        5000.0 / here.elapsed().as_secs_f64(),
        at(500),
        at(990),
        at(999),
        late[late.len() - 1]
    );
    assert!(at(990) < Duration::from_millis(100), "p99 is {:?}", at(990));
}

fn resident_kb() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
