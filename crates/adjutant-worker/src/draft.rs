//! Keeps in the database what models have said of answers that take long, for whoever cancels their tasks. Nothing waits for
//! it, and a draft that could not be kept is made again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use adjutant_agent::LeaseId;
use adjutant_store::{Draft, Error, Store};
use tokio::sync::OnceCell;

use crate::station::Station;

/// How often it is looked what has been said.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The longest that a call may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Drafts in one call: as long as it takes, none of their tasks can store anything.
const BATCH: usize = 100;

pub(crate) async fn draft(station: Arc<Station>) {
    let line = OnceCell::new();
    let mut tick = tokio::time::interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut gone = Vec::new();
    loop {
        tick.tick().await;
        let (mut drafts, done_with) = station.held.drafts(Instant::now());
        gone.extend(done_with);
        while !drafts.is_empty() || !gone.is_empty() {
            let rest = drafts.split_off(drafts.len().min(BATCH));
            match keep(&station, &line, drafts, &gone).await {
                Ok(()) => gone.clear(),
                Err(error) => {
                    tracing::warn!("cannot keep what models have said so far: {error}");
                    break;
                }
            }
            drafts = rest;
        }
    }
}

/// Over a connection of its own, which most workers never need.
async fn keep(
    station: &Station,
    line: &OnceCell<Store>,
    drafts: Vec<Draft>,
    gone: &[LeaseId],
) -> Result<(), Error> {
    let line = line.get_or_try_init(|| Store::open_line(&station.settings.database_url, PATIENCE)).await?;
    station.worker.over(line).draft(drafts, gone).await
}
