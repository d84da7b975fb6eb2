//! Receivers that do not take what they are told.

use adjutant_agent::Verdict;
use adjutant_store::{DeliveryFilter, Seen};
use std::time::Duration;
use tokio::net::TcpListener;

use super::receiver::{Does, Receiver};
use super::stage::{TENANT, all, completes, teller, tells};
use crate::fleet::process::{WorkerProcess, work};
use crate::world::{World, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_fails_is_told_again_until_it_takes_it_and_redirects_are_not_followed() {
    let world = World::new().await;
    let (receiver, secret) = (Receiver::start().await, world.secret().await);
    let elsewhere = receiver.url("elsewhere");
    receiver.does([
        Does::Answer(500),
        Does::With(307, "location", elsewhere.clone()),
        Does::With(302, "location", elsewhere),
        Does::Answer(404),
        Does::Hang,
    ]);
    let mut command = teller(&world);
    let _worker = WorkerProcess::start(command.env("ADJUTANT_WEBHOOKS_TIMEOUT_S", "0.3"));
    let task = world.spawn_told(completes(receiver.url("a"))).await;
    let delivery = world.until_delivered(task.id).await;
    assert_eq!((delivery.tries, delivery.last_status, delivery.last_error), (6, Some(204), None));
    let received = receiver.gets(6).await;
    for one in &received {
        assert_eq!((one.path.as_str(), one.id()), ("a", received[0].id()));
        assert_eq!(one.body, received[0].body, "every try says the same");
        assert_eq!(one.signed_by(&secret), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_not_there_is_told_when_it_is() {
    let world = World::new().await;
    world.secret().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut command = teller(&world);
    let _worker = WorkerProcess::start(command.env("ADJUTANT_WEBHOOKS_MAX_TRIES", "100"));
    let task = world.spawn_told(completes(format!("http://{address}/a"))).await;
    let delivery = world.until_delivery(task.id, "has failed twice", |one| one.tries >= 3).await;
    assert_eq!((delivery.state.as_str(), delivery.last_status), ("pending", None));
    assert!(delivery.last_error.unwrap().contains("refused"));
    let receiver = Receiver::on(TcpListener::bind(address).await.unwrap());
    world.until_delivered(task.id).await;
    receiver.gets(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_last_try_it_has_failed_and_can_be_sent_again() {
    let world = World::new().await;
    world.secret().await;
    let receiver = Receiver::start().await;
    receiver.does([Does::Answer(500), Does::Answer(503)]);
    let mut command = teller(&world);
    let _worker = WorkerProcess::start(command.env("ADJUTANT_WEBHOOKS_MAX_TRIES", "2"));
    let task = world.spawn_told(completes(receiver.url("a"))).await;
    let delivery = world.until_delivery(task.id, "has failed", |one| one.state == "failed").await;
    assert_eq!((delivery.tries, delivery.last_status, delivery.next_try_at), (2, Some(503), None));
    assert_eq!(delivery.last_error.as_deref(), Some("It answered 503."));
    let again = world.store.redeliver(TENANT, delivery.id).await.unwrap();
    assert_eq!((again.state.as_str(), again.tries), ("pending", 0));
    world.until_delivered(task.id).await;
    assert_eq!(receiver.gets(3).await[2].id(), delivery.id.to_string());
    world.store.redeliver(TENANT, delivery.id).await.unwrap();
    receiver.gets(4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_receivers_own_time_is_kept_and_the_pauses_grow() {
    let world = World::new().await;
    world.secret().await;
    let receiver = Receiver::start().await;
    receiver.does([Does::With(503, "retry-after", "3600".to_owned()), Does::Answer(500), Does::Answer(500)]);
    let mut command = work(world.url());
    let _worker = WorkerProcess::start(command.env("ADJUTANT_WEBHOOKS_ALLOW_PRIVATE", "true"));
    let task = world.spawn_told(completes(receiver.url("a"))).await;
    for (tries, least, most) in [(1, 3599, 3620), (2, 23, 45), (3, 143, 230)] {
        let tried = |one: &adjutant_store::DeliveryRecord| one.tries == tries && one.last_error.is_some();
        // The status of the try before is still there while it is sent again.
        until("it is tried", async || receiver.received().len() == usize::try_from(tries).unwrap()).await;
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
async fn a_receiver_that_is_gone_is_told_nothing_more() {
    let world = World::new().await;
    world.secret().await;
    let receiver = Receiver::start().await;
    receiver.does([Does::Answer(410)]);
    let session = world.session_with(|new| new.webhook = Some(all(receiver.url("a")))).await;
    let first = world.spawn(session, 1).await.remove(0);
    world.store.cancel(first.id).await.unwrap();
    let worker = tells(&world);
    world.until_delivery(first.id, "has failed", |one| one.state == "failed").await;
    let name = world.name_of(session).await;
    let webhook = world.store.session_details(TENANT, &name).await.unwrap().webhook.unwrap();
    assert!(webhook.disabled_at.is_some(), "{webhook:?}");
    let second = world.spawn(session, 1).await.remove(0);
    world.store.cancel(second.id).await.unwrap();
    assert!(world.deliveries(second.id).await.is_empty());

    world.store.set_session_webhook(TENANT, &name, Some(&all(receiver.url("b")))).await.unwrap();
    let third = world.spawn(session, 1).await.remove(0);
    world.store.cancel(third.id).await.unwrap();
    world.until_delivered(third.id).await;
    assert_eq!(receiver.gets(2).await[1].path, "b");
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_receiver_that_is_gone_fails_with_it() {
    let world = World::new().await;
    let session = world.session_with(|new| new.webhook = Some(all("https://example.com/".to_owned()))).await;
    for task in world.spawn(session, 3).await {
        world.store.cancel(task.id).await.unwrap();
    }
    let minute = Duration::from_secs(60);
    let claimed = world.store.claim_deliveries(1, &[], minute).await.unwrap();
    let seen = Seen { status: Some(410), error: Some("It answered 410.".to_owned()) };
    assert!(world.store.settle_delivery(&claimed[0], Verdict::Gone, &seen).await.unwrap());
    assert_eq!(world.count("select count(*) from webhook_delivery where state = 'failed'").await, 3);
    assert!(world.store.claim_deliveries(10, &[], minute).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_does_not_answer_does_not_hold_up_the_others() {
    let world = World::new().await;
    world.secret().await;
    let (slow, quick) = (Receiver::start().await, Receiver::start().await);
    slow.does(vec![Does::Hang; 100]);
    let _worker = tells(&world);
    for _ in 0..40 {
        world.spawn_told(completes(slow.url("a"))).await;
    }
    until("it does not answer", async || slow.received().len() >= 4).await;
    let task = world.spawn_told(completes(quick.url("a"))).await;
    world.until_delivered(task.id).await;
    assert!(slow.received().len() < 10, "{} at once", slow.received().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_public_is_told_nothing_under_whatever_name() {
    let world = World::new().await;
    world.secret().await;
    let receiver = Receiver::start().await;
    let port = receiver.url.rsplit_once(':').unwrap().1.to_owned();
    let _worker = WorkerProcess::on(world.url());
    for (url, why) in [
        (receiver.url("a"), "Only https URLs are told anything."),
        (format!("https://127.0.0.1:{port}/a"), "The host's address is not a public one."),
        (format!("https://[::ffff:127.0.0.1]:{port}/a"), "The host's address is not a public one."),
        (format!("https://localhost:{port}/a"), "The host's address is not a public one."),
    ] {
        let task = world.spawn_told(completes(url.clone())).await;
        let delivery = world.until_delivery(task.id, "has failed", |one| one.state == "failed").await;
        assert_eq!(delivery.last_error.as_deref(), Some(why), "{url}");
        assert_eq!(delivery.tries, 1);
    }
    assert!(receiver.received().is_empty());
    let all = DeliveryFilter { tenant: TENANT.to_owned(), ..DeliveryFilter::default() };
    assert_eq!(world.store.deliveries(&all, 100).await.unwrap().len(), 4);
}
