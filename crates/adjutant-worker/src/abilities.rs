//! Publishes what this worker can run, whenever it changes: claims go by it.

use std::sync::Arc;

use adjutant_store::{Abilities, warn_unless_outage};

use crate::Handler;
use crate::worker_state::{WorkerState, backoff};

/// `published` are those that the worker was registered with. Never returns.
pub(crate) async fn publish<H: Handler>(
    state: Arc<WorkerState>,
    handler: Arc<H>,
    mut published: Abilities,
) {
    loop {
        handler.abilities_changed(&published).await;
        for pause in backoff() {
            let now = handler.abilities();
            match state.start_events.set_abilities(&now).await {
                Ok(()) => {
                    published = now;
                    break;
                }
                Err(error) => {
                    warn_unless_outage!(
                        error,
                        "publishing of models and tools failed, retrying: {error}"
                    );
                    tokio::time::sleep(pause).await;
                }
            }
        }
        // Tasks may have waited for a tool that is there now.
        state.wake.notify_one();
    }
}
