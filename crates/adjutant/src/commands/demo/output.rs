//! The output of the demo, and the highest number of slots in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use adjutant_store::Store;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::output::print_line;

/// Prints lines, above a progress bar if there is a terminal.
#[derive(Clone)]
pub struct DemoOutput {
    progress: ProgressBar,
    verbosity: Verbosity,
}

/// How much is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    Story,
    /// Only the result at the end.
    Quiet,
}

impl DemoOutput {
    pub fn new(verbosity: Verbosity, tasks: u64) -> anyhow::Result<Self> {
        let progress = match verbosity {
            Verbosity::Story => ProgressBar::new(tasks),
            Verbosity::Quiet => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} tasks collected  {msg}")?;
        progress.set_style(style.progress_chars("=> "));
        Ok(Self { progress, verbosity })
    }

    pub fn line(&self, line: &str) -> anyhow::Result<()> {
        match self.verbosity {
            Verbosity::Story => self.progress.suspend(|| print_line(line)),
            Verbosity::Quiet => Ok(()),
        }
    }

    /// Prints a line of one actor.
    pub fn say(&self, who: &str, what: &str) -> anyhow::Result<()> {
        self.line(&format!("{who:<13} {what}"))
    }

    pub fn task_collected(&self) {
        self.progress.inc(1);
    }

    pub fn clear(&self) {
        self.progress.finish_and_clear();
    }
}

/// Polls the slots and records the highest number in use.
pub struct SlotMonitor {
    stop: CancellationToken,
    monitoring: AbortOnDropHandle<adjutant_store::Result<()>>,
    most: Arc<AtomicI64>,
}

impl SlotMonitor {
    pub fn start(store: Store, output: DemoOutput) -> Self {
        let (stop, most) = (CancellationToken::new(), Arc::new(AtomicI64::new(0)));
        let monitoring = tokio::spawn(monitor_slots(store, output, most.clone(), stop.clone()));
        Self { stop, monitoring: AbortOnDropHandle::new(monitoring), most }
    }

    /// The highest number of slots that were in use at once.
    pub async fn finish(self) -> anyhow::Result<i64> {
        self.stop.cancel();
        self.monitoring
            .await
            .context("the slot monitor failed")?
            .context("the slot monitor failed")?;
        Ok(self.most.load(Ordering::SeqCst))
    }
}

async fn monitor_slots(
    store: Store,
    output: DemoOutput,
    most: Arc<AtomicI64>,
    stop: CancellationToken,
) -> adjutant_store::Result<()> {
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    while stop.run_until_cancelled(tick.tick()).await.is_some() {
        let slots = store.slots().await?;
        most.fetch_max(slots.used, Ordering::SeqCst);
        output.progress.set_message(format!("{} of {} slots in use", slots.used, slots.cap));
    }
    Ok(())
}
