//! Receivers that do not take what they are told.

use adjutant_agent::Verdict;
use adjutant_store::{DeliveryFilter, DeliveryResponse};
use std::time::Duration;
use tokio::net::TcpListener;

use crate::support::webhook_receiver::{Answer, Receiver};
use crate::support::worker_process::{WorkerProcess, simulate};
use crate::support::world::{World, until};
use crate::worker::webhooks::deliveries::{TENANT, all_events, completes, sender, start_sender};

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_receiver_is_retried_and_redirects_are_not_followed() {
    let world = World::new().await;
    let (receiver, secret) = (Receiver::start().await, world.secret().await);
    let elsewhere = receiver.url("elsewhere");
    receiver.answer_next([
        Answer::Status(500),
        Answer::Header(307, "location", elsewhere.clone()),
        Answer::Header(302, "location", elsewhere),
        Answer::Status(404),
        Answer::Hang,
    ]);
    let mut command = sender(&world);
    let _worker = WorkerProcess::start(command.env("ADJUTANT_WEBHOOKS_TIMEOUT_S", "0.3"));
    let task = world.spawn_with_webhook(completes(receiver.url("a"))).await;
    let delivery = world.until_delivered(task.id).await;
    assert_eq!((delivery.tries, delivery.last_status, delivery.last_error), (6, Some(204), None));
    let received = receiver.receive(6).await;
    for one in &received {
        assert_eq!((one.path.as_str(), one.id()), ("a", received[0].id()));
        assert_eq!(one.body, received[0].body, "every try says the same");
        assert_eq!(one.signed_by(&secret), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_down_gets_its_delivery_later() {
    let world = World::new().await;
    world.secret().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut command = sender(&world);
    let _worker = WorkerProcess::start(command.env("ADJUTANT_WEBHOOKS_MAX_TRIES", "100"));
    let task = world.spawn_with_webhook(completes(format!("http://{address}/a"))).await;
    let delivery = world.until_delivery(task.id, "has failed twice", |one| one.tries >= 3).await;
    assert_eq!((delivery.state.as_str(), delivery.last_status), ("pending", None));
    assert!(delivery.last_error.unwrap().contains("refused"));
    let receiver = Receiver::on(TcpListener::bind(address).await.unwrap());
    world.until_delivered(task.id).await;
    receiver.receive(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_last_try_a_delivery_has_failed_and_can_be_sent_again() {
    let world = World::new().await;
    world.secret().await;
    let receiver = Receiver::start().await;
    receiver.answer_next([Answer::Status(500), Answer::Status(503)]);
    let mut command = sender(&world);
    let _worker = WorkerProcess::start(command.env("ADJUTANT_WEBHOOKS_MAX_TRIES", "2"));
    let task = world.spawn_with_webhook(completes(receiver.url("a"))).await;
    let delivery = world.until_delivery(task.id, "has failed", |one| one.state == "failed").await;
    assert_eq!((delivery.tries, delivery.last_status, delivery.next_try_at), (2, Some(503), None));
    assert_eq!(delivery.last_error.as_deref(), Some("The receiver answered 503."));
    let again = world.store.redeliver(TENANT, delivery.id).await.unwrap();
    assert_eq!((again.state.as_str(), again.tries), ("pending", 0));
    world.until_delivered(task.id).await;
    assert_eq!(receiver.receive(3).await[2].id(), delivery.id.to_string());
    world.store.redeliver(TENANT, delivery.id).await.unwrap();
    receiver.receive(4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_is_obeyed_and_pauses_grow() {
    let world = World::new().await;
    world.secret().await;
    let receiver = Receiver::start().await;
    receiver.answer_next([
        Answer::Header(503, "retry-after", "3600".to_owned()),
        Answer::Status(500),
        Answer::Status(500),
    ]);
    let mut command = simulate(world.url());
    let _worker = WorkerProcess::start(command.env("ADJUTANT_WEBHOOKS_ALLOW_PRIVATE", "true"));
    let task = world.spawn_with_webhook(completes(receiver.url("a"))).await;
    for (tries, least, most) in [(1, 3599, 3620), (2, 23, 45), (3, 143, 230)] {
        let tried =
            |one: &adjutant_store::DeliveryRecord| one.tries == tries && one.last_error.is_some();
        // The status of the try before is still there while it is sent again.
        until("it is tried", async || receiver.received().len() == usize::try_from(tries).unwrap())
            .await;
        until("it is settled", async || {
            world.count("select count(*) from webhook_delivery where lease is null").await == 1
        })
        .await;
        let delivery = world.until_delivery(task.id, "is tried", tried).await;
        let pause = (delivery.next_try_at.unwrap() - delivery.tried_at.unwrap()).num_seconds();
        assert!((least..=most).contains(&pause), "{pause} s after try {tries}");
        world.make_due(task.id).await;
    }
    world.until_delivered(task.id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_answers_gone_gets_nothing_more() {
    let world = World::new().await;
    world.secret().await;
    let receiver = Receiver::start().await;
    receiver.answer_next([Answer::Status(410)]);
    let session = world.session_with(|new| new.webhook = Some(all_events(receiver.url("a")))).await;
    let first = world.spawn(session, 1).await.remove(0);
    world.store.cancel(first.id).await.unwrap();
    let worker = start_sender(&world);
    world.until_delivery(first.id, "has failed", |one| one.state == "failed").await;
    let name = world.name_of(session).await;
    let webhook = world.store.session_details(TENANT, &name).await.unwrap().webhook.unwrap();
    assert!(webhook.disabled_at.is_some(), "{webhook:?}");
    let second = world.spawn(session, 1).await.remove(0);
    world.store.cancel(second.id).await.unwrap();
    assert!(world.deliveries(second.id).await.is_empty());

    world
        .store
        .set_session_webhook(TENANT, &name, Some(&all_events(receiver.url("b"))))
        .await
        .unwrap();
    let third = world.spawn(session, 1).await.remove(0);
    world.store.cancel(third.id).await.unwrap();
    world.until_delivered(third.id).await;
    assert_eq!(receiver.receive(2).await[1].path, "b");
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_deliveries_fail_with_a_gone_receiver() {
    let world = World::new().await;
    let session = world
        .session_with(|new| new.webhook = Some(all_events("https://example.com/".to_owned())))
        .await;
    for task in world.spawn(session, 3).await {
        world.store.cancel(task.id).await.unwrap();
    }
    let minute = Duration::from_secs(60);
    let claimed = world.store.claim_deliveries(1, &[], minute).await.unwrap();
    let seen = DeliveryResponse {
        status: Some(410),
        error: Some("The receiver answered 410.".to_owned()),
    };
    assert!(world.store.settle_delivery(&claimed[0], Verdict::Gone, &seen).await.unwrap());
    assert_eq!(
        world.count("select count(*) from webhook_delivery where state = 'failed'").await,
        3
    );
    assert!(world.store.claim_deliveries(10, &[], minute).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_does_not_answer_does_not_hold_up_the_others() {
    let world = World::new().await;
    world.secret().await;
    let (slow, quick) = (Receiver::start().await, Receiver::start().await);
    slow.answer_next(vec![Answer::Hang; 100]);
    let _worker = start_sender(&world);
    for _ in 0..40 {
        world.spawn_with_webhook(completes(slow.url("a"))).await;
    }
    until("it does not answer", async || slow.received().len() >= 4).await;
    let task = world.spawn_with_webhook(completes(quick.url("a"))).await;
    world.until_delivered(task.id).await;
    assert!(slow.received().len() < 10, "{} at once", slow.received().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn private_addresses_get_nothing_under_any_name() {
    let world = World::new().await;
    world.secret().await;
    let receiver = Receiver::start().await;
    let port = receiver.url.rsplit_once(':').unwrap().1.to_owned();
    let _worker = WorkerProcess::on(world.url());
    for (url, why) in [
        (receiver.url("a"), "Webhooks are sent to https URLs only."),
        (format!("https://127.0.0.1:{port}/a"), "The host's address is not a public one."),
        (format!("https://[::ffff:127.0.0.1]:{port}/a"), "The host's address is not a public one."),
        (format!("https://localhost:{port}/a"), "The host's address is not a public one."),
    ] {
        let task = world.spawn_with_webhook(completes(url.clone())).await;
        let delivery =
            world.until_delivery(task.id, "has failed", |one| one.state == "failed").await;
        assert_eq!(delivery.last_error.as_deref(), Some(why), "{url}");
        assert_eq!(delivery.tries, 1);
    }
    assert!(receiver.received().is_empty());
    let all = DeliveryFilter { tenant: TENANT.to_owned(), ..DeliveryFilter::default() };
    assert_eq!(world.store.deliveries(&all, 100).await.unwrap().len(), 4);
}
