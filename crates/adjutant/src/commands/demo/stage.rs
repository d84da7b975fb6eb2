//! What is seen of the story while it is told, and what is counted meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use adjutant_store::Store;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::output::print_line;

/// Where lines are printed, above a bar if there is a terminal.
#[derive(Clone)]
pub struct Stage {
    progress: ProgressBar,
    shown: Shown,
}

/// How much of the story is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    Everything,
    /// Only what comes at the end.
    Nothing,
}

impl Stage {
    pub fn new(shown: Shown, tasks: u64) -> anyhow::Result<Self> {
        let progress = match shown {
            Shown::Everything => ProgressBar::new(tasks),
            Shown::Nothing => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} tasks collected  {msg}")?;
        progress.set_style(style.progress_chars("=> "));
        Ok(Self { progress, shown })
    }

    pub fn line(&self, line: &str) -> anyhow::Result<()> {
        match self.shown {
            Shown::Everything => self.progress.suspend(|| print_line(line)),
            Shown::Nothing => Ok(()),
        }
    }

    /// Somebody says or does something.
    pub fn say(&self, who: &str, what: &str) -> anyhow::Result<()> {
        self.line(&format!("{who:<13} {what}"))
    }

    pub fn one_more_collected(&self) {
        self.progress.inc(1);
    }

    pub fn clear(&self) {
        self.progress.finish_and_clear();
    }
}

/// Looks at the slots all the time, and remembers the most that were in use.
pub struct Watch {
    stop: CancellationToken,
    looking: AbortOnDropHandle<adjutant_store::Result<()>>,
    most: Arc<AtomicI64>,
}

impl Watch {
    pub fn start(store: Store, stage: Stage) -> Self {
        let (stop, most) = (CancellationToken::new(), Arc::new(AtomicI64::new(0)));
        let looking = tokio::spawn(look(store, stage, most.clone(), stop.clone()));
        Self { stop, looking: AbortOnDropHandle::new(looking), most }
    }

    /// The most slots that were ever seen in use at once.
    pub async fn finish(self) -> anyhow::Result<i64> {
        self.stop.cancel();
        self.looking.await.context("the watch ended early")?.context("the watch ended early")?;
        Ok(self.most.load(Ordering::SeqCst))
    }
}

async fn look(
    store: Store,
    stage: Stage,
    most: Arc<AtomicI64>,
    stop: CancellationToken,
) -> adjutant_store::Result<()> {
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    while stop.run_until_cancelled(tick.tick()).await.is_some() {
        let slots = store.slots().await?;
        most.fetch_max(slots.used, Ordering::SeqCst);
        stage.progress.set_message(format!("{} of {} slots in use", slots.used, slots.cap));
    }
    Ok(())
}
