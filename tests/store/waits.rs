//! Clients that wait for the ends of tasks: what one check finds, and what it marks as read.

use adjutant_agent::{TaskNumber, TaskState, WaitMode};
use adjutant_store::{Check, EndWait, EndedTasks};

use crate::support::world::World;

fn ended(found: &EndedTasks) -> Vec<(i32, TaskState)> {
    found.tasks.iter().map(|task| (task.number.0, task.state)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_goes_to_one_of_two_waits() {
    let world = World::new().await;
    let (session, _, claim) = world.one_running().await;
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();

    let one = format!("select from wait_1({}, null, null, false, true)", session.0);
    let one = world.hold(&one).await;
    let store = world.store.clone();
    let other = tokio::spawn(async move {
        store.check_ends(session, &mut EndWait::of_session(WaitMode::Any), Check::Last).await
    });
    world.until_blocked(1).await;
    one.commit().await.unwrap();
    assert_eq!(ended(&other.await.unwrap().unwrap()), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_returns_a_task_that_was_cancelled_since_its_first_check() {
    let world = World::new().await;
    let session = world.session().await;
    world.spawn(session, 2).await;
    let mut wait = EndWait::of_session(WaitMode::Any);
    let first = world.store.check_ends(session, &mut wait, Check::Repeated).await.unwrap();
    assert!(!first.met);
    world.store.cancel_by_number(session, TaskNumber(2)).await.unwrap();
    let second = world.store.check_ends(session, &mut wait, Check::Repeated).await.unwrap();
    assert!(second.met);
    assert_eq!(ended(&second), [(2, TaskState::Cancelled)]);
}
