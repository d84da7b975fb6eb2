//! Spawning: the session's window, numbers, batches, and what is refused before anything is made.

use std::time::Duration;

use adjutant_agent::{ErrorCode, SessionId, TaskNumber, TaskState};
use adjutant_store::{Dependency, NewTask};

use crate::support::world::{World, assert_refused, queued, race, task};

#[tokio::test(flavor = "multi_thread")]
async fn numbers_count_up_inside_a_session() {
    let world = World::new().await;
    let (one, other) = (world.session().await, world.session().await);
    let names = |spawned: Vec<adjutant_store::Spawned>| -> Vec<String> {
        spawned.iter().map(|task| task.number.to_string()).collect()
    };
    assert_eq!(names(world.spawn(one, 2).await), ["t_01", "t_02"]);
    assert_eq!(names(world.spawn(other, 1).await), ["t_01"]);
    assert_eq!(names(world.spawn(one, 1).await), ["t_03"]);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_spawns_get_numbers_without_a_gap() {
    let world = World::new().await;
    let session = world.session().await;
    let racers = (0..40).map(|_| {
        let store = world.store.clone();
        async move { store.spawn(session, &[queued()], None).await.unwrap().remove(0).number.0 }
    });
    let mut numbers = race(racers.collect()).await;
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sixth_unfinished_task_is_refused_unless_it_accepts_to_wait() {
    let world = World::new().await;
    let session = world.session().await;
    for _ in 0..5 {
        world.spawn_one(session, task()).await;
    }
    let message = assert_refused(
        world.store.spawn(session, &[task()], None).await,
        ErrorCode::MaxTasksExceeded,
    );
    assert!(message.contains("5 unfinished tasks, and with 1 more"), "{message}");
    let sixth = world.spawn_one(session, queued()).await;
    assert_eq!(
        (sixth.number, sixth.state, sixth.queue_position),
        (TaskNumber(6), TaskState::Queued, Some(5))
    );
    assert_eq!(
        world.count("select count(*) from queue").await,
        5,
        "the sixth is behind the window"
    );
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_with_some_room_takes_no_more_than_that() {
    let world = World::new().await;
    let session = world.session().await;
    world.spawn(session, 3).await;
    world.spawn(session, 10).await;
    assert_eq!(world.count("select count(*) from queue").await, 5);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uncollected_results_take_no_room() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    world.spawn(session, 5).await;
    world.drain(&worker).await;
    for _ in 0..5 {
        world.spawn_one(session, task()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_takes_max_queued_tasks_and_no_more() {
    let world = World::new().await;
    let session = world.session_with(|session| session.max_queued = Some(8)).await;
    world.spawn(session, 7).await;
    assert_refused(
        world.store.spawn(session, &[queued(), queued()], None).await,
        ErrorCode::MaxTasksExceeded,
    );
    assert_eq!(world.count("select count(*) from task").await, 7, "all or none");
    world.spawn(session, 1).await;
    assert_refused(
        world.store.spawn(session, &[queued()], None).await,
        ErrorCode::MaxTasksExceeded,
    );
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_spawns_never_overfill_the_window() {
    let world = World::new().await;
    let session = world.session().await;
    let racers = (0..30).map(|_| {
        let store = world.store.clone();
        async move { store.spawn(session, &[task()], None).await }
    });
    let (made, refused): (Vec<_>, Vec<_>) =
        race(racers.collect()).await.into_iter().partition(Result::is_ok);
    assert_eq!(made.len(), 5);
    for answer in refused {
        assert_refused(answer, ErrorCode::MaxTasksExceeded);
    }
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spawn_that_waits_for_another_counts_its_task() {
    let world = World::new().await;
    let session = world.session_with(|session| session.max_active = Some(1)).await;
    let in_flight = world.hold_spawn(session, "{}", "null").await;
    let store = world.store.clone();
    let second = tokio::spawn(async move { store.spawn(session, &[task()], None).await });
    world.until_blocked(1).await;
    in_flight.commit().await.unwrap();
    assert_refused(second.await.unwrap(), ErrorCode::MaxTasksExceeded);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_archived_or_unknown_takes_no_task() {
    let world = World::new().await;
    let session = world.session().await;
    sqlx::query("update session set archived_at = now()").execute(&world.sql).await.unwrap();
    assert_refused(world.store.spawn(session, &[task()], None).await, ErrorCode::SessionArchived);
    assert_refused(
        world.store.spawn(SessionId(-1), &[task()], None).await,
        ErrorCode::SessionNotFound,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_text_is_refused_by_field_and_nothing_is_created() {
    let world = World::new().await;
    let session = world.session().await;
    let nul = "a\0b".to_owned();
    for (bad, field) in [
        (NewTask { agent: String::new(), ..task() }, "agent"),
        (NewTask { agent: nul.clone(), ..task() }, "agent"),
        (NewTask { assignment: nul.clone(), ..task() }, "task"),
        (NewTask { label: Some(nul.clone()), ..task() }, "label"),
        (NewTask { pool: nul.clone(), ..task() }, "pool"),
        (NewTask { metadata: [(nul, 1.into())].into_iter().collect(), ..task() }, "metadata"),
    ] {
        let message = assert_refused(
            world.store.spawn(session, &[task(), bad], None).await,
            ErrorCode::InvalidArgument,
        );
        assert!(message.starts_with(field), "{message}");
    }
    assert_eq!(world.count("select count(*) from task").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_come_back_as_they_were_sent() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    for text in [
        "",
        "plain",
        "quotes ' \" \\ and \n\t",
        "ünïcödé 漢字 🦀 \u{10ffff}",
        &"long ".repeat(200_000),
    ] {
        world.spawn_one(session, NewTask { assignment: text.to_owned(), ..task() }).await;
        let claim = world.claim_one(&worker).await;
        assert_eq!(claim.assignment.text, text);
        claim.lease.complete(text.to_owned(), Some(text.to_owned())).write().await.unwrap();
    }
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_task_waits_for_its_time_outside_the_queue() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let delayed = world
        .spawn_one(session, NewTask { delay: Some(Duration::from_secs(3600)), ..task() })
        .await;
    assert_eq!(delayed.state, TaskState::Queued);
    assert_eq!(world.store.admit_due().await.unwrap(), 0);
    assert!(worker.claim(1).await.unwrap().is_empty());
    world.assert_sound().await;
    sqlx::query("update task set not_before = now()").execute(&world.sql).await.unwrap();
    assert_eq!(world.store.admit_due().await.unwrap(), 1);
    assert_eq!(world.drain(&worker).await, [delayed.id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_task_that_depends_on_another_waits_for_both() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    world.spawn_one(session, task()).await;
    let both = NewTask {
        delay: Some(Duration::from_secs(3600)),
        depends_on: vec![Dependency::Task(TaskNumber(1))],
        ..task()
    };
    let both = world.spawn_one(session, both).await;
    world.claim_one(&worker).await.lease.complete("ok".to_owned(), None).write().await.unwrap();
    assert_eq!(world.state(session, both.number).await, TaskState::Queued);
    assert!(worker.claim(1).await.unwrap().is_empty(), "its time has not come");
    sqlx::query("update task set not_before = now() where not_before is not null")
        .execute(&world.sql)
        .await
        .unwrap();
    world.store.admit_due().await.unwrap();
    assert_eq!(world.drain(&worker).await, [both.id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_position_counts_the_tenants_own_tasks_only() {
    let world = World::new().await;
    let mine = world.session().await;
    let also_mine = world.session().await;
    let others = world.session_with(|session| session.tenant = "other".to_owned()).await;
    world.spawn(others, 5).await;
    world.spawn(mine, 2).await;
    let positions = |spawned: Vec<adjutant_store::Spawned>| -> Vec<Option<i32>> {
        spawned.iter().map(|task| task.queue_position).collect()
    };
    assert_eq!(positions(world.spawn(also_mine, 7).await), [2, 3, 4, 5, 6, 7, 8].map(Some));
    let urgent = world.spawn_one(mine, NewTask { priority: 1, ..task() }).await;
    assert_eq!(urgent.queue_position, Some(0));
    let claims = world.worker().await.claim(5).await.unwrap();
    let is_urgent = |claim: &adjutant_store::Claim| claim.lease.task() == urgent.id;
    assert!(claims.iter().any(is_urgent), "the first of its tenant's tasks");
    assert_eq!(
        world.store.status(mine, urgent.number).await.unwrap().queue_position,
        None,
        "it runs"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_position_outside_the_window_is_what_it_will_be_inside() {
    let world = World::new().await;
    let worker = world.worker().await;
    let (full, other) =
        (world.session_with(|session| session.max_active = Some(1)).await, world.session().await);
    let held = world.spawn(full, 1).await.remove(0);
    let running = world.claim_one(&worker).await;
    world.spawn(other, 3).await;
    let urgent = world.spawn_one(full, NewTask { priority: 9, ..queued() }).await;
    assert_eq!(urgent.queue_position, Some(0), "before all of lower priority");
    let usual = world.spawn_one(full, queued()).await;
    assert_eq!(usual.queue_position, Some(4), "behind the three others and the urgent one");
    // The session's window shrinks away under a task that has run before: it will come back in
    // front.
    running.lease.release().write().await.unwrap();
    assert_eq!(world.store.status(full, held.number).await.unwrap().queue_position, Some(0));
    world.assert_sound().await;
}
