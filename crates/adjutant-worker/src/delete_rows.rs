//! Deletes the rows of deleted sessions, a small batch at a time. Between two batches it pauses for
//! as long as the last one took, so that deletions use at most half of one connection of the
//! fleet: only one process deletes at a time, and any other continues where it stopped.

use std::sync::Arc;
use std::time::Instant;

use crate::fault;
use crate::worker_state::WorkerState;

pub(crate) async fn run(state: Arc<WorkerState>) {
    loop {
        state.deletes.notified().await;
        delete(&state).await;
    }
}

/// Deletes until nothing is left, another process deletes, or the worker drains.
async fn delete(state: &WorkerState) {
    while !state.draining.is_cancelled() {
        let started = Instant::now();
        match state.store.delete_batch().await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                // The next poll starts it again.
                adjutant_store::warn_unless_outage!(
                    error,
                    "deletion of rows of deleted sessions failed: {error}"
                );
                return;
            }
        }
        fault::point("deleted_batch");
        tokio::time::sleep(started.elapsed()).await;
    }
}
