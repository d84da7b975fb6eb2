//! Writes the start events of tasks. A claim writes none, so that it is fast, and the end event of
//! a short task implies its start. Only tasks that still run after a moment get a start event, many
//! in one call.

use std::sync::Arc;
use std::time::Duration;

use crate::worker_state::WorkerState;

/// A task that runs for longer than this gets a start event.
const MIN_AGE: Duration = Duration::from_millis(100);

pub(crate) async fn run(state: Arc<WorkerState>) {
    loop {
        state.claimed.notified().await;
        while state.leases.has_unannounced() {
            tokio::time::sleep(MIN_AGE).await;
            let begun = state.leases.unannounced(MIN_AGE);
            if begun.is_empty() {
                continue;
            }
            match state.start_events.record_starts(&begun).await {
                Ok(announced) => state.leases.announced(&announced),
                // The next round tries again, or the task's next event implies its start.
                Err(error) => tracing::debug!("writing start events failed: {error}"),
            }
        }
    }
}
