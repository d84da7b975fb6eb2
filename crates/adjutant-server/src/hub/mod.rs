//! Wakes whoever waits for something to happen in a session: one connection that listens and one query for all of them, and
//! nothing at all while nobody waits. Notices are hints that come early or never; a look every few seconds is the truth.
//!
//! To miss nothing: watch first, then look at what there is, then wait.

mod hear;
mod look;
mod subscription;
mod text;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adjutant_agent::SessionId;
use adjutant_store::{LiveText, Store, TextOf};
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

pub use subscription::Subscription;
pub use text::TextWatch;

/// What a process shares among all that wait in it. Cheap to clone; its loops end with the last clone.
#[derive(Debug, Clone)]
pub struct Hub {
    board: Arc<Board>,
    _loops: Arc<[AbortOnDropHandle<()>; 2]>,
}

/// Who watches what, and what is known of it.
#[derive(Debug)]
struct Board {
    store: Store,
    listen_url: String,
    /// Tells our own words from those of others.
    id: Uuid,
    sessions: Mutex<HashMap<SessionId, Watched>>,
    texts: Mutex<HashMap<TextOf, broadcast::Sender<Arc<LiveText>>>>,
    due: Mutex<Due>,
    /// Something is due.
    news: Notify,
    /// Somebody watches what nobody watched before: others are to know at once.
    came: Notify,
    /// Notices come through.
    listening: AtomicBool,
}

#[derive(Debug)]
struct Watched {
    /// The number of its newest event, as of the last look.
    newest: watch::Sender<Option<i64>>,
    watches: usize,
}

/// What is to be looked at.
#[derive(Debug, Default)]
struct Due {
    all: bool,
    sessions: BTreeSet<SessionId>,
}

impl Hub {
    /// Begins to listen, at `listen_url`: it may lead past a pooler that passes no notices on. Without notices everything is
    /// found at the pace of looks.
    pub fn start(store: Store, listen_url: String) -> Self {
        let board = Arc::new(Board {
            store,
            listen_url,
            id: Uuid::new_v4(),
            sessions: Mutex::default(),
            texts: Mutex::default(),
            due: Mutex::default(),
            news: Notify::new(),
            came: Notify::new(),
            listening: AtomicBool::new(false),
        });
        let loops = [
            AbortOnDropHandle::new(tokio::spawn(look::look(board.clone()))),
            AbortOnDropHandle::new(tokio::spawn(hear::hear(board.clone()))),
        ];
        Self { board, _loops: Arc::new(loops) }
    }

    /// Watches a session from now on: whatever happens in it after this returns wakes the watch.
    pub fn watch(&self, session: SessionId) -> Watch {
        let (newest, is_first) = {
            let mut sessions = lock(&self.board.sessions);
            let is_first = sessions.is_empty();
            let watched = sessions
                .entry(session)
                .or_insert_with(|| Watched { newest: watch::Sender::new(None), watches: 0 });
            watched.watches += 1;
            (watched.newest.subscribe(), is_first)
        };
        let seen = *newest.borrow();
        if seen.is_none() {
            self.board.is_due([session]);
        }
        if is_first {
            self.board.came.notify_one();
        }
        Watch { board: self.board.clone(), session, newest, seen }
    }

    /// The text of these tasks from now on, as models say it.
    pub fn text(&self, of: TextOf) -> TextWatch {
        TextWatch::begin(self.board.clone(), of)
    }
}

/// Somebody waits for something to happen in a session.
#[derive(Debug)]
pub struct Watch {
    board: Arc<Board>,
    session: SessionId,
    newest: watch::Receiver<Option<i64>>,
    seen: Option<i64>,
}

impl Watch {
    /// Waits until the hub has looked at the session once. Who looks after this is not woken for what it has seen; without it
    /// the first watch of a session may wake once for nothing.
    pub async fn ready(&mut self) {
        if let Ok(newest) = self.newest.wait_for(Option::is_some).await
            && self.seen.is_none()
        {
            self.seen = *newest;
        }
    }

    /// All events up to this one are known: only later ones wake.
    pub fn saw(&mut self, number: i64) {
        self.seen = Some(number);
    }

    /// Returns when something has happened since the watch began, or since this last returned; or when the session is gone.
    /// Cancel safe.
    pub async fn changed(&mut self) {
        let seen = self.seen;
        let newest =
            self.newest.wait_for(|newest| newest.is_some_and(|newest| seen.is_none_or(|seen| newest > seen)));
        // The sender lives at least as long as this.
        if let Ok(newest) = newest.await {
            self.seen = *newest;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut sessions = lock(&self.board.sessions);
        if let Some(watched) = sessions.get_mut(&self.session) {
            watched.watches -= 1;
            if watched.watches == 0 {
                sessions.remove(&self.session);
            }
        }
    }
}

impl Board {
    fn is_watched(&self) -> bool {
        !lock(&self.sessions).is_empty()
    }

    fn is_due(&self, sessions: impl IntoIterator<Item = SessionId>) {
        lock(&self.due).sessions.extend(sessions);
        self.news.notify_one();
    }

    fn all_is_due(&self) {
        lock(&self.due).all = true;
        self.news.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
