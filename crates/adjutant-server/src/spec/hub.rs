//! STAND-IN until the events' `Hub` is there, and private to `wait`: it looks every 200 ms, whether something has changed or
//! not. To be replaced by `hub.watch(session)` and `watch.changed()` of the same meaning.

use std::time::Duration;

use adjutant_agent::SessionId;

const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Watch;

/// Hears of every change of the session from now on: to be called before the first look.
pub(super) fn watch(_session: SessionId) -> Watch {
    Watch
}

impl Watch {
    pub(super) async fn changed(&mut self) {
        tokio::time::sleep(PAUSE).await;
    }
}
