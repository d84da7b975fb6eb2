//! Fails tasks that have waited too long for tools which no living worker of their pool has. Any
//! worker of the pool does it, in batches; the rows say since when the tools are missing.

use std::time::{Duration, Instant};

use adjutant_store::{Error, LACKING_BATCH, warn_unless_outage};

use crate::subagent_events;
use crate::worker_state::WorkerState;

/// The longest pause between two searches for such tasks.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// When this worker searched last.
#[derive(Debug, Default)]
pub(crate) struct ToolPatience(Option<Instant>);

impl ToolPatience {
    /// Called after each poll.
    pub(crate) async fn enforce(&mut self, state: &WorkerState, lacks_tools: bool) {
        let pause = LONGEST_PAUSE.min(state.settings.tool_patience / 10);
        let is_due = self.0.is_none_or(|last| last.elapsed() >= pause);
        if !lacks_tools || !is_due || state.draining.is_cancelled() {
            return;
        }
        self.0 = Some(Instant::now());
        if let Err(error) = fail_without_tools(state).await {
            warn_unless_outage!(error, "search for tasks whose tools are missing failed: {error}");
        }
    }
}

async fn fail_without_tools(state: &WorkerState) -> Result<(), Error> {
    let patience = state.settings.tool_patience;
    loop {
        let failed = state.worker.fail_without_tools(patience).await?;
        for task in &failed {
            tracing::warn!(
                task.id = %task,
                failure = "tool",
                "task {task} failed: for {} s no worker of the pool {} had its tools",
                patience.as_secs(),
                state.settings.pool
            );
        }
        if failed.is_empty() {
            return Ok(());
        }
        subagent_events::log_ends(&state.store, &failed).await;
        if failed.len() < LACKING_BATCH {
            return Ok(());
        }
    }
}
