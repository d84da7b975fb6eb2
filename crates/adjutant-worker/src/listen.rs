//! Listens for notifications on a connection of its own. They save waiting for the next poll;
//! everything works without them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use adjutant_agent::WorkerId;
use adjutant_store::{Listener, Notice, NotifyTarget};

use crate::lease_table::lock;
use crate::worker_state::{WorkerState, backoff};

/// The delay between two workers that claim after one notification: about the time of a claim.
const STAGGER: Duration = Duration::from_millis(4);

pub(crate) async fn run(state: Arc<WorkerState>) {
    let mut pauses = backoff();
    // Whether the connection failed while the database was there. An outage is logged elsewhere.
    let mut has_failed = false;
    loop {
        let why = listen(&state, &mut has_failed).await;
        let was_listening = state.listening.swap(false, Ordering::Relaxed);
        if was_listening {
            pauses = backoff();
            // The current pause may be long, and the last notifications may be lost.
            state.poll_now.notify_one();
            has_failed = state.store.is_available().await;
            if has_failed {
                tracing::warn!("LISTEN connection failed, polling instead: {why}");
            }
        } else {
            tracing::debug!("LISTEN connection failed: {why}");
        }
        tokio::time::sleep(pauses.next().unwrap_or_default()).await;
    }
}

/// Listens until the connection fails or its self-test does: a connection may be half open, or lead
/// through a pooler that does not forward notifications. Returns the reason.
async fn listen(state: &Arc<WorkerState>, has_failed: &mut bool) -> String {
    let settings = &state.settings;
    let url = settings.listen_url.as_ref().unwrap_or(&settings.database_url);
    let mut listener = match Listener::connect(url, state.worker.id()).await {
        Ok(listener) => listener,
        Err(error) => return error.to_string(),
    };
    let mut self_test = tokio::time::interval(settings.renew_every().max(Duration::from_secs(1)));
    self_test.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut echo_pending = false;
    loop {
        let notification = tokio::select! {
            notification = listener.next() => notification,
            _ = self_test.tick() => {
                if echo_pending {
                    return "LISTEN self-test timed out".to_owned();
                }
                echo_pending = true;
                if let Err(error) = state.worker.echo().await {
                    return error.to_string();
                }
                continue;
            }
        };
        match notification {
            Ok(Notice::Queued { target: NotifyTarget::Delayed, .. }) => state.poll_now.notify_one(),
            Ok(Notice::Queued { target, wake_seed }) => {
                if target.includes(&settings.pool) {
                    wake(state, wake_seed);
                }
            }
            Ok(Notice::LeasesLost(leases)) => state.leases.lost(&leases),
            Ok(Notice::Watched(watcher)) => state.store.record_watcher(&watcher),
            // For servers, which stream them to clients.
            Ok(Notice::Events(_) | Notice::Text(_) | Notice::Unknown) => {}
            Ok(Notice::Echo) => {
                echo_pending = false;
                if !state.listening.swap(true, Ordering::Relaxed) {
                    if std::mem::take(has_failed) {
                        tracing::info!("LISTEN connection works again");
                    }
                    tracing::debug!("LISTEN connection works");
                    // Notifications that were sent before this were not received.
                    state.poll_now.notify_one();
                }
            }
            Err(error) => return error.to_string(),
        }
    }
}

/// Wakes this worker at its place in the order of all workers, which is random but agreed, so that
/// they do not contend for one task.
fn wake(state: &Arc<WorkerState>, seed: u32) {
    let place = lock(&state.peers)
        .iter()
        .filter(|peer| rank(seed, **peer) > rank(seed, state.worker.id()))
        .count();
    if place == 0 {
        state.wake.notify_one();
        return;
    }
    let state = state.clone();
    let pause = STAGGER * u32::try_from(place).unwrap_or(u32::MAX).min(10);
    tokio::spawn(async move {
        tokio::time::sleep(pause).await;
        state.wake.notify_one();
    });
}

/// All workers compute the same ranks. `seed` is random per notification.
fn rank(seed: u32, worker: WorkerId) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, worker).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_workers_differs_between_notifications() {
        let workers: Vec<WorkerId> = (0..4).map(|_| WorkerId::new()).collect();
        let first = |seed| workers.iter().max_by_key(|worker| rank(seed, **worker));
        let different: std::collections::HashSet<_> = (0..100).map(first).collect();
        assert_eq!(different.len(), 4);
    }
}
