use adjutant_agent::TaskId;
use adjutant_store::{Store, warn_unless_outage};

use crate::{Context, Dialect, Result};

/// Logs the ends of the given tasks, as far as their dialects log ends. On an error nothing is
/// logged, so that the caller can retry. Only the process that stored an end calls this, so each
/// end is logged at most once.
pub async fn log_ends(store: &Store, tasks: &[TaskId]) -> Result<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    let mut logs = Vec::new();
    for end in store.logged_ends(tasks).await? {
        let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == end.dialect);
        if let Some(dialect) = dialect {
            logs.push(dialect.end_log(store, &end).await?);
        }
    }
    logs.iter().for_each(|log| log());
    Ok(())
}

impl Context<'_> {
    /// Logs the ends of tasks that this process has cancelled. Workers log the ends that they
    /// store.
    pub async fn log_cancelled(&self, tasks: &[TaskId]) {
        if let Err(error) = log_ends(self.store, tasks).await {
            warn_unless_outage!(error, "logging the ends of cancelled tasks failed: {error}");
        }
    }
}
