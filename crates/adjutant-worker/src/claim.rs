//! What was claimed, on its way to its handler.

use std::sync::Arc;
use std::time::Instant;

use adjutant_store::Claim;
use tokio::sync::mpsc;

use crate::fault;
use crate::held::Hold;
use crate::station::Station;

#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) claim: Claim,
    pub(crate) hold: Arc<Hold>,
}

/// Takes note of the leases, and hands the tasks on.
pub(crate) fn hand_on(
    station: &Station,
    found: Vec<Claim>,
    asked_at: Instant,
    claims: &mpsc::UnboundedSender<Claimed>,
) {
    if found.is_empty() {
        return;
    }
    fault::point("claimed");
    for claim in found {
        let hold = station.held.add(claim.lease.begun(), asked_at);
        // The other end goes away only with the process; then the lease runs out.
        let _ = claims.send(Claimed { claim, hold });
    }
    station.claimed.notify_one();
}
