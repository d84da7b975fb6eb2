//! Notices for processes that watch events, and the watchers that this process knows of. Watchers
//! announce themselves every few seconds; without a watcher nothing is sent. A notice is a hint:
//! watchers also poll, so a lost notice costs only latency.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use adjutant_agent::{SessionId, TaskId, TaskNumber};
use uuid::Uuid;

use crate::connection_pool::ConnectionPool;
use crate::text::storable;
use crate::{Result, Store};

/// The shortest time between two notices. A notice names all sessions with new events since the
/// last one.
const PAUSE: Duration = Duration::from_millis(50);

/// How long an announcement of a watcher holds. Watchers repeat it more often than this.
const WATCH_TTL: Duration = Duration::from_secs(5);

/// The largest payload of a notice: NOTIFY takes less than 8,000 bytes.
const MAX_PAYLOAD: usize = 7900;

pub(crate) const EVENTS: &str = "adjutant_events";
pub(crate) const WATCH: &str = "adjutant_watch";
pub(crate) const TEXT: &str = "adjutant_text";

/// The payload for events in sessions that the notice does not name.
const ALL_SESSIONS: &str = "*";

/// The tasks whose answers a watcher wants to receive while the model streams them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextFilter {
    Task(TaskId),
    Session(SessionId),
    All,
}

/// The announcement of a process that watches events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watcher {
    /// The process, so that it can ignore its own announcement.
    pub id: Uuid,
    pub texts: Vec<TextFilter>,
}

/// A piece of an answer that a model is streaming. It is a hint: only the finished turn is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveText {
    pub session: SessionId,
    pub task: TaskId,
    pub task_number: TaskNumber,
    /// The number that its turn will have.
    pub turn: i32,
    /// The number of characters of the answer before this piece; 0 starts the answer again.
    pub offset: usize,
    pub text: String,
}

impl Watcher {
    fn payload(&self) -> String {
        let words = self.texts.iter().map(|text| match text {
            TextFilter::Task(task) => format!(" t{task}"),
            TextFilter::Session(session) => format!(" s{}", session.0),
            TextFilter::All => " *".to_owned(),
        });
        let words: String = words.collect();
        let words = if words.len() > MAX_PAYLOAD { " *" } else { words.as_str() };
        format!("{}{words}", self.id)
    }

    pub(crate) fn parse(payload: &str) -> Option<Self> {
        let mut words = payload.split(' ');
        let id = words.next()?.parse().ok()?;
        // Words that a later release added are ignored.
        let texts = words.filter_map(|word| match word.split_at_checked(1)? {
            ("t", id) => id.parse().ok().map(|id| TextFilter::Task(TaskId(id))),
            ("s", id) => id.parse().ok().map(|id| TextFilter::Session(SessionId(id))),
            ("*", _) => Some(TextFilter::All),
            _ => None,
        });
        Some(Self { id, texts: texts.collect() })
    }
}

impl LiveText {
    /// The most bytes of text in one notice.
    pub const MAX_BYTES: usize = 7800;

    fn payload(&self) -> String {
        let Self { session, task, task_number, turn, offset, text } = self;
        format!("{} {task} {} {turn} {offset} {text}", session.0, task_number.0)
    }

    pub(crate) fn parse(payload: &str) -> Option<Self> {
        let mut words = payload.splitn(6, ' ');
        Some(Self {
            session: SessionId(words.next()?.parse().ok()?),
            task: TaskId(words.next()?.parse().ok()?),
            task_number: TaskNumber(words.next()?.parse().ok()?),
            turn: words.next()?.parse().ok()?,
            offset: words.next()?.parse().ok()?,
            text: words.next()?.to_owned(),
        })
    }
}

/// Parses the sessions of a notice; none means all of them.
pub(crate) fn parse_sessions(payload: &str) -> Option<Vec<SessionId>> {
    payload.split(' ').map(|id| id.parse().ok().map(SessionId)).collect()
}

#[derive(Debug)]
pub(crate) struct EventNotifier {
    pool: Arc<ConnectionPool>,
    created_at: Instant,
    /// In milliseconds since `created_at`, as `text_watched_until` is: atomics, because they are
    /// read for every task that ends.
    watched_until: AtomicU64,
    text_watched_until: AtomicU64,
    texts: Mutex<BTreeMap<TextFilter, Instant>>,
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    sessions: BTreeSet<SessionId>,
    all_sessions: bool,
    /// A task is running that will send this.
    has_sender: bool,
}

impl EventNotifier {
    pub(crate) fn new(pool: Arc<ConnectionPool>) -> Arc<Self> {
        Arc::new(Self {
            pool,
            created_at: Instant::now(),
            watched_until: AtomicU64::new(0),
            text_watched_until: AtomicU64::new(0),
            texts: Mutex::default(),
            pending: Mutex::default(),
        })
    }

    fn record_watcher(&self, watcher: &Watcher) {
        let until = self.ms(WATCH_TTL);
        self.watched_until.fetch_max(until, Ordering::Relaxed);
        if watcher.texts.is_empty() {
            return;
        }
        let mut texts = lock(&self.texts);
        texts.retain(|_, until| *until > Instant::now());
        texts.extend(watcher.texts.iter().map(|text| (*text, Instant::now() + WATCH_TTL)));
        self.text_watched_until.fetch_max(until, Ordering::Relaxed);
    }

    fn wants_text(&self, session: SessionId, task: TaskId) -> bool {
        if self.text_watched_until.load(Ordering::Relaxed) < self.ms(Duration::ZERO) {
            return false;
        }
        let (texts, now) = (lock(&self.texts), Instant::now());
        [TextFilter::Task(task), TextFilter::Session(session), TextFilter::All]
            .iter()
            .any(|text| texts.get(text).is_some_and(|until| *until > now))
    }

    /// Notifies watchers of new events in these sessions. Returns at once.
    pub(crate) fn notify(self: &Arc<Self>, sessions: impl IntoIterator<Item = SessionId>) {
        if self.is_watched() {
            self.enqueue(|pending| pending.sessions.extend(sessions));
        }
    }

    /// Notifies watchers of new events in sessions that the caller does not know. Returns at once.
    pub(crate) fn notify_all(self: &Arc<Self>) {
        if self.is_watched() {
            self.enqueue(|pending| pending.all_sessions = true);
        }
    }

    fn is_watched(&self) -> bool {
        self.watched_until.load(Ordering::Relaxed) >= self.ms(Duration::ZERO)
    }

    fn enqueue(self: &Arc<Self>, add: impl FnOnce(&mut Pending)) {
        let mut pending = lock(&self.pending);
        add(&mut pending);
        if !std::mem::replace(&mut pending.has_sender, true) {
            let me = self.clone();
            tokio::spawn(async move {
                while let Some(payload) = me.next_payload() {
                    me.send(EVENTS, &payload).await;
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
    }

    /// Takes the payload of the next notice. If there is none, the sending task ends.
    fn next_payload(&self) -> Option<String> {
        let mut pending = lock(&self.pending);
        let sessions = std::mem::take(&mut pending.sessions);
        let all_sessions = std::mem::take(&mut pending.all_sessions);
        if sessions.is_empty() && !all_sessions {
            pending.has_sender = false;
            return None;
        }
        let ids: Vec<String> = sessions.iter().map(|session| session.0.to_string()).collect();
        let payload = ids.join(" ");
        Some(if all_sessions || payload.len() > MAX_PAYLOAD {
            ALL_SESSIONS.to_owned()
        } else {
            payload
        })
    }

    /// Sends the pending notice now, for a process that is about to exit.
    pub(crate) async fn flush(&self) {
        if let Some(payload) = self.next_payload() {
            self.send(EVENTS, &payload).await;
        }
    }

    async fn send(&self, channel: &str, payload: &str) {
        // A lost notice costs only latency.
        let _ = self.try_send(channel, payload).await;
    }

    async fn try_send(&self, channel: &str, payload: &str) -> Result<()> {
        let notify = self.pool.call(async |connection| {
            sqlx::query!("select pg_notify($1, $2)", channel, payload).execute(connection).await
        });
        notify.await.map(drop)
    }

    fn ms(&self, from_now: Duration) -> u64 {
        // At least 1, so that the initial `watched_until` of 0 is in the past.
        u64::try_from((self.created_at.elapsed() + from_now).as_millis())
            .unwrap_or(u64::MAX)
            .saturating_add(1)
    }
}

impl Store {
    /// Notes that a process watches: for the next 5 seconds this store sends notices of events.
    pub fn record_watcher(&self, watcher: &Watcher) {
        self.event_notifier.record_watcher(watcher);
    }

    /// Announces to all processes that this one watches.
    pub async fn announce_watcher(&self, watcher: &Watcher) -> Result<()> {
        self.event_notifier.try_send(WATCH, &watcher.payload()).await
    }

    /// Whether a watcher wants the text of this task while the model streams it.
    pub fn wants_text(&self, session: SessionId, task: TaskId) -> bool {
        self.event_notifier.wants_text(session, task)
    }

    /// Sends watchers a piece of a streamed answer, of at most [`LiveText::MAX_BYTES`] bytes.
    pub async fn send_text(&self, text: LiveText) {
        let text = LiveText { text: storable(text.text), ..text };
        self.event_notifier.send(TEXT, &text.payload()).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_parses_into_the_value_it_was_made_from() {
        let task = TaskId::new();
        let texts =
            vec![TextFilter::Task(task), TextFilter::Session(SessionId(12)), TextFilter::All];
        let watcher = Watcher { id: Uuid::now_v7(), texts };
        assert_eq!(Watcher::parse(&watcher.payload()), Some(watcher));
        let text = LiveText {
            session: SessionId(1),
            task,
            task_number: TaskNumber(7),
            turn: 3,
            offset: 10,
            text: " two  words\nand a line ".to_owned(),
        };
        assert_eq!(LiveText::parse(&text.payload()), Some(text));
        assert_eq!(parse_sessions("1 22"), Some(vec![SessionId(1), SessionId(22)]));
        assert_eq!(parse_sessions(ALL_SESSIONS), None);
    }

    #[test]
    fn a_text_filter_that_is_too_long_for_a_notice_becomes_all_texts() {
        let texts = (0..1000).map(|_| TextFilter::Task(TaskId::new())).collect();
        let payload = Watcher { id: Uuid::now_v7(), texts }.payload();
        assert!(payload.len() < 8000);
        assert_eq!(
            Watcher::parse(&payload).unwrap_or_else(|| unreachable!()).texts,
            [TextFilter::All]
        );
    }
}
