//! Workers whose clocks are wrong.

use serde_json::json;

use crate::faults::shim::Shim;
use crate::faults::verdict::Sampler;
use crate::support::load::simulation;
use crate::support::worker_process::{WorkerProcess, simulate};
use crate::support::world::World;

const HOURS: i64 = 5 * 3600;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_clock_is_hours_off_works_normally() {
    let Some(shim) = Shim::build("wrong_clock", include_str!("wrong_clock.c")) else { return };
    let world = World::new().await;
    world.store.set_cap(6).await.unwrap();
    let sampler = Sampler::start(&world);
    let tasks = world.spawn_many(60, &simulation(json!({"turns": 2, "turn_ms": 100}))).await;
    let fleet = [-HOURS, 0, HOURS].map(|off_by| {
        let worker = WorkerProcess::start(
            simulate(world.url())
                .args(["--concurrency", "2"])
                .env("LD_PRELOAD", shim.library())
                .env("ADJUTANT_TEST_CLOCK_OFF_BY", off_by.to_string()),
        );
        (worker, off_by)
    });
    world.all_complete_once(&tasks, 2, sampler).await;
    for (worker, off_by) in &fleet {
        let (completed, off): (i64, f64) = sqlx::query_as(
            "select count(*), avg(substring(t.result from 'started_us=(\\d+)')::float8 / 1e6 - extract(epoch from a.claimed_at)::float8)
             from attempt a join task t on t.id = a.task
             where a.worker = $1 and a.outcome = 'completed'",
        )
        .bind(worker.id.0)
        .fetch_one(&world.sql)
        .await
        .unwrap();
        assert!(
            completed > 5,
            "the worker whose clock is {off_by} s off completed {completed} tasks"
        );
        assert!((off - *off_by as f64).abs() < 60.0, "the clock is {off} s off, not {off_by}");
    }
    assert_eq!(world.count("select count(*) from attempt where outcome = 'lost'").await, 0);
}
