//! Stores drafts of answers that take long, so that a cancelled task keeps the text that its model
//! has produced so far. Nothing waits for a draft, and one that could not be stored is stored
//! again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use adjutant_agent::LeaseId;
use adjutant_store::{Draft, Error, Store, warn_unless_outage};
use tokio::sync::OnceCell;

use crate::worker_state::WorkerState;

const CHECK_EVERY: Duration = Duration::from_millis(500);

const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Drafts per call. The call locks their tasks' slots, so their checkpoints wait for it.
const BATCH: usize = 100;

pub(crate) async fn run(state: Arc<WorkerState>) {
    let connection = OnceCell::new();
    let mut tick = tokio::time::interval(CHECK_EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut obsolete = Vec::new();
    loop {
        tick.tick().await;
        let (mut drafts, newly_obsolete) = state.leases.drafts(Instant::now());
        obsolete.extend(newly_obsolete);
        while !drafts.is_empty() || !obsolete.is_empty() {
            let rest = drafts.split_off(drafts.len().min(BATCH));
            match store(&state, &connection, drafts, &obsolete).await {
                Ok(()) => obsolete.clear(),
                Err(error) => {
                    warn_unless_outage!(error, "storing drafts of answers failed: {error}");
                    break;
                }
            }
            drafts = rest;
        }
    }
}

/// Uses a connection of its own, opened when the first answer takes long: most workers never need
/// it.
async fn store(
    state: &WorkerState,
    connection: &OnceCell<Store>,
    drafts: Vec<Draft>,
    obsolete: &[LeaseId],
) -> Result<(), Error> {
    let connection = connection
        .get_or_try_init(|| Store::open_without_ping(&state.settings.database_url, CALL_TIMEOUT))
        .await?;
    state.worker.with_store(connection).save_drafts(drafts, obsolete).await
}
