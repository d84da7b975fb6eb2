//! Every end of a task creates one delivery, in the transaction that ends it.

use adjutant_agent::{OnWorkerLoss, WebhookEvent};
use adjutant_store::{Dependency, NewTask};
use serde_json::{Value, json};

use crate::support::webhook_receiver::Receiver;
use crate::support::world::{World, task, turn, until};
use crate::worker::webhooks::deliveries::{all_events, completes, start_sender, with_webhook};

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_task_is_delivered_signed_and_as_stored() {
    let world = World::new().await;
    let (receiver, secret) = (Receiver::start().await, world.secret().await);
    let worker = start_sender(&world);
    let session = world.session().await;
    let metadata = json!({"ticket": 42}).as_object().unwrap().clone();
    let completed = NewTask {
        label: Some("nightly".to_owned()),
        metadata,
        ..completes(receiver.url("hook-of-ends"))
    };
    let completed = world.spawn_one(session, completed).await;
    let delivery = world.until_delivered(completed.id).await;
    let failed = world
        .spawn_one(
            session,
            with_webhook(json!({"turns": 2, "then": "fail"}), receiver.url("hook-of-ends")),
        )
        .await;
    world.until_delivered(failed.id).await;

    let received = receiver.receive(2).await;
    for one in &received {
        assert_eq!((one.signatures(), one.signed_by(&secret)), (1, 1), "{one:#?}");
        assert_eq!(one.header("content-type"), "application/json");
        let sent_at: i64 = one.header("webhook-timestamp").parse().unwrap();
        assert!((chrono::Utc::now().timestamp() - sent_at).abs() < 60);
        let mut forged = one.clone();
        forged.body.push(' ');
        assert_eq!(forged.signed_by(&secret), 0);
    }
    let body = received[0].json();
    assert_eq!(
        (received[0].path.as_str(), received[0].id()),
        ("hook-of-ends", delivery.id.to_string().as_str())
    );
    assert_eq!((&body["type"], &body["event_id"]), (&json!("task.completed"), &json!(delivery.id)));
    let data = &body["data"];
    let name = world.name_of(session).await;
    for (field, value) in [
        ("session_id", json!(name)),
        ("task_id", json!("t_01")),
        ("id", json!(completed.id)),
        ("agent", json!("tester")),
        ("label", json!("nightly")),
        ("metadata", json!({"ticket": 42})),
        ("state", json!("completed")),
        ("failure", Value::Null),
        ("error", Value::Null),
        ("truncated", json!(false)),
        ("turns_used", json!(1)),
        ("input_tokens", json!(0)),
        ("output_tokens", json!(0)),
        ("cost_usd", json!(0.0)),
    ] {
        assert_eq!(data[field], value, "{field} of {data}");
    }
    let record =
        serde_json::to_value(world.store.task("tenant", completed.id).await.unwrap()).unwrap();
    assert_eq!(data["result"], record["result"]);
    assert_eq!(data["result_chars"], json!(record["result"].as_str().unwrap().len()));
    assert_eq!(
        (&body["timestamp"], &data["finished_at"]),
        (&record["finished_at"], &record["finished_at"])
    );

    let body = received[1].json();
    assert_eq!(body["type"], "task.failed");
    let data = &body["data"];
    assert_eq!(
        (&data["state"], &data["failure"], &data["error"]),
        (&json!("failed"), &json!("internal"), &json!("Simulated failure"))
    );
    assert_eq!((&data["partial_result"], data.get("result")), (&json!("turn 2"), None));
    let said = worker.stderr();
    for secret in [secret.as_str(), "hook-of-ends", "started_us", "Simulated failure", "nightly"] {
        assert!(!said.contains(secret), "{secret} is in the log");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_result_is_truncated_as_everywhere() {
    let world = World::new().await;
    let receiver = Receiver::start().await;
    world.secret().await;
    let _worker = start_sender(&world);
    world.spawn_with_webhook(with_webhook(json!({"result_bytes": 4004}), receiver.url("a"))).await;
    let data = &receiver.receive(1).await[0].json()["data"];
    let result = data["result"].as_str().unwrap();
    assert!(
        result.ends_with("\n[truncated — full response exceeded 1000 token limit]"),
        "{result}"
    );
    assert_eq!(result.find("\n["), Some(4000));
    assert_eq!((&data["truncated"], &data["result_chars"]), (&json!(true), &json!(4004)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sessions_webhook_gets_all_but_children_and_tasks_with_their_own() {
    let world = World::new().await;
    let receiver = Receiver::start().await;
    world.secret().await;
    let session =
        world.session_with(|new| new.webhook = Some(all_events(receiver.url("session")))).await;
    let own = NewTask { webhook: Some(all_events(receiver.url("own"))), ..task() };
    let parent = world.spawn_one(session, task()).await;
    let other = world.spawn_one(session, own).await;
    let worker = world.worker().await;
    for claim in worker.claim(2).await.unwrap() {
        if claim.lease.task() == parent.id {
            claim.lease.spawn(&[task()], None).await.unwrap();
        }
        claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    }
    world.drain(&worker).await;
    assert_eq!(world.count("select count(*) from task").await, 3);
    assert_eq!(world.count("select count(*) from webhook_delivery").await, 2);
    assert_eq!(world.delivery(parent.id).await.url, receiver.url("session"));
    assert_eq!(world.delivery(other.id).await.url, receiver.url("own"));
    let _worker = start_sender(&world);
    let mut paths: Vec<String> =
        receiver.receive(2).await.into_iter().map(|one| one.path).collect();
    paths.sort();
    assert_eq!(paths, ["own", "session"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_subscribed_ends_are_delivered_and_none_without_a_webhook() {
    let world = World::new().await;
    let mut webhook = all_events("https://example.com/".to_owned());
    webhook.events = vec![WebhookEvent::Failed];
    let session = world.session_with(|new| new.webhook = Some(webhook)).await;
    world.spawn(session, 2).await;
    let worker = world.worker().await;
    let mut claims = worker.claim(2).await.unwrap();
    let failed = claims.remove(0).lease;
    let task = failed.task();
    failed.fail(adjutant_agent::FailureKind::Tool, "no".to_owned(), None).write().await.unwrap();
    claims.remove(0).lease.complete("done".to_owned(), None).write().await.unwrap();
    let plain = world.session().await;
    world.spawn(plain, 1).await;
    world.drain(&worker).await;
    assert_eq!(world.count("select count(*) from webhook_delivery").await, 1);
    assert_eq!(world.delivery(task).await.event, "task.failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancels_failed_dependencies_and_lost_workers_are_delivered() {
    let world = World::new().await;
    let session = world
        .session_with(|new| new.webhook = Some(all_events("https://example.com/".to_owned())))
        .await;
    let after =
        |place| NewTask { depends_on: vec![Dependency::InBatch(place)], queue: true, ..task() };
    let lost = NewTask { on_worker_loss: OnWorkerLoss::Fail, ..task() };
    let spawned = world
        .store
        .spawn(
            session,
            &[task(), after(0), after(1), lost, NewTask { queue: true, ..task() }],
            None,
        )
        .await
        .unwrap();
    let worker = world.steady_worker().await;
    let mut claims = worker.claim(2).await.unwrap();
    claims[0].lease.checkpoint(&turn("half a word")).await.unwrap();
    world.expire(claims[1].lease.id()).await;
    worker.sweep(std::time::Duration::ZERO).await.unwrap();
    world.store.cancel(spawned[0].id).await.unwrap();
    world.store.cancel_by_number(session, spawned[4].number).await.unwrap();
    world.assert_sound().await;
    let mut events = Vec::new();
    for task in &spawned {
        events.push(world.delivery(task.id).await.event);
    }
    assert_eq!(
        events,
        ["task.cancelled", "task.failed", "task.failed", "task.failed", "task.cancelled"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_by_another_process_is_delivered_at_once() {
    let world = World::new().await;
    let receiver = Receiver::start().await;
    world.secret().await;
    let worker = start_sender(&world);
    worker.until_logged("LISTEN connection works").await;
    let task = world
        .spawn_with_webhook(with_webhook(json!({"turns": 1, "then": "hang"}), receiver.url("a")))
        .await;
    until("it runs", async || world.count("select count(*) from turn").await == 1).await;
    world.store.cancel(task.id).await.unwrap();
    let data = &receiver.receive(1).await[0].json()["data"];
    assert_eq!((&data["state"], &data["partial_result"]), (&json!("cancelled"), &json!("turn 1")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uncommitted_end_is_not_delivered() {
    let world = World::new().await;
    world.spawn_with_webhook(completes("https://example.com/".to_owned())).await;
    let worker = world.worker().await;
    let claim = world.claim_one(&worker).await;
    let held = world.hold_completion(&claim.lease).await;
    held.rollback().await.unwrap();
    assert_eq!(world.count("select count(*) from webhook_delivery").await, 0);
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(world.count("select count(*) from webhook_delivery").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_takes_its_deliveries_with_it() {
    let world = World::new().await;
    let session = world
        .session_with(|new| new.webhook = Some(all_events("https://example.com/".to_owned())))
        .await;
    let spawned = world.spawn(session, 2).await;
    world.store.cancel(spawned[0].id).await.unwrap();
    assert_eq!(world.count("select count(*) from webhook_delivery").await, 1);
    world.delete(session).await;
    assert_eq!(world.count("select count(*) from webhook_delivery").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_keeps_the_webhook_of_its_task() {
    let world = World::new().await;
    let task = world.spawn_with_webhook(completes("https://example.com/".to_owned())).await;
    world.store.cancel(task.id).await.unwrap();
    let retry = world.store.retry_task("tenant", task.id, None).await.unwrap();
    let record = world.store.task("tenant", retry.id).await.unwrap();
    assert_eq!(record.webhook, Some(all_events("https://example.com/".to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_deliveries_are_deleted_after_some_days() {
    let world = World::new().await;
    let session = world
        .session_with(|new| new.webhook = Some(all_events("https://example.com/".to_owned())))
        .await;
    for task in world.spawn(session, 4).await {
        world.store.cancel(task.id).await.unwrap();
    }
    sqlx::raw_sql(
        "with numbered as (select id, row_number() over (order by id) as n from webhook_delivery)
         update webhook_delivery d
         set state = case when n <= 2 then 'delivered' else 'failed' end,
             next_try_at = null,
             delivered_at = case when n <= 2 then now() end,
             tried_at = now() - case n when 1 then 6 when 2 then 8 when 3 then 29 else 31 end * interval '1 day'
         from numbered where numbered.id = d.id",
    )
    .execute(&world.sql)
    .await
    .unwrap();
    world.store.run_maintenance().await.unwrap();
    assert_eq!(
        world.count("select count(*) from webhook_delivery where state = 'delivered'").await,
        1
    );
    assert_eq!(
        world.count("select count(*) from webhook_delivery where state = 'failed'").await,
        1
    );
}
