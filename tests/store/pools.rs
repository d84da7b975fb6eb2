//! Pools share the slots of the fleet.

use adjutant_store::{Claim, NewTask, NewWorker, Worker};

use crate::store::fairness::{flood, limit, replace, session_of};
use crate::support::world::{World, queued};

async fn worker_of(world: &World, pool: &str, concurrency: i32) -> Worker {
    let new = NewWorker { pool: pool.to_owned(), concurrency, ..NewWorker::default() };
    world.store.register(&new).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_pool_leaves_another_its_share_of_the_slots() {
    for (cap, share) in [(1, 1), (4, 2)] {
        let world = World::new().await;
        world.store.set_cap(cap).await.unwrap();
        flood(&world, "a", "default", 200).await;
        let busy = worker_of(&world, "default", 10).await;
        let mut running = busy.claim(10).await.unwrap();
        let first = running.remove(0);
        running.extend(replace(&busy, first).await);
        assert_eq!(i32::try_from(running.len()).unwrap(), cap, "alone it fills all slots");

        flood(&world, "a", "gpu", 200).await;
        let first = running.remove(0);
        let next = replace(&busy, first).await;
        assert_eq!(next.len(), 1, "nobody works in the other pool");
        running.extend(next);

        let other = worker_of(&world, "gpu", 10).await;
        let mut others = Vec::new();
        for _ in 0..share {
            let ended = running.remove(0);
            assert_eq!(replace(&busy, ended).await.len(), 0, "the slot is the other pool's");
            assert_eq!(busy.claim(10).await.unwrap().len(), 0, "and stays so");
            let found = other.claim(10).await.unwrap();
            assert_eq!(found.len(), 1);
            others.extend(found);
        }
        // From now on they take turns, or keep their halves.
        for _ in 0..10 {
            let ended = others.remove(0);
            others.extend(replace(&other, ended).await);
            running.extend(busy.claim(10).await.unwrap());
            assert_eq!(i32::try_from(running.len() + others.len()).unwrap(), cap);
            if !running.is_empty() {
                let ended = running.remove(0);
                running.extend(replace(&busy, ended).await);
                others.extend(other.claim(10).await.unwrap());
            }
            assert_eq!(i32::try_from(running.len() + others.len()).unwrap(), cap);
            assert_eq!(i32::try_from(others.len()).unwrap(), share);
        }
        world.assert_sound().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_another_pool_cannot_fill_are_not_left_to_it() {
    let world = World::new().await;
    world.store.set_cap(6).await.unwrap();
    flood(&world, "a", "default", 50).await;
    flood(&world, "a", "gpu", 50).await;
    let busy = worker_of(&world, "default", 10).await;
    let other = worker_of(&world, "gpu", 1).await;
    assert_eq!(busy.claim(10).await.unwrap().len(), 5, "its worker has one place");
    assert_eq!(other.claim(1).await.unwrap().len(), 1);
    other.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_task_of_many_tenants_and_pools_runs_and_no_slot_idles() {
    let world = World::new().await;
    world.store.set_cap(7).await.unwrap();
    for n in 0..40 {
        let session = session_of(&world, &format!("tenant {n}")).await;
        let pool = if n % 3 == 0 { "gpu" } else { "default" };
        let priority = if n % 2 == 0 { 3 } else { 0 };
        let new = NewTask { pool: pool.to_owned(), priority, ..queued() };
        world.store.spawn(session, &vec![new; 1 + n % 7], None).await.unwrap();
        if n % 5 == 0 {
            limit(&world, &format!("tenant {n}"), Some(1)).await;
        }
    }
    let workers = [worker_of(&world, "default", 10).await, worker_of(&world, "gpu", 10).await];
    let mut running: Vec<(usize, Claim)> = Vec::new();
    loop {
        for (n, worker) in workers.iter().enumerate() {
            running.extend(worker.claim(10).await.unwrap().into_iter().map(|claim| (n, claim)));
        }
        let queued = world.count("select count(*) from queue").await;
        assert!(running.len() == 7 || queued < 40, "{} running, {queued} queued", running.len());
        if running.is_empty() {
            break;
        }
        let (n, ended) = running.remove(0);
        let next = replace(&workers[n], ended).await;
        running.extend(next.into_iter().map(|claim| (n, claim)));
    }
    assert_eq!(world.count("select count(*) from task where finished_at is null").await, 0);
    world.assert_sound().await;
}
