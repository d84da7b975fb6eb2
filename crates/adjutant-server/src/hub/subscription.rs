use std::collections::VecDeque;

use adjutant_agent::SessionId;
use adjutant_store::{Error, Event, Store};

use super::{Hub, Watch};

/// How many events are read at once.
const PAGE: i64 = 100;

/// The events of one session in order, each once: those that there are, then those to come. An event is told when it is stored, and
/// with it the notification of the task that ended.
#[derive(Debug)]
pub struct Subscription {
    store: Store,
    session: SessionId,
    /// Begun before the first look, so that nothing falls between.
    watch: Watch,
    read: VecDeque<Event>,
    upto: i64,
}

impl Hub {
    /// Subscribes to the events of a session after the one with this number; 0 is all of them. Who has kept the number of the last
    /// event that it dealt with goes on from there, in another process too.
    pub fn subscribe(&self, session: SessionId, after: i64) -> Subscription {
        Subscription {
            store: self.board.store.clone(),
            session,
            watch: self.watch(session),
            read: VecDeque::new(),
            upto: after,
        }
    }
}

impl Subscription {
    /// Waits for the next event. It fails when the session is gone; after another error it may be asked again. Cancel safe.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.read.pop_front() {
                return Ok(event);
            }
            let page = self.store.event_page(self.session, None, self.upto, PAGE).await?;
            self.upto = page.upto;
            self.read = page.events.into();
            if self.read.is_empty() {
                self.watch.saw(page.upto);
                self.watch.changed().await;
            }
        }
    }
}
