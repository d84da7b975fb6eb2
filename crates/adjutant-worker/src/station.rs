//! What a worker's loops share.

use std::sync::atomic::{AtomicBool, Ordering};

use adjutant_agent::WorkerId;
use adjutant_store::{Ending, Store, Whom};
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio::sync::{Notify, RwLock, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::Settings;
use crate::held::Held;

#[derive(Debug)]
pub(crate) struct Station {
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    pub(crate) worker: adjutant_store::Worker,
    pub(crate) held: Held,
    /// A claim may find something.
    pub(crate) wake: Notify,
    /// There are starts to tell.
    pub(crate) claimed: Notify,
    /// The same worker, whose calls do not keep turnovers waiting.
    pub(crate) announcer: adjutant_store::Worker,
    /// A look may find something.
    pub(crate) look: Notify,
    /// Read by claims until their leases are known, written by a look, which would take them for strays.
    pub(crate) claiming: RwLock<()>,
    /// Nothing is claimed any more, and handlers hand over.
    pub(crate) draining: CancellationToken,
    /// Handlers are stopped where they are.
    pub(crate) cut_off: CancellationToken,
    /// Notices come through.
    pub(crate) listening: AtomicBool,
    /// The living workers of its pool, as of the last look.
    pub(crate) peers: std::sync::Mutex<Vec<WorkerId>>,
    /// Workers of other pools want the slots that become free here.
    pub(crate) other_pools: AtomicBool,
    pub(crate) endings: mpsc::UnboundedSender<Ended>,
}

/// An ending to be written, and who waits to hear what became of it.
pub(crate) type Ended = (Ending, oneshot::Sender<Written>);

/// What became of an ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is stored, and by this worker.
    Stored,
    /// Somebody else has ended the task or goes on with it.
    TooLate,
}

impl Station {
    /// Returns when the ending is written, or is known to have come too late.
    pub(crate) async fn end(&self, ending: Ending) -> Written {
        let (written, wait) = oneshot::channel();
        // Whoever writes goes away only with the process: then it is not known what became of it.
        if self.endings.send((ending, written)).is_err() {
            return Written::TooLate;
        }
        wait.await.unwrap_or(Written::TooLate)
    }

    /// A slot is free: this worker takes the next task itself, and tells whoever else may want it.
    pub(crate) fn slot_is_free(&self) {
        self.wake.notify_one();
        self.tell_others();
    }

    /// Slots are free that this worker may not fill.
    pub(crate) fn tell_others(&self) {
        if self.draining.is_cancelled() {
            self.store.tell(Whom::All);
        } else if self.other_pools.load(Ordering::Relaxed) {
            self.store.tell(Whom::OtherPools(self.settings.pool.clone()));
        }
    }
}

/// From 50 ms to 2 s, each time a different part of it, for as long as it takes.
pub(crate) fn backoff() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(std::time::Duration::from_millis(50))
        .with_max_delay(std::time::Duration::from_secs(2))
        .with_jitter()
        .without_max_times()
        .build()
}
