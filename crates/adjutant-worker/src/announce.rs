//! Tells of tasks that have started. A claim says nothing, so that it is quick, and what ends at once is told of by its end;
//! only what still runs a while later is told of by itself, many at a time.

use std::sync::Arc;
use std::time::Duration;

use crate::station::Station;

/// What runs for longer has a start of its own to tell.
const WHILE: Duration = Duration::from_millis(100);

pub(crate) async fn announce(station: Arc<Station>) {
    loop {
        station.claimed.notified().await;
        while station.held.has_unannounced() {
            tokio::time::sleep(WHILE).await;
            let begun = station.held.unannounced(WHILE);
            if begun.is_empty() {
                continue;
            }
            match station.announcer.started(&begun).await {
                Ok(told) => station.held.announced(&told),
                // Its next event tells it, or the next round.
                Err(error) => tracing::debug!("cannot tell of tasks that have started: {error}"),
            }
        }
    }
}
