//! Idempotent spawns: a client that asks again gets the first answer, and one task.

use adjutant_agent::ErrorCode;
use adjutant_store::IdempotencyKey;

use crate::support::world::{World, assert_refused, queued, race, task};

const KEY: IdempotencyKey<'static> = IdempotencyKey { key: "key", body: b"body" };

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_racers_with_one_key_get_one_task_and_one_answer() {
    let world = World::with_connections(24).await;
    let session = world.session().await;
    let racers = (0..100).map(|_| {
        let store = world.store.clone();
        async move { store.spawn(session, &[task()], Some(KEY)).await.unwrap() }
    });
    let answers = race(racers.collect()).await;
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(world.count("select count(*) from task").await, 1);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_stays_the_same_when_the_task_advances() {
    let world = World::new().await;
    let session = world.session().await;
    let first = world.store.spawn(session, &[task()], Some(KEY)).await.unwrap();
    world.drain(&world.worker().await).await;
    assert_eq!(world.store.spawn(session, &[task()], Some(KEY)).await.unwrap(), first);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_with_another_body_is_a_conflict() {
    let world = World::new().await;
    let session = world.session().await;
    world.store.spawn(session, &[task()], Some(KEY)).await.unwrap();
    let other = IdempotencyKey { body: b"other", ..KEY };
    assert_refused(
        world.store.spawn(session, &[task()], Some(other)).await,
        ErrorCode::IdempotencyConflict,
    );
    let elsewhere = world.session().await;
    world.store.spawn(elsewhere, &[task()], Some(other)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_not_frozen() {
    let world = World::new().await;
    let session = world.session_with(|session| session.max_active = Some(1)).await;
    world.spawn(session, 1).await;
    assert_refused(
        world.store.spawn(session, &[task()], Some(KEY)).await,
        ErrorCode::MaxTasksExceeded,
    );
    world.drain(&world.worker().await).await;
    world.store.spawn(session, &[task()], Some(KEY)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_forgotten_after_a_day() {
    let world = World::new().await;
    let session = world.session().await;
    let first = world.store.spawn(session, &[queued()], Some(KEY)).await.unwrap();
    let age = "update idempotency set created_at = now() - interval '25 hours'";
    sqlx::query(age).execute(&world.sql).await.unwrap();
    let second = world.store.spawn(session, &[queued()], Some(KEY)).await.unwrap();
    assert_ne!(first, second);
    sqlx::query(age).execute(&world.sql).await.unwrap();
    world.store.run_maintenance().await.unwrap();
    assert_eq!(world.count("select count(*) from idempotency").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_the_same_after_23_hours_and_free_after_24() {
    let world = World::new().await;
    let session = world.session().await;
    let first = world.store.spawn(session, &[queued()], Some(KEY)).await.unwrap();
    let other = IdempotencyKey { body: b"other", ..KEY };
    make_older(&world, "23 hours 59 minutes").await;
    world.store.run_maintenance().await.unwrap();
    assert_eq!(world.store.spawn(session, &[queued()], Some(KEY)).await.unwrap(), first);
    assert_refused(
        world.store.spawn(session, &[queued()], Some(other)).await,
        ErrorCode::IdempotencyConflict,
    );
    make_older(&world, "1 minute").await;
    // Free even before it is tidied away, and for another request too.
    let second = world.store.spawn(session, &[queued()], Some(other)).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(
        world.store.spawn(session, &[queued()], Some(other)).await.unwrap(),
        second,
        "for a day"
    );
    make_older(&world, "24 hours").await;
    world.store.run_maintenance().await.unwrap();
    assert_eq!(world.count("select count(*) from idempotency").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collect_is_answered_again_for_23_hours_and_not_after_24() {
    let world = World::new().await;
    let session = world.session().await;
    let number = world.spawn(session, 1).await[0].number;
    world.drain(&world.worker().await).await;
    let first = world.store.collect(session, number, Some(KEY)).await.unwrap();
    make_older(&world, "23 hours 59 minutes").await;
    assert_eq!(world.store.collect(session, number, Some(KEY)).await.unwrap(), first);
    make_older(&world, "1 minute").await;
    assert_refused(world.store.collect(session, number, Some(KEY)).await, ErrorCode::TaskNotFound);
}

async fn make_older(world: &World, by: &str) {
    sqlx::query("update idempotency set created_at = created_at - $1::text::interval")
        .bind(by)
        .execute(&world.sql)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_empty_too_long_or_has_a_nul_is_refused() {
    let world = World::new().await;
    let session = world.session().await;
    for key in ["", "nul\0", &"x".repeat(301)] {
        let key = IdempotencyKey { key, body: b"" };
        assert_refused(
            world.store.spawn(session, &[task()], Some(key)).await,
            ErrorCode::InvalidArgument,
        );
    }
    let longest = "é".repeat(300);
    let key = IdempotencyKey { key: &longest, body: b"" };
    world.store.spawn(session, &[task()], Some(key)).await.unwrap();
}
