//! Tasks with webhooks, and workers that send them.

use std::process::Command;

use adjutant_agent::{SessionId, TaskId, Webhook, WebhookEvent};
use adjutant_store::{DeliveryRecord, NewTask, SecretFrom, Spawned};
use serde_json::{Value, json};

use crate::support::load::simulation;
use crate::support::worker_process::{WorkerProcess, simulate};
use crate::support::world::{World, until};

/// The tenant of the sessions that a world creates.
pub const TENANT: &str = "tenant";

/// A worker that may send to private addresses, with short pauses between tries.
pub fn sender(world: &World) -> Command {
    let mut command = simulate(world.url());
    command
        .env("ADJUTANT_WEBHOOKS_ALLOW_PRIVATE", "true")
        .env("ADJUTANT_WEBHOOKS_RETRY_S", "0.05")
        .env("ADJUTANT_WEBHOOKS_RETRY_MAX_S", "0.2");
    command
}

pub fn start_sender(world: &World) -> WorkerProcess {
    WorkerProcess::start(&mut sender(world))
}

pub fn all_events(url: String) -> Webhook {
    Webhook { url, events: WebhookEvent::ALL.to_vec() }
}

/// A simulation whose end is sent to this URL.
pub fn with_webhook(play: Value, url: String) -> NewTask {
    NewTask { webhook: Some(all_events(url)), ..simulation(play) }
}

pub fn completes(url: String) -> NewTask {
    with_webhook(json!({"turns": 1}), url)
}

impl World {
    /// A secret for the tenant of this world.
    pub async fn secret(&self) -> String {
        let overlap = std::time::Duration::from_secs(3600);
        let made =
            self.store.rotate_webhook_secret(TENANT, SecretFrom::Random, overlap).await.unwrap();
        made.1.unwrap()
    }

    pub async fn spawn_with_webhook(&self, task: NewTask) -> Spawned {
        let session = self.session().await;
        self.spawn_one(session, task).await
    }

    /// The delivery of a task that has one.
    pub async fn delivery(&self, task: TaskId) -> DeliveryRecord {
        let mut found = self.deliveries(task).await;
        assert_eq!(found.len(), 1, "{found:#?}");
        found.remove(0)
    }

    pub async fn deliveries(&self, task: TaskId) -> Vec<DeliveryRecord> {
        self.store.task(TENANT, task).await.unwrap().deliveries
    }

    /// Waits until the delivery of a task has this property.
    pub async fn until_delivery(
        &self,
        task: TaskId,
        what: &str,
        is_so: impl Fn(&DeliveryRecord) -> bool,
    ) -> DeliveryRecord {
        until(&format!("the delivery {what}"), async || {
            self.deliveries(task).await.first().is_some_and(&is_so)
        })
        .await;
        self.delivery(task).await
    }

    pub async fn until_delivered(&self, task: TaskId) -> DeliveryRecord {
        self.until_delivery(task, "is made", |delivery| delivery.state == "delivered").await
    }

    /// Ends the pause before the next try of a delivery, and the lease of its sender.
    pub async fn make_due(&self, task: TaskId) {
        sqlx::query(
            "update webhook_delivery set next_try_at = now() where task = $1 and state = 'pending'",
        )
        .bind(task.0)
        .execute(&self.sql)
        .await
        .unwrap();
    }

    pub async fn name_of(&self, session: SessionId) -> String {
        sqlx::query_scalar("select name from session where id = $1")
            .bind(session.0)
            .fetch_one(&self.sql)
            .await
            .unwrap()
    }
}
