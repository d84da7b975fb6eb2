//! The fleet-wide cap, changed while tasks run.

use adjutant_agent::ErrorCode;
use adjutant_store::AdoptedCap;

use crate::support::world::{World, assert_refused};

#[tokio::test(flavor = "multi_thread")]
async fn the_cap_is_5_at_first() {
    let world = World::new().await;
    assert_eq!(world.store.slots().await.unwrap().cap, 5);
    for _ in 0..3 {
        let session = world.session().await;
        world.spawn(session, 5).await;
    }
    let worker = world.worker().await;
    assert_eq!(worker.claim(100).await.unwrap().len(), 5);
    assert!(worker.claim(100).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grown_cap_is_used_at_once_and_a_shrunk_one_only_falls() {
    let world = World::new().await;
    let worker = world.worker().await;
    for _ in 0..4 {
        let session = world.session().await;
        world.spawn(session, 5).await;
    }
    world.store.set_cap(8).await.unwrap();
    let mut claims = worker.claim(100).await.unwrap();
    assert_eq!(claims.len(), 8);
    world.store.set_cap(3).await.unwrap();
    for used in (3..8).rev() {
        // Low slots end first: their freed numbers are within the new cap, and yet nothing may
        // start.
        claims.remove(0).lease.complete("done".to_owned(), None).write().await.unwrap();
        assert_eq!(world.store.slots().await.unwrap().used, used);
        assert!(
            worker.claim(100).await.unwrap().is_empty(),
            "nothing starts with {used} in use at cap 3"
        );
    }
    // The last two are in closed slots: what ends now makes room all the same.
    claims.remove(0).lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(worker.claim(1).await.unwrap().len(), 1, "room for one");
    assert!(worker.claim(100).await.unwrap().is_empty(), "and not for two");
    world.store.set_cap(0).await.unwrap();
    drop(claims);
    assert!(worker.claim(100).await.unwrap().is_empty(), "at 0 nothing starts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shrink_waits_for_claims_in_flight_and_none_follows_it() {
    let world = World::new().await;
    world.store.set_cap(1).await.unwrap();
    let session = world.session().await;
    world.spawn(session, 2).await;
    let worker = world.worker().await;
    let claim = world.hold_claim(&worker).await;
    let store = world.store.clone();
    let shrink = tokio::spawn(async move { store.set_cap(0).await });
    world.until_blocked(1).await;
    claim.commit().await.unwrap();
    shrink.await.unwrap().unwrap();
    assert_eq!(world.store.slots().await.unwrap().used, 1);
    assert!(worker.claim(1).await.unwrap().is_empty());
}

/// The test's transaction stands for a change of the cap, which locks the slots in their order.
#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_session_does_not_deadlock_with_a_change_of_the_cap() {
    let world = World::new().await;
    world.store.set_cap(2).await.unwrap();
    let worker = world.worker().await;
    let other = world.session().await;
    world.spawn(other, 1).await;
    let in_slot_1 = world.claim_one(&worker).await;
    let session = world.session().await;
    world.spawn(session, 2).await;
    let _first_in_slot_2 = world.claim_one(&worker).await;
    in_slot_1.lease.complete("done".to_owned(), None).write().await.unwrap();
    let _second_in_slot_1 = world.claim_one(&worker).await;

    let mut change = world.hold("select from slot where n = 1 for update").await;
    let store = world.store.clone();
    let deletion = tokio::spawn(async move { store.delete_session(session).await });
    world.until_blocked(1).await;
    sqlx::query("select from slot where n = 2 for update").execute(&mut *change).await.unwrap();
    change.commit().await.unwrap();
    deletion.await.unwrap().unwrap();
    assert_eq!(world.store.slots().await.unwrap().used, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn caps_changed_under_load_are_never_exceeded() {
    let world = World::with_connections(12).await;
    let mut sessions = Vec::new();
    for _ in 0..30 {
        let session = world.session().await;
        world.spawn(session, 40).await;
        sessions.push(session);
    }
    let mut running = Vec::new();
    for _ in 0..8 {
        let worker = world.worker().await;
        running.push(tokio::spawn(async move {
            let mut done = 0;
            let mut idle = 0;
            while idle < 50 {
                let claims = worker.claim(4).await.unwrap();
                idle = if claims.is_empty() { idle + 1 } else { 0 };
                for claim in claims {
                    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
                    done += 1;
                }
            }
            done
        }));
    }
    let mut most_ever = 0;
    for round in 0..60 {
        let cap = [1, 7, 3, 12, 2][round % 5];
        world.store.set_cap(cap).await.unwrap();
        // Shrinking: use may be above the cap, but from sample to sample it only falls until it
        // fits.
        let mut last = i64::MAX;
        for _ in 0..10 {
            let slots = world.store.slots().await.unwrap();
            assert!(slots.used <= slots.cap.max(last), "{slots:?} after {last} in use");
            last = slots.used;
            most_ever = most_ever.max(slots.used);
        }
    }
    world.store.set_cap(5).await.unwrap();
    for worker in running {
        worker.await.unwrap();
    }
    assert!(most_ever <= 12, "{most_ever}");
    world.drain(&world.worker().await).await;
    assert_eq!(world.count("select count(*) from task where state = 'completed'").await, 1200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cap_out_of_range_is_refused() {
    let world = World::new().await;
    for cap in [-1, 10_001, i32::MIN, i32::MAX] {
        let message = assert_refused(world.store.set_cap(cap).await, ErrorCode::InvalidArgument);
        assert!(message.starts_with("cap:"), "{message}");
    }
    world.store.set_cap(10_000).await.unwrap();
    assert_eq!(world.store.slots().await.unwrap().cap, 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_configs_that_start_together_the_first_one_sets_the_cap() {
    let world = World::new().await;
    let first = world.hold("select adopt_cap_1(7)").await;
    let store = world.store.clone();
    let second = tokio::spawn(async move { store.adopt_cap(9).await });
    world.until_blocked(1).await;
    first.commit().await.unwrap();
    assert_eq!(second.await.unwrap().unwrap(), AdoptedCap { adopted: false, cap: 7 });
    assert_eq!(world.store.adopt_cap(7).await.unwrap(), AdoptedCap { adopted: false, cap: 7 });
    world.store.set_cap(2).await.unwrap();
    assert_eq!(world.store.adopt_cap(7).await.unwrap(), AdoptedCap { adopted: false, cap: 2 });
}
