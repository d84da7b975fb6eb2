//! The size of a tree of tasks.

use std::sync::Arc;

use adjutant_agent::ErrorCode;
use adjutant_store::NewTask;

use crate::support::world::{World, assert_refused, race, task};

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_has_at_most_200_tasks_however_many_spawn_at_once() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    world.spawn(session, 1).await;
    let root = Arc::new(world.claim_one(&worker).await);
    // 191 with the root; the children count for the tree of their root.
    root.lease.spawn(&vec![task(); 90], None).await.unwrap();
    let child = Arc::new(world.claim_one(&worker).await);
    child.lease.spawn(&vec![task(); 100], None).await.unwrap();
    let spawned = child.lease.spawn(&vec![task(); 10], None).await;
    let refusal = assert_refused(spawned, ErrorCode::MaxTasksExceeded);
    assert!(
        refusal.contains("The tree has 191 tasks") && refusal.contains("over 200"),
        "{refusal}"
    );
    let spawns = (0..20).map(|nth| {
        let claim = if nth % 2 == 0 { root.clone() } else { child.clone() };
        async move { claim.lease.spawn(&[task()], None).await }
    });
    let answers = race(spawns.collect()).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 9);
    for refused in answers.into_iter().filter(Result::is_err) {
        assert_refused(refused, ErrorCode::MaxTasksExceeded);
    }
    assert_eq!(world.count("select count(*) from task").await, 200);
    // Ended tasks count, too; other trees do not.
    world.store.cancel(child.lease.task()).await.unwrap();
    assert_refused(root.lease.spawn(&[task()], None).await, ErrorCode::MaxTasksExceeded);
    let other = world.spawn_one(world.session().await, NewTask { priority: 9, ..task() }).await;
    let stranger = world.claim_one(&worker).await;
    assert_eq!(stranger.assignment.root, other.id);
    stranger.lease.spawn(&[task()], None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn children_never_outrank_their_root() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    world.spawn_one(session, NewTask { priority: 5, ..task() }).await;
    let root = world.claim_one(&worker).await;
    let child = |priority| NewTask { priority, ..task() };
    let children = [child(100), child(0), child(-3)];
    root.lease.spawn(&children, None).await.unwrap();
    let of_depth = "select priority::integer from task where depth = $1 order by number";
    let stored: Vec<i32> =
        sqlx::query_scalar(of_depth).bind(2).fetch_all(&world.sql).await.unwrap();
    assert_eq!(stored, [5, 5, -3]);

    // A child of the lowest child may rise again, but not above the root.
    sqlx::raw_sql("delete from queue where priority = 5").execute(&world.sql).await.unwrap();
    let lowest = world.claim_one(&worker).await;
    lowest.lease.spawn(&[child(100), child(0)], None).await.unwrap();
    let stored: Vec<i32> =
        sqlx::query_scalar(of_depth).bind(3).fetch_all(&world.sql).await.unwrap();
    assert_eq!(stored, [5, -3]);
}
