//! Delivers webhooks when tasks end. A delivery is a row. Each worker claims some that are due,
//! sends them and stores the result. If the worker dies meanwhile, another worker sends the
//! delivery again when its lease has expired: delivery is at least once, always with the same id.

mod payload;
mod post;
mod sign;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{DeliveryDecision, NetworkPolicy, RetryPolicy};
use adjutant_store::{Delivery, Error, warn_unless_outage};
use rand::RngExt;
use tokio::task::JoinSet;

use crate::fault;
use crate::worker_state::{WorkerState, backoff};
use post::WebhookSender;

/// The most concurrent deliveries of a worker.
const MAX_CONCURRENT: usize = 32;

/// The most concurrent deliveries to one URL, so that a slow receiver does not block the others.
const MAX_PER_URL: usize = 4;

/// How much longer the lease of a delivery lasts than one attempt may take.
const GRACE: Duration = Duration::from_secs(10);

/// The settings of webhook deliveries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WebhookSettings {
    /// The addresses that receivers may have.
    pub network: NetworkPolicy,
    /// Of one attempt.
    pub timeout: Duration,
    pub retries: RetryPolicy,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            network: NetworkPolicy::Public,
            timeout: Duration::from_secs(15),
            retries: RetryPolicy::default(),
        }
    }
}

/// Runs until the worker drains, and then finishes the deliveries under way.
pub(crate) async fn deliver(state: Arc<WorkerState>) {
    let sender = match WebhookSender::new(state.settings.webhooks) {
        Ok(sender) => Arc::new(sender),
        Err(error) => {
            tracing::error!(
                "webhooks are disabled on this worker, its HTTP client failed: {error}"
            );
            return state.draining.cancelled().await;
        }
    };
    let mut deliveries = Deliveries::default();
    let mut is_due = false;
    loop {
        while is_due {
            is_due = deliveries.start(&state, &sender).await;
        }
        tokio::select! {
            () = state.draining.cancelled() => break,
            () = state.store.deliveries_due() => is_due = true,
            Some(sent) = deliveries.sending.join_next_with_id() => {
                deliveries.ended(&sent.map_or_else(|error| error.id(), |(id, ())| id));
                is_due |= deliveries.has_more;
            }
        }
    }
    while deliveries.sending.join_next().await.is_some() {}
}

/// The deliveries under way.
#[derive(Default)]
struct Deliveries {
    sending: JoinSet<()>,
    urls: HashMap<tokio::task::Id, String>,
    /// There may be due deliveries that were not claimed because the limits were reached.
    has_more: bool,
}

impl Deliveries {
    /// Claims and starts deliveries within the limits. Returns whether to claim again at once.
    async fn start(&mut self, state: &Arc<WorkerState>, sender: &Arc<WebhookSender>) -> bool {
        let room = MAX_CONCURRENT.saturating_sub(self.sending.len()).min(MAX_PER_URL);
        let busy = self.busy_urls();
        self.has_more = room == 0 || !busy.is_empty();
        let Some(limit) = i32::try_from(room).ok().filter(|room| *room > 0) else { return false };
        let lease = state.settings.webhooks.timeout + GRACE;
        match state.store.claim_deliveries(limit, &busy, lease).await {
            Ok(claimed) => {
                let is_full = claimed.len() == room;
                for delivery in claimed {
                    let url = delivery.url.clone();
                    let id = self.sending.spawn(send(state.clone(), sender.clone(), delivery)).id();
                    self.urls.insert(id, url);
                }
                is_full
            }
            Err(error) => {
                // The next poll finds them.
                warn_unless_outage!(error, "claiming webhook deliveries failed: {error}");
                false
            }
        }
    }

    fn busy_urls(&self) -> Vec<String> {
        let mut counts: HashMap<&String, usize> = HashMap::new();
        for url in self.urls.values() {
            *counts.entry(url).or_default() += 1;
        }
        counts
            .into_iter()
            .filter(|(_, count)| *count >= MAX_PER_URL)
            .map(|(url, _)| url.clone())
            .collect()
    }

    fn ended(&mut self, id: &tokio::task::Id) {
        self.urls.remove(id);
    }
}

/// One attempt of a delivery, and its result. Neither the URL nor the payload is logged.
async fn send(state: Arc<WorkerState>, sender: Arc<WebhookSender>, delivery: Delivery) {
    fault::point("before_post");
    let (answered, seen) = sender.post(&delivery).await;
    fault::point("after_post");
    let jitter = rand::rng().random_range(0.0..=1.0);
    let verdict = sender.settings.retries.decide(delivery.tries, answered, jitter);
    let (id, task, tries) = (delivery.id, delivery.task.id, delivery.tries);
    macro_rules! log {
        ($level:ident) => {
            tracing::$level!(
                delivery.id = %id, task.id = %task, delivery.tries = tries, http.status = seen.status,
                "webhook delivery for task {task}, attempt {tries}: {verdict:?}"
            )
        };
    }
    if verdict == DeliveryDecision::Delivered {
        log!(debug)
    } else {
        log!(warn)
    }
    for pause in backoff().take(10) {
        match state.store.settle_delivery(&delivery, verdict, &seen).await {
            Ok(_) => {
                if let DeliveryDecision::Retry(_) = verdict {
                    // The retry may be due before the next poll.
                    state.poll_now.notify_one();
                }
                return;
            }
            Err(error @ Error::Unavailable(_)) => {
                tracing::debug!(delivery.id = %id, "storing the result of delivery {id} failed: {error}");
                tokio::time::sleep(pause).await;
            }
            Err(error) => {
                tracing::error!(delivery.id = %id, "storing the result of delivery {id} failed: {error}");
                return;
            }
        }
    }
}
