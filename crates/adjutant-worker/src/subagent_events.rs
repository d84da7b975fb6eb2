//! Logs the end of subagents that log telemetry events. The process that stores an end logs it, so
//! an end is logged at most once, and not at all if the worker dies in between.

use adjutant_agent::TaskId;
use adjutant_dialects::log_ends as log_stored_ends;
use adjutant_store::{Store, warn_unless_outage};

use crate::Task;
use crate::worker_state::backoff;

/// Attempts to read the ended subagents, over about 15 seconds. The ends themselves are stored.
const ATTEMPTS: usize = 12;

/// Whether the end of this task is logged.
pub(crate) fn has_telemetry(task: &Task) -> bool {
    task.assignment().config.get("telemetry").is_some()
}

pub(crate) async fn log_ends(store: &Store, tasks: &[TaskId]) {
    for pause in backoff().take(ATTEMPTS) {
        match log_stored_ends(store, tasks).await {
            Ok(()) => return,
            Err(error) if error.is_transient() => tokio::time::sleep(pause).await,
            Err(error) => {
                return warn_unless_outage!(error, "reading ended subagents failed: {error}");
            }
        }
    }
    tracing::warn!("reading ended subagents failed: the database is unavailable");
}
