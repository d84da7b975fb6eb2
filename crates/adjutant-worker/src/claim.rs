//! Hands claimed tasks to the backend, which runs them.

use std::sync::Arc;
use std::time::Instant;

use adjutant_store::Claim;
use tokio::sync::mpsc;

use crate::fault;
use crate::lease_table::HeldLease;
use crate::worker_state::WorkerState;

/// A claimed task and its entry in the lease table.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) claim: Claim,
    pub(crate) held: Arc<HeldLease>,
}

/// Adds the leases to the table and sends the tasks to the backend.
pub(crate) fn hand_over(
    state: &WorkerState,
    found: Vec<Claim>,
    requested_at: Instant,
    claims: &mpsc::UnboundedSender<Claimed>,
) {
    if found.is_empty() {
        return;
    }
    fault::point("claimed");
    for claim in found {
        let held = state.leases.add(claim.lease.started_attempt(), requested_at);
        // The receiver is dropped only when the process ends; then the lease expires.
        let _ = claims.send(Claimed { claim, held });
    }
    state.claimed.notify_one();
}
