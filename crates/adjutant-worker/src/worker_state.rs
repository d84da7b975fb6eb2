//! The state that the loops of a worker share.

use std::sync::atomic::{AtomicBool, Ordering};

use adjutant_agent::WorkerId;
use adjutant_store::{Ending, NotifyTarget, Store};
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio::sync::{Notify, RwLock, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::Settings;
use crate::lease_table::LeaseTable;

#[derive(Debug)]
pub(crate) struct WorkerState {
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    /// Calls over the connection that `end_and_claim` uses.
    pub(crate) worker: adjutant_store::Worker,
    /// The same worker over the pool, so that start events do not delay ends and claims.
    pub(crate) start_events: adjutant_store::Worker,
    pub(crate) leases: LeaseTable,
    /// Wakes `end_and_claim`: a claim may find a task.
    pub(crate) wake: Notify,
    /// Wakes `start_events`: tasks were claimed.
    pub(crate) claimed: Notify,
    /// Wakes `poll` before its pause is over.
    pub(crate) poll_now: Notify,
    /// Wakes `delete_rows`: deleted sessions have rows left.
    pub(crate) deletes: Notify,
    /// A claim holds the read lock until its leases are in the table. A poll takes the write lock,
    /// so that it does not report leases of a claim under way as unknown to this worker.
    pub(crate) claiming: RwLock<()>,
    /// The worker claims no more tasks, and handlers release theirs.
    pub(crate) draining: CancellationToken,
    /// The drain ran out of time: running handlers are dropped.
    pub(crate) abort_handlers: CancellationToken,
    /// The LISTEN connection passed its self-test.
    pub(crate) listening: AtomicBool,
    /// The live workers of this pool, as of the last poll.
    pub(crate) peers: std::sync::Mutex<Vec<WorkerId>>,
    /// Workers of other pools compete for the slots that become free here, as of the last poll.
    pub(crate) other_pools: AtomicBool,
    pub(crate) endings: mpsc::UnboundedSender<Ended>,
}

/// An ending to be written, and the channel that reports the result.
pub(crate) type Ended = (Ending, oneshot::Sender<Written>);

/// The result of writing an ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// This worker stored it.
    Stored,
    /// The lease was lost: the task was cancelled or taken over.
    TooLate,
}

impl WorkerState {
    /// Returns when the ending is stored, or is known to have come too late.
    pub(crate) async fn end(&self, ending: Ending) -> Written {
        let (written, wait) = oneshot::channel();
        // The receiver is dropped only when the process ends; then the result is not known.
        if self.endings.send((ending, written)).is_err() {
            return Written::TooLate;
        }
        wait.await.unwrap_or(Written::TooLate)
    }

    /// Claims for a slot that became free, and notifies other workers that may want it.
    pub(crate) fn slot_is_free(&self) {
        self.wake.notify_one();
        self.notify_other_workers();
    }

    /// Notifies the workers that may fill slots which this worker does not fill itself.
    pub(crate) fn notify_other_workers(&self) {
        if self.draining.is_cancelled() {
            self.store.notify_workers(NotifyTarget::All);
        } else if self.other_pools.load(Ordering::Relaxed) {
            self.store.notify_workers(NotifyTarget::OtherPools(self.settings.pool.clone()));
        }
    }
}

/// Exponential backoff from 50 ms to 2 s with jitter, without a limit of attempts.
pub(crate) fn backoff() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(std::time::Duration::from_millis(50))
        .with_max_delay(std::time::Duration::from_secs(2))
        .with_jitter()
        .without_max_times()
        .build()
}
