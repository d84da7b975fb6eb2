//! Locks are taken in one order: sessions by id, then slots. Each test holds a lock of an earlier
//! place, and then takes one of a later place, which nobody has yet.

use adjutant_agent::SessionId;

use crate::support::world::World;

fn lock_of(session: SessionId) -> String {
    format!("select from session where id = {} for no key update", session.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_locked_in_the_order_of_their_ids() {
    let world = World::new().await;
    let sessions = [world.session().await, world.session().await];
    assert!(sessions[0] < sessions[1]);
    for session in sessions {
        world.spawn(session, 1).await;
    }
    let claims = world.worker().await.claim(2).await.unwrap();
    let endings: Vec<_> =
        claims.into_iter().map(|claim| claim.lease.complete("done".to_owned(), None)).collect();

    let mut held = world.hold(&lock_of(sessions[0])).await;
    let store = world.store.clone();
    let ends = tokio::spawn(async move { store.end(&endings).await });
    world.until_blocked(1).await;
    let next = format!("{} nowait", lock_of(sessions[1]));
    sqlx::raw_sql(sqlx::AssertSqlSafe(next)).execute(&mut *held).await.unwrap();
    held.commit().await.unwrap();
    assert!(ends.await.unwrap().unwrap().is_empty(), "no lease was lost");
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_waits_for_its_session_before_it_takes_its_slot() {
    let world = World::new().await;
    let (session, _, claim) = world.one_running().await;
    let mut held = world.hold(&lock_of(session)).await;
    let slot = claim.lease.slot();
    let end =
        tokio::spawn(async move { claim.lease.complete("done".to_owned(), None).write().await });
    world.until_blocked(1).await;
    sqlx::query("select from slot where n = $1 for update nowait")
        .bind(slot)
        .execute(&mut *held)
        .await
        .unwrap();
    held.commit().await.unwrap();
    end.await.unwrap().unwrap();
    world.assert_sound().await;
}
