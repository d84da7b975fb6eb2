//! A random driver: many connections do everything at once, workers die and come back, caps change.
//! Afterwards the invariants hold, the history agrees with every answer that was given, and
//! everything drains without a sweep.

pub mod actor;
pub mod verdict;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::store::driver::actor::{Actor, Ledger};
use crate::support::world::World;

/// As many connections as there are actors.
const ACTORS: u32 = 24;
const SESSIONS: usize = 40;

/// Set to 600 for the long run (`make soak`).
fn duration() -> Duration {
    let seconds =
        std::env::var("ADJUTANT_DRIVER_SECONDS").ok().map_or(Ok(60), |seconds| seconds.parse());
    Duration::from_secs(seconds.expect("ADJUTANT_DRIVER_SECONDS is a number of seconds"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_at_once_violates_nothing_and_deadlocks_never() {
    let world = Arc::new(World::with_connections(ACTORS).await);
    let mut sessions = Vec::new();
    for n in 0..SESSIONS {
        sessions.push(
            world
                .session_with(|session| session.max_active = Some(if n % 4 == 0 { 1 } else { 5 }))
                .await,
        );
    }
    world.store.set_cap(20).await.unwrap();
    let until = Instant::now() + duration();
    let ledger = Arc::new(Ledger::default());
    let mut running = Vec::new();
    for seed in 0..ACTORS {
        let actor =
            Actor::new(u64::from(seed), world.clone(), sessions.clone(), ledger.clone()).await;
        running.push(tokio::spawn(actor.act(until)));
    }
    let folding = tokio::spawn(fold_until(world.clone(), until));
    let sampler = tokio::spawn(verdict::sample(world.clone(), ledger.clone(), until));
    let mut leftover = Vec::new();
    for actor in running {
        leftover.extend(actor.await.unwrap());
    }
    folding.await.unwrap();
    let compared = sampler.await.unwrap();
    assert!(compared > 0, "the cap was never looked at twice");
    verdict::assert_agrees(&world, &ledger).await;
    verdict::drain(&world, leftover).await;
    verdict::assert_agrees(&world, &ledger).await;
    let deadlocks = verdict::deadlocks(&world).await;
    eprintln!("{}, {compared} pairs of samples, {deadlocks} deadlocks", ledger.summary());
    assert_eq!(deadlocks, 0);
}

async fn fold_until(world: Arc<World>, until: Instant) {
    while Instant::now() < until {
        world.store.fold_usage().await.unwrap();
        tokio::task::yield_now().await;
    }
}
