//! Collecting: a result is handed over once, and to whoever has the key again.

use adjutant_agent::{ErrorCode, Outcome, SessionId, TaskNumber};
use adjutant_store::IdempotencyKey;

use crate::support::world::{World, assert_refused, race};

const FIRST: TaskNumber = TaskNumber(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_collected_once() {
    let world = World::new().await;
    let session = world.session().await;
    assert_refused(world.store.collect(session, FIRST, None).await, ErrorCode::TaskNotFound);
    world.spawn(session, 1).await;
    assert_refused(world.store.collect(session, FIRST, None).await, ErrorCode::TaskNotReady);
    world.drain(&world.worker().await).await;
    let collected = world.store.collect(session, FIRST, None).await.unwrap();
    assert_eq!(collected.outcome, Outcome::Completed { result: "done".to_owned(), summary: None });
    assert_refused(world.store.collect(session, FIRST, None).await, ErrorCode::TaskNotFound);
    let status = world.store.status(session, FIRST).await.unwrap();
    assert!(status.collected_at.is_some(), "the row stays as history");
    assert_eq!(world.count("select count(*) from notification where read_at is null").await, 0);
    assert_refused(
        world.store.collect(SessionId(-1), FIRST, None).await,
        ErrorCode::SessionNotFound,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_collects_at_the_same_instant_one_wins() {
    let world = World::new().await;
    let session = world.session().await;
    world.spawn(session, 1).await;
    world.drain(&world.worker().await).await;
    let racers = (0..20).map(|_| {
        let store = world.store.clone();
        async move { store.collect(session, FIRST, None).await.is_ok() }
    });
    let won = race(racers.collect()).await.into_iter().filter(|won| *won).count();
    assert_eq!(won, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_loses_no_result() {
    let world = World::new().await;
    let session = world.session().await;
    world.spawn(session, 1).await;
    let key = Some(IdempotencyKey { key: "k", body: b"collect t_01" });
    assert_refused(world.store.collect(session, FIRST, key).await, ErrorCode::TaskNotReady);
    world.drain(&world.worker().await).await;
    let first = world.store.collect(session, FIRST, key).await.unwrap();
    assert_eq!(world.store.collect(session, FIRST, key).await.unwrap(), first);
    let other = Some(IdempotencyKey { key: "k", body: b"collect t_02" });
    assert_refused(
        world.store.collect(session, FIRST, other).await,
        ErrorCode::IdempotencyConflict,
    );
}
