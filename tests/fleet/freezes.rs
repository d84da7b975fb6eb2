//! Workers that stand still for longer than their lease, and then go on as if nothing had happened.

use serde_json::json;

use super::load::rehearsal;
use super::process::{WorkerProcess, work};
use super::verdict::Sampler;
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_stood_still_change_nothing_by_their_late_words_and_go_on_with_new_tasks() {
    let world = World::new().await;
    let sampler = Sampler::start(&world);
    let mut tasks = world.spawn_many(4, &rehearsal(json!({"turns": 2, "turn_ms": 10}))).await;
    let faults = ["claimed:stop", "checkpointed:stop", "before_end:stop", "after_end:stop"];
    let frozen = faults.map(|fault| {
        WorkerProcess::start(work(world.url()).args(["--concurrency", "1"]).env("ADJUTANT_FAULT", fault))
    });
    for worker in &frozen {
        worker.stopped_itself().await;
    }
    let mut other = WorkerProcess::on(world.url());
    world.until_finished(4).await;
    let taken_over = world.count("select count(*) from attempt where outcome = 'lost'").await;
    assert_eq!(taken_over, 3, "all but the one that had ended");

    for worker in &frozen {
        worker.signal("CONT");
    }
    for worker in &frozen[..3] {
        worker.says("was cancelled or taken over").await;
    }
    other.kill();
    // One at a time from each: they run as many as before.
    tasks.extend(world.spawn_many(40, &rehearsal(json!({"turns": 2, "turn_ms": 50}))).await);
    world.all_complete_once(&tasks, 2, sampler).await;
    for worker in &frozen {
        let completed: i64 = sqlx::query_scalar(
            "select count(*) from attempt where worker = $1 and attempt = 1 and outcome = 'completed'",
        )
        .bind(worker.id.0)
        .fetch_one(&world.sql)
        .await
        .unwrap();
        assert!(completed > 1, "{completed} by one of them");
    }
}
