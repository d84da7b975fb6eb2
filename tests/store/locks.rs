//! Sessions that a transaction holds for long: what many sessions share does the rest.

use std::time::Duration;

use adjutant_agent::SessionId;
use adjutant_store::NewTask;
use sqlx::{Postgres, Transaction};

use crate::support::world::{World, queued};

async fn lock(world: &World, session: SessionId) -> Transaction<'static, Postgres> {
    world.hold(&format!("select from session where id = {} for update", session.0)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_takes_back_what_it_can_while_a_session_is_locked() {
    let world = World::new().await;
    let worker = world.steady_worker().await;
    let (locked, free) = (world.session().await, world.session().await);
    for session in [locked, free] {
        world.spawn(session, 1).await;
        let claim = world.claim_one(&worker).await;
        world.expire(claim.lease.id()).await;
    }
    let held = lock(&world, locked).await;
    let swept = worker.sweep(Duration::ZERO).await.unwrap();
    assert_eq!(swept.len(), 1);
    assert_eq!(world.claim_one(&worker).await.lease.session(), free);
    held.rollback().await.unwrap();
    assert_eq!(worker.sweep(Duration::ZERO).await.unwrap().len(), 1);
    assert_eq!(world.claim_one(&worker).await.lease.session(), locked);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_tasks_are_admitted_while_a_session_with_many_is_locked() {
    let world = World::new().await;
    let worker = world.worker().await;
    let (locked, free) = (world.session_with_completed(0, |_| ()).await, world.session().await);
    let delayed = NewTask { delay: Some(Duration::from_secs(3600)), ..queued() };
    world.spawn_queued(locked, 1500, &delayed).await;
    world.spawn_queued(free, 2, &delayed).await;
    // Those of the locked session are due for longer, and more than one call looks at.
    sqlx::query("update task set not_before = now() - (10 - session) * interval '1 s'")
        .execute(&world.sql)
        .await
        .unwrap();
    let held = lock(&world, locked).await;
    assert_eq!(world.store.admit_due().await.unwrap(), 2);
    let claims = worker.claim(10).await.unwrap();
    assert!(claims.len() == 2 && claims.iter().all(|claim| claim.lease.session() == free));
    held.rollback().await.unwrap();
    assert_eq!(world.store.admit_due().await.unwrap(), 1000);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_whose_session_is_locked_gives_up_soon_and_its_worker_claims() {
    let world = World::new().await;
    let (session, worker, claim) = world.one_running().await;
    let task = claim.lease.task();
    let ending = [claim.lease.complete("done".to_owned(), None)];
    let other = world.session().await;
    world.spawn(other, 1).await;
    let held = lock(&world, session).await;
    let answer = worker.end_and_claim(&ending, 1).await.unwrap();
    assert_eq!((answer.unwritten.busy, answer.unwritten.lost), (vec![task], vec![]));
    assert_eq!(answer.claims.len(), 1);
    assert_eq!(world.store.end_some(&ending).await.unwrap().busy, [task]);
    held.rollback().await.unwrap();
    assert!(world.store.end_some(&ending).await.unwrap().busy.is_empty());
    world.assert_sound().await;
}
