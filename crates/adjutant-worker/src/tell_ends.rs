//! Tells of subagents whose ends this worker has stored. Whoever stores an end tells of it, and nobody else: so it is told once,
//! and not at all if the worker dies before it has.

use adjutant_agent::TaskId;
use adjutant_store::{EndedSubagent, Store};

use crate::Task;
use crate::station::backoff;

/// How often it is tried, over about a quarter of a minute: the ends themselves are stored.
const TRIES: usize = 12;

/// Whether there may be anything to tell of a task.
pub(crate) fn is_told(task: &Task) -> bool {
    task.assignment().config.get("telemetry").is_some()
}

pub(crate) async fn tell_ends(store: &Store, tasks: &[TaskId]) {
    for pause in backoff().take(TRIES) {
        match store.ended_subagents(tasks).await {
            Ok(ended) => return ended.iter().for_each(EndedSubagent::tell),
            Err(error) if error.is_passing() => tokio::time::sleep(pause).await,
            Err(error) => return tracing::warn!("cannot tell of subagents that have ended: {error}"),
        }
    }
    tracing::warn!("cannot tell of subagents that have ended: the database is away");
}
