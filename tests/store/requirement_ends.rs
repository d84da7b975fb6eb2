//! The end of requirements: those that no unfinished task has needed for a day are deleted.

use adjutant_store::NewTask;
use serde_json::json;

use crate::store::fairness::flood;
use crate::store::requirements::{MINUTE, claimed, needs, requirement, worker};
use crate::support::world::World;

/// Makes all requirements look as if nothing had needed them for two days.
const TWO_DAYS_PASS: &str = "update requirement set used_at = used_at - interval '2 days'";

async fn sql(world: &World, statement: &'static str) {
    sqlx::raw_sql(statement).execute(&world.sql).await.unwrap();
}

/// The models of the requirements that are left.
async fn required_models(world: &World) -> Vec<String> {
    sqlx::query_scalar("select model from requirement order by model")
        .fetch_all(&world.sql)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn requirements_that_no_unfinished_task_has_needed_for_a_day_are_deleted() {
    let world = World::new().await;
    let able = worker(&world, &["ended", "waits", "again"], &[]).await;
    for model in ["ended", "again"] {
        requirement(&world, model).await;
    }
    let later = NewTask { delay: Some(MINUTE), ..needs("waits", json!([])) };
    let waits = world.spawn_one(world.session().await, later).await;
    world.store.run_maintenance().await.unwrap();
    assert_eq!(required_models(&world).await, ["again", "ended", "waits"], "for a day");

    sql(&world, TWO_DAYS_PASS).await;
    requirement(&world, "again").await;
    world.store.run_maintenance().await.unwrap();
    assert_eq!(required_models(&world).await, ["again", "waits"]);
    // The task ends, and its requirement a day later.
    world.store.cancel(waits.id).await.unwrap();
    sql(&world, TWO_DAYS_PASS).await;
    world.store.run_maintenance().await.unwrap();
    assert_eq!(required_models(&world).await, Vec::<String>::new());

    // A worker that has not polled since claims nothing by an id that it still has.
    world.spawn_one(world.session().await, needs("other", json!([]))).await;
    assert_eq!(claimed(&able).await, Vec::<String>::new());
    assert!(able.poll(&[], MINUTE).await.unwrap().is_outdated);
    able.update_can().await.unwrap();
    assert!(!able.poll(&[], MINUTE).await.unwrap().is_outdated);
    world.spawn_one(world.session().await, needs("ended", json!([]))).await;
    assert_eq!(claimed(&able).await, ["ended []"], "it is added again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_through_many_tasks_keeps_what_the_last_one_needs() {
    let world = World::new().await;
    flood(&world, "crowd", "default", 999).await;
    // The walk goes through the sessions by their ids.
    let session = world.session().await;
    for model in ["near", "far"] {
        world.spawn_one(session, needs(model, json!([]))).await;
    }
    sql(&world, TWO_DAYS_PASS).await;
    world.store.run_maintenance().await.unwrap();
    assert_eq!(required_models(&world).await, ["far", "near"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spawn_never_gets_a_requirement_that_is_being_deleted() {
    let world = World::new().await;
    requirement(&world, "big").await;
    sql(&world, TWO_DAYS_PASS).await;
    let deletion = world.hold("select delete_requirements_1(now() - interval '1 day')").await;
    let session = world.session().await;
    let store = world.store.clone();
    let spawn =
        tokio::spawn(async move { store.spawn(session, &[needs("big", json!([]))], None).await });
    world.until_blocked(1).await;
    deletion.commit().await.unwrap();
    spawn.await.unwrap().unwrap();
    let able = worker(&world, &["big"], &[]).await;
    assert_eq!(claimed(&able).await, ["big []"]);
}
