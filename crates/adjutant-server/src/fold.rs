//! Folds counted usage into its sums while no worker does. Without it, checks of a tenant's limits
//! would read everything that was counted since the last worker stopped.

use std::time::Duration;

use adjutant_store::{Store, warn_unless_outage};

use crate::ToolService;

const INTERVAL: Duration = Duration::from_secs(5);

/// Workers fold every few seconds. What is older than this, they do not fold.
const STALE: Duration = Duration::from_secs(30);

/// Never returns. A server without calls makes no queries for it.
pub(crate) async fn run(service: &ToolService) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        if !service.take_called() {
            continue;
        }
        match fold_stale(&service.store).await {
            Ok(true) => {}
            Ok(false) => service.mark_called(),
            Err(error) => {
                service.mark_called();
                warn_unless_outage!(error, "fold of usage into its sums failed: {error}");
            }
        }
    }
}

/// Whether nothing is left to fold.
async fn fold_stale(store: &Store) -> adjutant_store::Result<bool> {
    match store.unfolded_usage(STALE).await? {
        None => Ok(true),
        Some(false) => Ok(false),
        Some(true) => store.fold_usage().await.map(|()| true),
    }
}
