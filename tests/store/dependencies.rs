//! Dependencies: what waits is woken once, or fails with what it waited for; never left behind.

use adjutant_agent::{ErrorCode, FailureKind, TaskNumber, TaskState};
use adjutant_store::{Dependency, NewTask};

use crate::support::world::{World, assert_refused, queued, race};

fn after(dependencies: &[i32]) -> NewTask {
    let depends_on =
        dependencies.iter().map(|number| Dependency::Task(TaskNumber(*number))).collect();
    NewTask { depends_on, ..queued() }
}

fn after_in_batch(places: &[usize]) -> NewTask {
    NewTask { depends_on: places.iter().copied().map(Dependency::InBatch).collect(), ..queued() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_runs_after_all_it_depends_on_has_completed() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let batch = [after_in_batch(&[1, 2]), queued(), after_in_batch(&[1])];
    let spawned = world.store.spawn(session, &batch, None).await.unwrap();
    assert_eq!(spawned[0].state, TaskState::Waiting);
    assert_eq!(world.drain(&worker).await, [spawned[1].id, spawned[2].id, spawned[0].id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_dependencies_that_end_together_wake_their_dependant() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    for round in 0..100 {
        let first = round * 3 + 1;
        world.spawn(session, 2).await;
        let dependant = world.spawn_one(session, after(&[first, first + 1])).await;
        let ends = worker.claim(2).await.unwrap().into_iter().map(|claim| async move {
            claim.lease.complete("done".to_owned(), None).write().await.unwrap();
        });
        race(ends.collect()).await;
        assert_eq!(world.drain(&worker).await, [dependant.id]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_of_two_ends_sees_the_first() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    world.spawn(session, 2).await;
    let dependant = world.spawn_one(session, after(&[1, 2])).await;
    let mut claims = worker.claim(2).await.unwrap();
    let (second, first) = (claims.remove(1).lease, claims.remove(0).lease);
    let in_flight = world.hold_completion(&first).await;
    let end = tokio::spawn(async move { second.complete("done".to_owned(), None).write().await });
    world.until_blocked(1).await;
    in_flight.commit().await.unwrap();
    end.await.unwrap().unwrap();
    assert_eq!(world.drain(&worker).await, [dependant.id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spawn_that_depends_on_a_task_that_is_ending_is_not_left_waiting() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    world.spawn(session, 1).await;
    let lease = world.claim_one(&worker).await.lease;
    let in_flight = world.hold_completion(&lease).await;
    let store = world.store.clone();
    let spawn = tokio::spawn(async move { store.spawn(session, &[after(&[1])], None).await });
    world.until_blocked(1).await;
    in_flight.commit().await.unwrap();
    let dependant = spawn.await.unwrap().unwrap().remove(0);
    assert_eq!(dependant.state, TaskState::Queued);
    assert_eq!(world.drain(&worker).await, [dependant.id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dependency_that_does_not_complete_fails_its_dependants_transitively() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    world.spawn(session, 2).await;
    let direct = world.spawn_one(session, after(&[1, 2])).await;
    let transitive = world.spawn_one(session, after(&[3])).await;
    let unrelated = world.spawn_one(session, after(&[2])).await;
    let lease = world.claim_one(&worker).await.lease;
    lease.fail(FailureKind::Model, "Model API error: 400".to_owned(), None).write().await.unwrap();
    for (number, error) in
        [(direct.number, "Dependency t_01 failed"), (transitive.number, "Dependency t_03 failed")]
    {
        let status = world.store.status(session, number).await.unwrap();
        assert_eq!(
            (status.state, status.failure),
            (TaskState::Failed, Some(FailureKind::Dependency))
        );
        assert_eq!(status.error.as_deref(), Some(error));
    }
    world.assert_sound().await;
    assert_eq!(world.drain(&worker).await.last(), Some(&unrelated.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_depends_on_a_failed_one_fails_at_once() {
    let world = World::new().await;
    let session = world.session().await;
    let spawned = world.spawn(session, 1).await;
    world.store.cancel(spawned[0].id).await.unwrap();
    let late = world.spawn_one(session, after(&[1])).await;
    assert_eq!(late.state, TaskState::Failed);
    let status = world.store.status(session, late.number).await.unwrap();
    assert_eq!(status.error.as_deref(), Some("Dependency t_01 cancelled"));
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_dependency_is_refused_and_nothing_is_created() {
    let world = World::new().await;
    let session = world.session().await;
    let message = assert_refused(
        world.store.spawn(session, &[queued(), after(&[7])], None).await,
        ErrorCode::TaskNotFound,
    );
    assert!(message.contains("t_07"), "{message}");
    assert_eq!(world.count("select count(*) from task").await, 0);
    assert_eq!(world.spawn(session, 1).await[0].number, TaskNumber(1), "no number was lost either");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_number_not_yet_assigned_is_unknown() {
    let world = World::new().await;
    let session = world.session().await;
    // By these numbers the two would wait for each other, and the one for itself.
    for batch in [vec![after(&[2]), after(&[1])], vec![after(&[1])], vec![queued(), after(&[1])]] {
        assert_refused(world.store.spawn(session, &batch, None).await, ErrorCode::TaskNotFound);
    }
    assert_eq!(world.count("select count(*) from task").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collected_task_can_still_be_depended_on() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    world.spawn(session, 1).await;
    world.drain(&worker).await;
    world.store.collect(session, TaskNumber(1), None).await.unwrap();
    assert_eq!(world.spawn_one(session, after(&[1])).await.state, TaskState::Queued);
}
