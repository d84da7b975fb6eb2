//! The loop that turns slots over: writes what has ended, then claims what comes next, on one connection.

use std::sync::Arc;
use std::time::Duration;

use adjutant_store::Error;
use tokio::sync::mpsc;

use crate::claim::{Claimed, claim};
use crate::end::{BATCH, end};
use crate::station::{Ended, Station, backoff};

/// Goes on for as long as something may end. The claims end when the worker drains.
pub(crate) async fn turn_over(
    station: Arc<Station>,
    claims: mpsc::UnboundedSender<Claimed>,
    mut endings: mpsc::UnboundedReceiver<Ended>,
) {
    let mut claims = Some(claims);
    let mut pauses = backoff();
    loop {
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            () = station.draining.cancelled(), if claims.is_some() => claims = None,
            some = endings.recv_many(&mut batch, BATCH) => {
                if some == 0 {
                    return;
                }
                end(&station, batch, &mut endings).await;
            }
            () = station.wake.notified() => {}
        }
        let Some(claims) = &claims else { continue };
        match claim(&station, claims).await {
            Ok(()) => pauses = backoff(),
            Err(error) => claim_later(&station, &error, pauses.next().unwrap_or_default()),
        }
    }
}

/// Not waiting for it: endings go on.
fn claim_later(station: &Arc<Station>, error: &Error, pause: Duration) {
    let again_ms = pause.as_millis();
    if error.is_passing() {
        tracing::warn!("cannot claim, trying again in {again_ms} ms: {error}");
    } else {
        tracing::error!("cannot claim, trying again in {again_ms} ms: {error}");
    }
    let station = station.clone();
    tokio::spawn(async move {
        tokio::time::sleep(pause).await;
        station.wake.notify_one();
    });
}
