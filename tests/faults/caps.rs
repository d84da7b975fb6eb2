//! A cap that changes while workers come and go.

use serde_json::json;

use crate::faults::verdict::Sampler;
use crate::support::load::simulation;
use crate::support::worker_process::{WorkerProcess, simulate};
use crate::support::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn the_cap_holds_while_it_changes_and_workers_come_and_go() {
    let world = World::new().await;
    let sampler = Sampler::start(&world);
    let tasks = world.spawn_many(300, &simulation(json!({"turns": 1, "turn_ms": 20}))).await;
    let start = || WorkerProcess::start(simulate(world.url()).args(["--concurrency", "10"]));
    let mut fleet = vec![start(), start()];
    for (round, cap) in
        [9, 2, 14, 1, 6, 0, 5, 11, 3, 8, 1, 12, 4, 7, 2, 15, 3, 10, 1, 6].into_iter().enumerate()
    {
        sampler.set_cap(&world, cap).await;
        if cap > 0 {
            world.until_finished(world.finished().await + 5).await;
        }
        match round % 5 {
            1 => fleet.remove(0).kill(),
            3 => {
                let mut leaving = fleet.remove(0);
                leaving.signal("TERM");
                assert!(leaving.exited().await.success());
            }
            _ => {}
        }
        while fleet.len() < 2 {
            fleet.push(start());
        }
    }
    world.all_complete_once(&tasks, 1, sampler).await;
}
