//! Receives notices (PostgreSQL NOTIFY) on a LISTEN connection, and announces to other processes
//! that clients watch here.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use adjutant_store::{Listener, Notice, Watcher};
use backon::{BackoffBuilder, ExponentialBuilder};

use super::{WatchRegistry, lock};

/// Receivers of an announcement trust it for a little longer than two intervals.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(2);

pub(super) async fn run(registry: Arc<WatchRegistry>) {
    let backoff = || {
        let pauses = ExponentialBuilder::default().with_min_delay(Duration::from_millis(50));
        pauses.with_max_delay(ANNOUNCE_EVERY).with_jitter().without_max_times().build()
    };
    let mut pauses = backoff();
    // Whether the connection failed while the database was there. An outage is logged elsewhere.
    let mut has_failed = false;
    loop {
        let reason = listen_until_lost(&registry, &mut has_failed).await;
        if registry.listening.swap(false, Ordering::Relaxed) {
            pauses = backoff();
            // The last notices may be lost.
            registry.request_poll_of_all();
            has_failed = registry.store.is_available().await;
            if has_failed {
                tracing::warn!("LISTEN connection failed, polling instead: {reason}");
            }
        } else {
            tracing::debug!("LISTEN connection failed: {reason}");
        }
        tokio::time::sleep(pauses.next().unwrap_or_default()).await;
    }
}

/// Returns the reason when the connection is lost, or when our own announcements do not arrive: the
/// connection may be half open, or go through a pooler that does not support LISTEN.
async fn listen_until_lost(registry: &WatchRegistry, has_failed: &mut bool) -> String {
    let mut listener = match Listener::connect_watching(&registry.listen_url).await {
        Ok(listener) => listener,
        Err(error) => return error.to_string(),
    };
    let mut tick = tokio::time::interval(ANNOUNCE_EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut awaits_echo = false;
    loop {
        let notice = tokio::select! {
            notice = listener.next() => notice,
            _ = tick.tick() => {
                if !registry.has_watches() && lock(&registry.texts).is_empty() {
                    // Without announcements there is no self-test.
                    registry.listening.store(false, Ordering::Relaxed);
                    awaits_echo = false;
                    continue;
                }
                if awaits_echo {
                    return "LISTEN self-test timed out".to_owned();
                }
                awaits_echo = true;
                if let Err(error) = announce(registry).await {
                    return error.to_string();
                }
                continue;
            }
            () = registry.watch_added.notified() => {
                tick.reset();
                awaits_echo = true;
                if let Err(error) = announce(registry).await {
                    return error.to_string();
                }
                continue;
            }
        };
        match notice {
            Ok(Notice::Events(Some(sessions))) => registry.request_poll(sessions),
            Ok(Notice::Events(None)) => registry.request_poll_of_all(),
            Ok(Notice::Text(text)) => registry.publish_text(text),
            Ok(Notice::Watched(watcher)) => {
                // This process sends notices of its own spawns and cancels to watchers elsewhere.
                registry.store.record_watcher(&watcher);
                if watcher.id == registry.id {
                    awaits_echo = false;
                    if !registry.listening.swap(true, Ordering::Relaxed) {
                        if std::mem::take(has_failed) {
                            tracing::info!("LISTEN connection works again");
                        }
                        tracing::debug!("LISTEN connection works");
                        // Earlier notices were missed.
                        registry.request_poll_of_all();
                    }
                }
            }
            Ok(Notice::Queued { .. } | Notice::LeasesLost(_) | Notice::Echo | Notice::Unknown) => {}
            Err(error) => return error.to_string(),
        }
    }
}

async fn announce(registry: &WatchRegistry) -> adjutant_store::Result<()> {
    let texts = lock(&registry.texts).keys().copied().collect();
    registry.store.announce_watcher(&Watcher { id: registry.id, texts }).await
}
