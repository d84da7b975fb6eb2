use std::collections::VecDeque;

use adjutant_agent::SessionId;
use adjutant_store::{Error, Event, EventQuery, EventTexts, Store};

use super::{Hub, Watch};

/// Events per query.
const PAGE: i64 = 100;

/// The events of one session in order, each once: first the stored ones, then new ones as they are
/// stored.
#[derive(Debug)]
pub struct Subscription {
    store: Store,
    session: SessionId,
    /// Created before the first read, so that no event falls between.
    watch: Watch,
    buffer: VecDeque<Event>,
    upto: i64,
}

impl Hub {
    /// Subscribes to the events of a session after this number; 0 is all of them. A client that has
    /// kept the number of its last event can continue from there, in another process too.
    pub fn subscribe(&self, session: SessionId, after: i64) -> Subscription {
        Subscription {
            store: self.registry.store.clone(),
            session,
            watch: self.watch(session),
            buffer: VecDeque::new(),
            upto: after,
        }
    }
}

impl Subscription {
    /// Waits for the next event. Fails when the session is deleted; after any other error it may be
    /// called again. Cancel safe.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.buffer.pop_front() {
                return Ok(event);
            }
            let query = EventQuery {
                task: None,
                after: self.upto,
                limit: PAGE,
                texts: EventTexts::Omitted,
            };
            let page = self.store.event_page(self.session, query).await?;
            self.upto = page.upto;
            self.buffer = page.events.into();
            if self.buffer.is_empty() {
                self.watch.mark_seen(page.upto);
                self.watch.changed().await;
            }
        }
    }
}
