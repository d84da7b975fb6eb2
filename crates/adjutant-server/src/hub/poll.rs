//! One query for all watches: which of the watched sessions have newer events.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use adjutant_agent::SessionId;
use rand::RngExt;
use tokio::time::Instant;

use super::{WatchRegistry, lock};

/// At most one query in this time.
const MIN_INTERVAL: Duration = Duration::from_millis(20);

pub(super) async fn run(registry: Arc<WatchRegistry>) {
    let mut polled_at = Instant::now();
    let mut poll_all_at = polled_at + interval(&registry);
    loop {
        tokio::select! {
            () = registry.poll_requested.notified() => {}
            () = tokio::time::sleep_until(poll_all_at), if registry.has_watches() => {
                lock(&registry.poll_request).all = true;
            }
        }
        tokio::time::sleep_until(polled_at + MIN_INTERVAL).await;
        let request = std::mem::take(&mut *lock(&registry.poll_request));
        if request.all {
            poll_all_at = Instant::now() + interval(&registry);
        }
        let known =
            newest_known(&registry, |session| request.all || request.sessions.contains(session));
        if known.is_empty() {
            continue;
        }
        match registry.store.newest_events(&known).await {
            Ok(newest) => publish(&registry, &newest),
            Err(error) => {
                adjutant_store::warn_unless_outage!(
                    error,
                    "poll failed: cannot read new events: {error}"
                );
                poll_all_at = Instant::now() + short_interval();
                lock(&registry.poll_request).all = true;
            }
        }
        polled_at = Instant::now();
    }
}

fn newest_known(
    registry: &WatchRegistry,
    is_requested: impl Fn(&SessionId) -> bool,
) -> Vec<(SessionId, i64)> {
    let sessions = lock(&registry.sessions);
    let requested = sessions.iter().filter(|(session, _)| is_requested(session));
    // -1 is less than any number: a session that was never polled always has a newer event.
    requested.map(|(session, watched)| (*session, watched.newest.borrow().unwrap_or(-1))).collect()
}

fn publish(registry: &WatchRegistry, newest: &[(SessionId, i64)]) {
    let sessions = lock(&registry.sessions);
    for (session, number) in newest {
        if let Some(watched) = sessions.get(session) {
            watched.newest.send_replace(Some(*number));
        }
    }
}

fn interval(registry: &WatchRegistry) -> Duration {
    if registry.listening.load(Ordering::Relaxed) { short_interval() * 8 } else { short_interval() }
}

/// Random, so that servers that started together do not poll together.
fn short_interval() -> Duration {
    Duration::from_millis(rand::rng().random_range(500..=1000))
}
