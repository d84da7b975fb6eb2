use std::time::{Duration, Instant};

use adjutant_agent::SessionId;
use adjutant_store::Check;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, SessionWatch};

/// Waits for a condition in a session until a deadline: query, and if it does not hold yet,
/// [`WaitLoop::rest`] and query again.
pub(crate) struct WaitLoop {
    watch: Box<dyn SessionWatch>,
    deadline: Instant,
    stopping: CancellationToken,
}

impl Context<'_> {
    /// Subscribes before the first query, so that no event between two queries is missed.
    pub(crate) fn wait_loop(&self, session: SessionId, longest: Duration) -> WaitLoop {
        WaitLoop {
            watch: self.watcher.watch(session),
            deadline: Instant::now() + longest,
            stopping: self.stopping.clone(),
        }
    }
}

impl WaitLoop {
    /// Whether another query can follow this one. A process that is about to end answers early.
    pub(crate) fn check(&self) -> Check {
        if self.left().is_zero() || self.stopping.is_cancelled() {
            Check::Last
        } else {
            Check::Repeated
        }
    }

    /// Returns when there may be a new event, or when the next query is the last.
    pub(crate) async fn rest(&mut self) {
        let left = self.left();
        tokio::select! {
            () = self.watch.changed() => {}
            () = tokio::time::sleep(left) => {}
            () = self.stopping.cancelled() => {}
        }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}
