//! Claims what this worker can run now.

use std::sync::Arc;
use std::time::Instant;

use adjutant_store::{Claim, Error};
use tokio::sync::mpsc;

use crate::fault;
use crate::held::Hold;
use crate::station::Station;

/// A claimed task on its way to its handler.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) claim: Claim,
    pub(crate) hold: Arc<Hold>,
}

/// Takes as many tasks as this worker can run now, if there are so many.
pub(crate) async fn claim(station: &Station, claims: &mpsc::UnboundedSender<Claimed>) -> Result<(), Error> {
    let want = station.held.free();
    if want == 0 {
        return Ok(());
    }
    let _known = station.claiming.lock().await;
    let asked_at = Instant::now();
    let found = station.worker.over(&station.line).claim(want).await?;
    if !found.is_empty() {
        fault::point("claimed");
    }
    for claim in found {
        let hold = station.held.add(claim.lease.id(), claim.lease.slot(), claim.lease.task(), asked_at);
        // The other end goes away only with the process; then the lease runs out.
        let _ = claims.send(Claimed { claim, hold });
    }
    Ok(())
}
