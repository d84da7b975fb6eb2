//! Keeps the leases: all of them in one statement, on a connection that nothing else uses.

use std::sync::Arc;
use std::time::Instant;

use adjutant_store::Store;

use crate::fault;
use crate::station::Station;

pub(crate) async fn renew(station: Arc<Station>, connection: Store) {
    let worker = station.worker.over(&connection);
    let mut tick = tokio::time::interval(station.settings.renew_every());
    // After a pause of the process: at once, and then in the usual time.
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        fault::point("renewing");
        let asked_at = Instant::now();
        match worker.renew(&station.held.leases()).await {
            Ok(renewal) => {
                station.held.renewed(&renewal.renewed, asked_at);
                station.held.lost(&renewal.lost);
            }
            Err(error) => tracing::warn!("cannot renew the leases: {error}"),
        }
    }
}
