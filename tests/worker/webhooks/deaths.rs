//! Senders that die, or leave, with a delivery in their hands.

use std::time::Duration;

use adjutant_agent::Verdict;
use adjutant_store::DeliveryResponse;

use crate::support::webhook_receiver::{Answer, Receiver};
use crate::support::worker_process::WorkerProcess;
use crate::support::world::{World, until};
use crate::worker::webhooks::deliveries::{completes, sender, start_sender};

async fn killed_at(point: &str) -> (World, Receiver, adjutant_agent::TaskId) {
    let world = World::new().await;
    world.secret().await;
    let receiver = Receiver::start().await;
    let mut command = sender(&world);
    let mut doomed = WorkerProcess::start(command.env("ADJUTANT_FAULT", format!("{point}:kill")));
    let task = world.spawn_with_webhook(completes(receiver.url("a"))).await.id;
    doomed.killed_itself().await;
    let delivery = world.delivery(task).await;
    assert_eq!((delivery.state.as_str(), delivery.tries), ("pending", 1));
    (world, receiver, task)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_whose_sender_died_before_sending_is_sent_by_another() {
    let (world, receiver, task) = killed_at("before_post").await;
    assert!(receiver.received().is_empty());
    let _other = start_sender(&world);
    world.make_due(task).await;
    assert_eq!(world.until_delivered(task).await.tries, 2);
    receiver.receive(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_whose_sender_died_after_sending_is_repeated_with_the_same_id() {
    let (world, receiver, task) = killed_at("after_post").await;
    assert_eq!(receiver.received().len(), 1);
    let _other = start_sender(&world);
    world.make_due(task).await;
    world.until_delivered(task).await;
    let received = receiver.receive(2).await;
    assert_eq!((received[0].id(), &received[0].body), (received[1].id(), &received[1].body));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_belongs_to_one_sender_until_its_lease_expires() {
    let world = World::new().await;
    world.secret().await;
    let task = world.spawn_with_webhook(completes("https://example.com/".to_owned())).await.id;
    world.store.cancel(task).await.unwrap();
    let minute = Duration::from_secs(60);
    let first = world.store.claim_deliveries(10, &[], minute).await.unwrap();
    assert_eq!(first.len(), 1);
    assert!(world.store.claim_deliveries(10, &[], minute).await.unwrap().is_empty());
    world.make_due(task).await;
    let busy = [first[0].url.clone()];
    assert!(world.store.claim_deliveries(10, &busy, minute).await.unwrap().is_empty());
    let second = world.store.claim_deliveries(10, &[], minute).await.unwrap();
    assert_eq!((second[0].id, second[0].tries), (first[0].id, 2));
    let failed = DeliveryResponse { status: Some(500), error: Some("late".to_owned()) };
    assert!(!world.store.settle_delivery(&first[0], Verdict::Failed, &failed).await.unwrap());
    assert_eq!(world.delivery(task).await.state, "pending");
    let seen = DeliveryResponse { status: Some(200), error: None };
    assert!(world.store.settle_delivery(&second[0], Verdict::Delivered, &seen).await.unwrap());
    assert_eq!(world.delivery(task).await.state, "delivered");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_senders_send_each_delivery_once() {
    let world = World::new().await;
    world.secret().await;
    let receiver = Receiver::start().await;
    let session = world.session().await;
    let url = receiver.url("a");
    let tasks: Vec<_> = (0..60)
        .map(|_| adjutant_store::NewTask { queue: true, ..completes(url.clone()) })
        .collect();
    world.store.spawn(session, &tasks, None).await.unwrap();
    let _workers = [start_sender(&world), start_sender(&world), start_sender(&world)];
    let delivered = "select count(*) from webhook_delivery where state = 'delivered' and tries = 1";
    until("all are delivered", async || world.count(delivered).await == 60).await;
    let ids: std::collections::BTreeSet<String> =
        receiver.receive(60).await.iter().map(|one| one.id().to_owned()).collect();
    assert_eq!(ids.len(), 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_worker_finishes_its_deliveries() {
    let world = World::new().await;
    world.secret().await;
    let receiver = Receiver::start().await;
    receiver.answer_next([Answer::Hang]);
    let mut command = sender(&world);
    let mut worker = WorkerProcess::start(command.env("ADJUTANT_WEBHOOKS_TIMEOUT_S", "2"));
    let task = world.spawn_with_webhook(completes(receiver.url("a"))).await.id;
    receiver.receive(1).await;
    worker.signal("TERM");
    assert!(worker.exited().await.success());
    let delivery = world.delivery(task).await;
    assert_eq!(delivery.last_error.as_deref(), Some("No answer within 2 s."));
    let held = "select count(*) from webhook_delivery where lease is not null";
    assert_eq!(world.count(held).await, 0, "it is anybody's");
}
