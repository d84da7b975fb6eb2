//! Tells webhooks how tasks ended. Deliveries are rows; each worker takes some that are due, sends them, and writes down what
//! came of it. One whose worker dies meanwhile is sent again by another when its lease has run out: a receiver may get it
//! twice, with the same id, and never not at all.

mod payload;
mod post;
mod sign;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{Reach, RetryRules, Verdict};
use adjutant_store::{Delivery, Error};
use rand::RngExt;
use tokio::task::JoinSet;

use crate::fault;
use crate::station::{Station, backoff};
use post::Postman;

/// The most that a worker sends at once.
const AT_ONCE: usize = 32;

/// And to one URL, about: a receiver that does not answer leaves room for the others.
const TO_ONE: usize = 4;

/// How long after its try should be over a delivery is another's to send.
const GRACE: Duration = Duration::from_secs(10);

/// How deliveries are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WebhookSettings {
    pub reach: Reach,
    /// For a whole try.
    pub timeout: Duration,
    pub retries: RetryRules,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self { reach: Reach::Public, timeout: Duration::from_secs(15), retries: RetryRules::default() }
    }
}

/// Goes on until the worker drains; then it finishes what it has begun.
pub(crate) async fn deliver(station: Arc<Station>) {
    let postman = match Postman::new(station.settings.webhooks) {
        Ok(postman) => Arc::new(postman),
        Err(error) => {
            tracing::error!("no webhook can be told anything by this worker: {error}");
            return station.draining.cancelled().await;
        }
    };
    let mut round = Round::default();
    let mut is_due = false;
    loop {
        while is_due {
            is_due = round.begin(&station, &postman).await;
        }
        tokio::select! {
            () = station.draining.cancelled() => break,
            () = station.store.deliveries_are_due() => is_due = true,
            Some(sent) = round.sending.join_next_with_id() => {
                round.ended(&sent.map_or_else(|error| error.id(), |(id, ())| id));
                is_due |= round.has_more;
            }
        }
    }
    while round.sending.join_next().await.is_some() {}
}

/// What is under way.
#[derive(Default)]
struct Round {
    sending: JoinSet<()>,
    urls: HashMap<tokio::task::Id, String>,
    /// There may be deliveries that are due and were not taken for want of room.
    has_more: bool,
}

impl Round {
    /// Takes what there is room for; whether to ask again at once.
    async fn begin(&mut self, station: &Arc<Station>, postman: &Arc<Postman>) -> bool {
        let room = AT_ONCE.saturating_sub(self.sending.len()).min(TO_ONE);
        let busy = self.busy();
        self.has_more = room == 0 || !busy.is_empty();
        let Some(limit) = i32::try_from(room).ok().filter(|room| *room > 0) else { return false };
        let lease = station.settings.webhooks.timeout + GRACE;
        match station.store.claim_deliveries(limit, &busy, lease).await {
            Ok(claimed) => {
                let is_full = claimed.len() == room;
                for delivery in claimed {
                    let url = delivery.url.clone();
                    let id = self.sending.spawn(send(station.clone(), postman.clone(), delivery)).id();
                    self.urls.insert(id, url);
                }
                is_full
            }
            Err(error) => {
                // The next look finds them.
                tracing::warn!("cannot look for webhooks to be told: {error}");
                false
            }
        }
    }

    fn busy(&self) -> Vec<String> {
        let mut counts: HashMap<&String, usize> = HashMap::new();
        for url in self.urls.values() {
            *counts.entry(url).or_default() += 1;
        }
        counts.into_iter().filter(|(_, count)| *count >= TO_ONE).map(|(url, _)| url.clone()).collect()
    }

    fn ended(&mut self, id: &tokio::task::Id) {
        self.urls.remove(id);
    }
}

/// One try, and what came of it. Neither the URL nor what is sent is logged.
async fn send(station: Arc<Station>, postman: Arc<Postman>, delivery: Delivery) {
    fault::point("before_post");
    let (answered, seen) = postman.post(&delivery).await;
    fault::point("after_post");
    let lot = rand::rng().random_range(0.0..=1.0);
    let verdict = postman.settings.retries.verdict(delivery.tries, answered, lot);
    let (id, task, tries) = (delivery.id, delivery.task.id, delivery.tries);
    tracing::info!(
        delivery.id = %id, task.id = %task, delivery.tries = tries, http.status = seen.status,
        "the end of task {task} was told to its webhook, try {tries}: {verdict:?}"
    );
    for pause in backoff().take(10) {
        match station.store.settle_delivery(&delivery, verdict, &seen).await {
            Ok(_) => {
                if let Verdict::Again(_) = verdict {
                    // Its time may come before the next look.
                    station.look.notify_one();
                }
                return;
            }
            Err(error @ Error::Unavailable(_)) => {
                tracing::debug!(delivery.id = %id, "cannot write down what came of delivery {id}: {error}");
                tokio::time::sleep(pause).await;
            }
            Err(error) => {
                tracing::error!(delivery.id = %id, "cannot write down what came of delivery {id}: {error}");
                return;
            }
        }
    }
}
