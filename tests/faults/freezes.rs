//! Workers that are stopped for longer than their lease, and then continue.

use serde_json::json;

use crate::faults::verdict::Sampler;
use crate::support::load::simulation;
use crate::support::worker_process::{WorkerProcess, simulate};
use crate::support::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn frozen_workers_write_nothing_late_and_continue_with_new_tasks() {
    let world = World::new().await;
    let sampler = Sampler::start(&world);
    let mut tasks = world.spawn_many(4, &simulation(json!({"turns": 2, "turn_ms": 10}))).await;
    let faults = ["claimed:stop", "checkpointed:stop", "before_end:stop", "after_end:stop"];
    let frozen = faults.map(|fault| {
        WorkerProcess::start(
            simulate(world.url()).args(["--concurrency", "1"]).env("ADJUTANT_FAULT", fault),
        )
    });
    for worker in &frozen {
        worker.stopped_itself().await;
    }
    let mut other = WorkerProcess::on(world.url());
    world.until_finished(4).await;
    let taken_over = world.count("select count(*) from attempt where outcome = 'lost'").await;
    assert_eq!(taken_over, 3, "all but the task that had ended");

    for worker in &frozen {
        worker.signal("CONT");
    }
    for worker in &frozen[..3] {
        worker.until_logged("was cancelled or taken over").await;
    }
    other.kill();
    // Each worker runs one task at a time, so all of them are needed.
    tasks.extend(world.spawn_many(40, &simulation(json!({"turns": 2, "turn_ms": 50}))).await);
    world.all_complete_once(&tasks, 2, sampler).await;
    for worker in &frozen {
        let completed: i64 = sqlx::query_scalar(
            "select count(*) from attempt where worker = $1 and attempt = 1 and outcome = 'completed'",
        )
        .bind(worker.id.0)
        .fetch_one(&world.sql)
        .await
        .unwrap();
        assert!(completed > 1, "a worker completed {completed} tasks");
    }
}
