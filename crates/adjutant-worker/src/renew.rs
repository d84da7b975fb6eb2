//! Renews all leases in one statement, on a connection that nothing else uses.

use std::sync::Arc;
use std::time::Instant;

use adjutant_store::{Store, warn_unless_outage};

use crate::fault;
use crate::worker_state::WorkerState;

pub(crate) async fn run(state: Arc<WorkerState>, connection: Store) {
    let worker = state.worker.with_store(&connection);
    let mut tick = tokio::time::interval(state.settings.renew_every());
    // After the process was paused, renew at once and then at the usual interval.
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        fault::point("renewing");
        let requested_at = Instant::now();
        match worker.renew(&state.leases.ids()).await {
            Ok(renewal) => {
                state.leases.renewed(&renewal.renewed, requested_at);
                state.leases.lost(&renewal.lost);
            }
            Err(error) => warn_unless_outage!(error, "lease renewal failed: {error}"),
        }
    }
}
