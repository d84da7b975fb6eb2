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
    // A worker that continues may take seconds until its next claim, so there is work until each of
    // them has had its share.
    for round in 1.. {
        tasks.extend(world.spawn_many(20, &simulation(json!({"turns": 2, "turn_ms": 50}))).await);
        world.until_finished(i64::try_from(tasks.len()).unwrap()).await;
        let completed = completed_first_attempts(&world, &frozen).await;
        if completed.iter().all(|count| *count > 1) {
            break;
        }
        assert!(round < 20, "tasks that each worker completed: {completed:?}");
    }
    world.all_complete_once(&tasks, 2, sampler).await;
}

async fn completed_first_attempts(world: &World, workers: &[WorkerProcess]) -> Vec<i64> {
    let mut completed = Vec::new();
    for worker in workers {
        let count = sqlx::query_scalar(
            "select count(*) from attempt where worker = $1 and attempt = 1 and outcome = 'completed'",
        )
        .bind(worker.id.0)
        .fetch_one(&world.sql)
        .await
        .unwrap();
        completed.push(count);
    }
    completed
}
