//! What deliveries are signed with, over time.

use std::time::Duration;

use adjutant_agent::ErrorCode;
use adjutant_store::{SecretFrom, Store};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::support::webhook_receiver::{Received, Receiver};
use crate::support::worker_process::WorkerProcess;
use crate::support::world::{World, assert_refused};
use crate::worker::webhooks::deliveries::{TENANT, completes, sender, start_sender};

async fn rotate(store: &Store, overlap_s: u64) -> String {
    let overlap = Duration::from_secs(overlap_s);
    store.rotate_webhook_secret(TENANT, SecretFrom::Random, overlap).await.unwrap().1.unwrap()
}

async fn next(world: &World, receiver: &Receiver) -> Received {
    let before = receiver.received().len();
    let task = world.spawn_with_webhook(completes(receiver.url("a"))).await;
    world.until_delivered(task.id).await;
    receiver.receive(before + 1).await.pop().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_secrets_sign_until_the_older_expires() {
    let world = World::new().await;
    let receiver = Receiver::start().await;
    let first = rotate(&world.store, 3600).await;
    let _worker = start_sender(&world);
    let one = next(&world, &receiver).await;
    assert_eq!((one.signatures(), one.signed_by(&first)), (1, 1));

    let second = rotate(&world.store, 3600).await;
    let both = next(&world, &receiver).await;
    assert_eq!((both.signatures(), both.signed_by(&first), both.signed_by(&second)), (2, 1, 1));

    let third = rotate(&world.store, 3600).await;
    let two = next(&world, &receiver).await;
    assert_eq!(
        (two.signatures(), two.signed_by(&second), two.signed_by(&third)),
        (2, 1, 1),
        "two at a time"
    );

    sqlx::query("update webhook_secret set expires_at = now() where expires_at is not null")
        .execute(&world.sql)
        .await
        .unwrap();
    let last = next(&world, &receiver).await;
    assert_eq!((last.signatures(), last.signed_by(&third)), (1, 1));

    let fourth = rotate(&world.store, 0).await;
    let at_once = next(&world, &receiver).await;
    assert_eq!(
        (at_once.signatures(), at_once.signed_by(&fourth)),
        (1, 1),
        "an overlap of nothing is none"
    );
    assert_eq!(world.store.webhook_secrets(TENANT).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_may_be_imported_and_is_not_shown() {
    let world = World::new().await;
    let receiver = Receiver::start().await;
    let own = format!("whsec_{}", STANDARD.encode([7; 24]));
    let day = Duration::from_secs(86_400);
    let made =
        world.store.rotate_webhook_secret(TENANT, SecretFrom::Given(&own), day).await.unwrap();
    assert_eq!(made.1, None);
    let _worker = start_sender(&world);
    assert_eq!(next(&world, &receiver).await.signed_by(&own), 1);
    let wrong =
        world.store.rotate_webhook_secret(TENANT, SecretFrom::Given("whsec_c2hvcnQ="), day).await;
    assert!(assert_refused(wrong, ErrorCode::InvalidArgument).starts_with("secret: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_secret_a_delivery_waits_for_one() {
    let world = World::new().await;
    let receiver = Receiver::start().await;
    let mut command = sender(&world);
    let _worker = WorkerProcess::start(command.env("ADJUTANT_WEBHOOKS_MAX_TRIES", "100"));
    let task = world.spawn_with_webhook(completes(receiver.url("a"))).await;
    let waits = world.until_delivery(task.id, "waits", |one| one.last_error.is_some()).await;
    assert_eq!(waits.last_error.as_deref(), Some("There is no secret to sign the payload with."));
    assert!(receiver.received().is_empty());
    let secret = rotate(&world.store, 0).await;
    world.until_delivered(task.id).await;
    assert_eq!(receiver.receive(1).await[0].signed_by(&secret), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_secret_signs_nothing() {
    let world = World::new().await;
    let receiver = Receiver::start().await;
    let old = rotate(&world.store, 0).await;
    let new = rotate(&world.store, 3600).await;
    let secrets = world.store.webhook_secrets(TENANT).await.unwrap();
    assert_eq!((secrets[0].expires_at, secrets[1].expires_at.is_some()), (None, true));
    world.store.revoke_webhook_secret(TENANT, secrets[1].id).await.unwrap();
    let _worker = start_sender(&world);
    let one = next(&world, &receiver).await;
    assert_eq!((one.signatures(), one.signed_by(&old), one.signed_by(&new)), (1, 0, 1));
    let again = world.store.revoke_webhook_secret(TENANT, secrets[1].id).await;
    assert_refused(again, ErrorCode::WebhookSecretNotFound);
}
