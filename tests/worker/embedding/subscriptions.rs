use adjutant_agent::{ErrorCode, EventKind};
use adjutant_server::{Hub, Subscription};

use crate::support::world::{World, assert_refused, turn};

async fn numbers(events: &mut Subscription, count: usize) -> Vec<i64> {
    let mut seen = Vec::new();
    for _ in 0..count {
        seen.push(events.next().await.unwrap().number);
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_gets_past_and_new_events_once_and_in_order() {
    let world = World::new().await;
    let session = world.session().await;
    // More than one page of them.
    world.spawn(session, 150).await;
    let hub = Hub::start(world.store.clone(), world.url().to_owned());
    let mut events = hub.subscribe(session, 0);
    assert_eq!(numbers(&mut events, 150).await, (1..=150).collect::<Vec<_>>());
    let writing = tokio::spawn({
        let store = world.store.clone();
        async move {
            store.spawn(session, &vec![crate::support::world::queued(); 20], None).await.unwrap()
        }
    });
    assert_eq!(numbers(&mut events, 20).await, (151..=170).collect::<Vec<_>>());
    writing.await.unwrap();
    let mut resumed = hub.subscribe(session, 168);
    assert_eq!(numbers(&mut resumed, 2).await, [169, 170], "it goes on where it stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_35_the_notification_is_stored_before_a_subscriber_gets_the_end() {
    let world = World::new().await;
    let (session, _, mut claim) = world.one_running().await;
    let hub = Hub::start(world.store.clone(), world.url().to_owned());
    let mut events = hub.subscribe(session, 0);
    claim.lease.checkpoint(&turn("I think.")).await.unwrap();
    let (task, ending) = (claim.lease.task(), world.hold_completion(&claim.lease).await);
    let mut kinds = vec![events.next().await.unwrap().kind, events.next().await.unwrap().kind];
    let heard = tokio::spawn(async move { events.next().await.unwrap() });
    ending.commit().await.unwrap();
    world.store.notify_workers(adjutant_store::NotifyTarget::All);
    let end = heard.await.unwrap();
    kinds.push(end.kind);
    assert_eq!(kinds, [EventKind::Spawned, EventKind::Turn, EventKind::Completed]);
    assert_eq!(end.task, task);
    let unread = "select count(*) from notification where read_at is null";
    assert_eq!(world.count(unread).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_ends_with_its_session() {
    let world = World::new().await;
    let session = world.session().await;
    let hub = Hub::start(world.store.clone(), world.url().to_owned());
    let mut events = hub.subscribe(session, 0);
    let waiting = tokio::spawn(async move { events.next().await });
    world.store.delete_session(session).await.unwrap();
    assert_refused(waiting.await.unwrap(), ErrorCode::SessionNotFound);
}
