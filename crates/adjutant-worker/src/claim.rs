//! Claims what this worker can run now, whenever there may be something.

use std::sync::Arc;
use std::time::Instant;

use adjutant_store::{Claim, Error};
use tokio::sync::mpsc;

use crate::fault;
use crate::held::Hold;
use crate::station::{Station, backoff};

/// A claimed task on its way to its handler.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) claim: Claim,
    pub(crate) hold: Arc<Hold>,
}

/// Ends when the worker drains; then whoever receives the claims has the last of them.
pub(crate) async fn claim_until_draining(station: Arc<Station>, claims: mpsc::UnboundedSender<Claimed>) {
    let mut pauses = backoff();
    loop {
        tokio::select! {
            biased;
            () = station.draining.cancelled() => return,
            () = station.wake.notified() => {}
        }
        match claim(&station, &claims).await {
            Ok(()) => pauses = backoff(),
            Err(error) => {
                let pause = pauses.next().unwrap_or_default();
                log(&error, pause);
                tokio::select! {
                    () = station.draining.cancelled() => return,
                    () = tokio::time::sleep(pause) => station.wake.notify_one(),
                }
            }
        }
    }
}

async fn claim(station: &Station, claims: &mpsc::UnboundedSender<Claimed>) -> Result<(), Error> {
    let want = station.held.free();
    if want == 0 {
        return Ok(());
    }
    let _known = station.claiming.lock().await;
    let asked_at = Instant::now();
    let found = station.worker.claim(want).await?;
    if !found.is_empty() {
        fault::point("claimed");
    }
    for claim in found {
        let hold = station.held.add(claim.lease.task(), claim.lease.id(), asked_at);
        // The other end goes away only with the process; then the lease runs out.
        let _ = claims.send(Claimed { claim, hold });
    }
    Ok(())
}

fn log(error: &Error, pause: std::time::Duration) {
    let again_ms = pause.as_millis();
    if error.is_passing() {
        tracing::warn!("cannot claim, trying again in {again_ms} ms: {error}");
    } else {
        tracing::error!("cannot claim, trying again in {again_ms} ms: {error}");
    }
}
