use std::time::{Duration, Instant};

use adjutant_agent::SessionId;
use adjutant_store::Patience;
use tokio_util::sync::CancellationToken;

use crate::{Desk, Watch};

/// A wait for something in a session, for a time: look, and if it is not there yet, [`Vigil::rest`] and look again.
pub(crate) struct Vigil {
    watch: Watch,
    deadline: Instant,
    stopping: CancellationToken,
}

impl Desk {
    /// Begins a wait. To be called before the first look: what changes after it is heard of.
    pub(crate) fn watch_for(&self, session: SessionId, longest: Duration) -> Vigil {
        Vigil {
            watch: self.hub.watch(session),
            deadline: Instant::now() + longest,
            stopping: self.stopping.clone(),
        }
    }
}

impl Vigil {
    /// Whether there is time for another look after this one. A process that is about to end answers early, and its caller goes
    /// on at another.
    pub(crate) fn patience(&self) -> Patience {
        if self.left().is_zero() || self.stopping.is_cancelled() {
            Patience::LastLook
        } else {
            Patience::LookAgain
        }
    }

    /// Until something has changed, or there is time for one look only: the next look finds out what it was.
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
