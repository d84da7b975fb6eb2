//! Wakes clients that wait for events of a session. A process has one LISTEN connection and one
//! query for all of its clients, and neither while no client waits. Notices are hints that
//! may be lost; a poll every few seconds finds every event.
//!
//! To miss nothing: create the watch first, then read the present state, then wait.

mod keys;
mod listen;
mod poll;
mod subscription;
mod text;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adjutant_agent::SessionId;
use adjutant_store::{LiveText, Store, TextFilter};
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use keys::HeldKeys;
pub(crate) use keys::KeyHold;
pub use subscription::Subscription;
pub use text::TextWatch;

/// The watches of a process. Cheap to clone; its loops end with the last clone.
#[derive(Debug, Clone)]
pub struct Hub {
    registry: Arc<WatchRegistry>,
    _loops: Arc<[AbortOnDropHandle<()>; 3]>,
}

/// The watched sessions, and the newest known event of each.
#[derive(Debug)]
struct WatchRegistry {
    store: Store,
    listen_url: String,
    /// Distinguishes announcements of this process from those of others.
    id: Uuid,
    sessions: Mutex<HashMap<SessionId, WatchedSession>>,
    texts: Mutex<HashMap<TextFilter, broadcast::Sender<Arc<LiveText>>>>,
    keys: HeldKeys,
    poll_request: Mutex<PollRequest>,
    poll_requested: Notify,
    /// The first watch was added: it is announced at once, so that other processes send us notices.
    watch_added: Notify,
    /// Whether notices arrive.
    listening: AtomicBool,
}

#[derive(Debug)]
struct WatchedSession {
    /// The number of its newest event, as of the last poll.
    newest: watch::Sender<Option<i64>>,
    watches: usize,
}

/// The sessions that the next poll queries.
#[derive(Debug, Default)]
struct PollRequest {
    all: bool,
    sessions: BTreeSet<SessionId>,
}

impl Hub {
    /// Starts to listen at `listen_url`, which may bypass a pooler that does not support LISTEN.
    /// Without notices, events are found by polling.
    pub fn start(store: Store, listen_url: String) -> Self {
        let registry = Arc::new(WatchRegistry {
            store,
            listen_url,
            id: Uuid::new_v4(),
            sessions: Mutex::default(),
            texts: Mutex::default(),
            keys: HeldKeys::default(),
            poll_request: Mutex::default(),
            poll_requested: Notify::new(),
            watch_added: Notify::new(),
            listening: AtomicBool::new(false),
        });
        let loops = [
            AbortOnDropHandle::new(tokio::spawn(poll::run(registry.clone()))),
            AbortOnDropHandle::new(tokio::spawn(listen::run(registry.clone()))),
            AbortOnDropHandle::new(tokio::spawn(keys::run(registry.clone()))),
        ];
        Self { registry, _loops: Arc::new(loops) }
    }

    /// Watches a session: every event that is stored after this returns wakes the watch.
    pub fn watch(&self, session: SessionId) -> Watch {
        let (newest, is_first) = {
            let mut sessions = lock(&self.registry.sessions);
            let is_first = sessions.is_empty();
            let watched = sessions
                .entry(session)
                .or_insert_with(|| WatchedSession { newest: watch::Sender::new(None), watches: 0 });
            watched.watches += 1;
            (watched.newest.subscribe(), is_first)
        };
        let seen = *newest.borrow();
        if seen.is_none() {
            self.registry.request_poll([session]);
        }
        if is_first {
            self.registry.watch_added.notify_one();
        }
        Watch { registry: self.registry.clone(), session, newest, seen }
    }

    /// Watches the text that models stream for these tasks, from now on.
    pub fn text(&self, of: TextFilter) -> TextWatch {
        TextWatch::start(self.registry.clone(), of)
    }
}

/// A client's wait for events of one session.
#[derive(Debug)]
pub struct Watch {
    registry: Arc<WatchRegistry>,
    session: SessionId,
    newest: watch::Receiver<Option<i64>>,
    seen: Option<i64>,
}

impl Watch {
    /// Waits for the first poll of the session. Without it, the first watch of a session may wake
    /// once for events that the client has read already.
    pub async fn ready(&mut self) {
        if let Ok(newest) = self.newest.wait_for(Option::is_some).await
            && self.seen.is_none()
        {
            self.seen = *newest;
        }
    }

    /// Only events after this one wake the watch.
    pub fn mark_seen(&mut self, number: i64) {
        self.seen = Some(number);
    }

    /// Returns when there is an event that is newer than the last seen one, or when the session is
    /// deleted. Cancel safe.
    pub async fn changed(&mut self) {
        let seen = self.seen;
        let newest = self
            .newest
            .wait_for(|newest| newest.is_some_and(|newest| seen.is_none_or(|seen| newest > seen)));
        // The sender lives at least as long as this watch.
        if let Ok(newest) = newest.await {
            self.seen = *newest;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut sessions = lock(&self.registry.sessions);
        if let Some(watched) = sessions.get_mut(&self.session) {
            watched.watches -= 1;
            if watched.watches == 0 {
                sessions.remove(&self.session);
            }
        }
    }
}

impl WatchRegistry {
    fn has_watches(&self) -> bool {
        !lock(&self.sessions).is_empty()
    }

    fn request_poll(&self, sessions: impl IntoIterator<Item = SessionId>) {
        lock(&self.poll_request).sessions.extend(sessions);
        self.poll_requested.notify_one();
    }

    fn request_poll_of_all(&self) {
        lock(&self.poll_request).all = true;
        self.poll_requested.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
