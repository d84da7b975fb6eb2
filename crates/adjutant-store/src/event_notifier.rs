//! Those who watch what happens, as far as this process has heard of them, and what they have yet to be told. Nobody is told
//! anything while nobody watches: who does says so again and again. Whoever misses a hint finds out by looking.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use adjutant_agent::{SessionId, TaskId, TaskNumber};
use uuid::Uuid;

use crate::calls::Calls;
use crate::text::storable;
use crate::{Result, Store};

/// At most one notice in this time, with all that happened in it.
const PAUSE: Duration = Duration::from_millis(50);

/// Who watches says so more often than this.
const ATTENTION: Duration = Duration::from_secs(5);

/// PostgreSQL takes less than 8,000 bytes.
const LARGEST: usize = 7900;

pub(crate) const EVENTS: &str = "adjutant_events";
pub(crate) const WATCH: &str = "adjutant_watch";
pub(crate) const TEXT: &str = "adjutant_text";

const ANYWHERE: &str = "*";

/// Whose text somebody wants to see as a model says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextOf {
    Task(TaskId),
    Session(SessionId),
    All,
}

/// What a process says that watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watching {
    /// Who it is, so that it knows its own words when they come back.
    pub by: Uuid,
    pub texts: Vec<TextOf>,
}

/// Text that a model has just said. A hint: what is stored is the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveText {
    pub session: SessionId,
    pub task: TaskId,
    pub task_number: TaskNumber,
    /// The number that its turn will have.
    pub turn: i32,
    /// How many characters of the same answer came before; 0 begins it anew.
    pub offset: usize,
    pub text: String,
}

impl Watching {
    fn payload(&self) -> String {
        let words = self.texts.iter().map(|text| match text {
            TextOf::Task(task) => format!(" t{task}"),
            TextOf::Session(session) => format!(" s{}", session.0),
            TextOf::All => " *".to_owned(),
        });
        let words: String = words.collect();
        let words = if words.len() > LARGEST { " *" } else { words.as_str() };
        format!("{}{words}", self.by)
    }

    pub(crate) fn read(payload: &str) -> Option<Self> {
        let mut words = payload.split(' ');
        let by = words.next()?.parse().ok()?;
        // What a later release may ask for besides is not ours to give.
        let texts = words.filter_map(|word| match word.split_at_checked(1)? {
            ("t", id) => id.parse().ok().map(|id| TextOf::Task(TaskId(id))),
            ("s", id) => id.parse().ok().map(|id| TextOf::Session(SessionId(id))),
            ("*", _) => Some(TextOf::All),
            _ => None,
        });
        Some(Self { by, texts: texts.collect() })
    }
}

impl LiveText {
    /// The most bytes of text that one notice takes.
    pub const LARGEST: usize = 7800;

    fn payload(&self) -> String {
        let Self { session, task, task_number, turn, offset, text } = self;
        format!("{} {task} {} {turn} {offset} {text}", session.0, task_number.0)
    }

    pub(crate) fn read(payload: &str) -> Option<Self> {
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

/// Which sessions a notice names; none is all of them.
pub(crate) fn read_sessions(payload: &str) -> Option<Vec<SessionId>> {
    payload.split(' ').map(|id| id.parse().ok().map(SessionId)).collect()
}

#[derive(Debug)]
pub(crate) struct EventNotifier {
    calls: Arc<Calls>,
    began: Instant,
    /// Both in milliseconds since it began: what is asked for every task that ends should cost nothing.
    watched_until: AtomicU64,
    texts_until: AtomicU64,
    texts: Mutex<BTreeMap<TextOf, Instant>>,
    untold: Mutex<Untold>,
}

#[derive(Debug, Default)]
struct Untold {
    sessions: BTreeSet<SessionId>,
    anywhere: bool,
    /// Somebody tells, and will tell of this too.
    is_told: bool,
}

impl EventNotifier {
    pub(crate) fn over(calls: Arc<Calls>) -> Arc<Self> {
        Arc::new(Self {
            calls,
            began: Instant::now(),
            watched_until: AtomicU64::new(0),
            texts_until: AtomicU64::new(0),
            texts: Mutex::default(),
            untold: Mutex::default(),
        })
    }

    fn hears(&self, watching: &Watching) {
        let until = self.ms(ATTENTION);
        self.watched_until.fetch_max(until, Ordering::Relaxed);
        if watching.texts.is_empty() {
            return;
        }
        let mut texts = lock(&self.texts);
        texts.retain(|_, until| *until > Instant::now());
        texts.extend(watching.texts.iter().map(|text| (*text, Instant::now() + ATTENTION)));
        self.texts_until.fetch_max(until, Ordering::Relaxed);
    }

    fn wants_text(&self, session: SessionId, task: TaskId) -> bool {
        if self.texts_until.load(Ordering::Relaxed) < self.ms(Duration::ZERO) {
            return false;
        }
        let (texts, now) = (lock(&self.texts), Instant::now());
        [TextOf::Task(task), TextOf::Session(session), TextOf::All]
            .iter()
            .any(|text| texts.get(text).is_some_and(|until| *until > now))
    }

    /// Something has happened in these sessions. Returns at once.
    pub(crate) fn happened(self: &Arc<Self>, sessions: impl IntoIterator<Item = SessionId>) {
        if self.is_watched() {
            self.tell(|untold| untold.sessions.extend(sessions));
        }
    }

    /// Something has happened, in sessions that are not known here. Returns at once.
    pub(crate) fn happened_somewhere(self: &Arc<Self>) {
        if self.is_watched() {
            self.tell(|untold| untold.anywhere = true);
        }
    }

    fn is_watched(&self) -> bool {
        self.watched_until.load(Ordering::Relaxed) >= self.ms(Duration::ZERO)
    }

    fn tell(self: &Arc<Self>, add: impl FnOnce(&mut Untold)) {
        let mut untold = lock(&self.untold);
        add(&mut untold);
        if !std::mem::replace(&mut untold.is_told, true) {
            let me = self.clone();
            tokio::spawn(async move {
                while let Some(payload) = me.next() {
                    me.send(EVENTS, &payload).await;
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
    }

    /// What is to be told now; with nothing, whoever tells is done.
    fn next(&self) -> Option<String> {
        let mut untold = lock(&self.untold);
        let sessions = std::mem::take(&mut untold.sessions);
        let anywhere = std::mem::take(&mut untold.anywhere);
        if sessions.is_empty() && !anywhere {
            untold.is_told = false;
            return None;
        }
        let ids: Vec<String> = sessions.iter().map(|session| session.0.to_string()).collect();
        let payload = ids.join(" ");
        Some(if anywhere || payload.len() > LARGEST { ANYWHERE.to_owned() } else { payload })
    }

    /// Tells what waits for the end of a pause, which this process may not live to see.
    pub(crate) async fn flush(&self) {
        if let Some(payload) = self.next() {
            self.send(EVENTS, &payload).await;
        }
    }

    async fn send(&self, channel: &str, payload: &str) {
        // Lost hints cost time and nothing else.
        let _ = self.notify(channel, payload).await;
    }

    async fn notify(&self, channel: &str, payload: &str) -> Result<()> {
        let notify = self.calls.call(async |connection| {
            sqlx::query!("select pg_notify($1, $2)", channel, payload).execute(connection).await
        });
        notify.await.map(drop)
    }

    fn ms(&self, from_now: Duration) -> u64 {
        // One more than none, so that who has never been watched is not watched.
        u64::try_from((self.began.elapsed() + from_now).as_millis())
            .unwrap_or(u64::MAX)
            .saturating_add(1)
    }
}

impl Store {
    /// Somebody watches: for the next seconds this process tells of what happens.
    pub fn is_watched(&self, watching: &Watching) {
        self.event_notifier.hears(watching);
    }

    /// Tells all others that this process watches.
    pub async fn watch(&self, watching: &Watching) -> Result<()> {
        self.event_notifier.notify(WATCH, &watching.payload()).await
    }

    /// Whether somebody wants to see the text of this task as it comes.
    pub fn wants_text(&self, session: SessionId, task: TaskId) -> bool {
        self.event_notifier.wants_text(session, task)
    }

    /// Tells those who watch what a model says; at most [`LiveText::LARGEST`] bytes at a time.
    pub async fn tell_text(&self, text: LiveText) {
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
    fn what_is_said_is_what_is_heard() {
        let task = TaskId::new();
        let texts = vec![TextOf::Task(task), TextOf::Session(SessionId(12)), TextOf::All];
        let watching = Watching { by: Uuid::now_v7(), texts };
        assert_eq!(Watching::read(&watching.payload()), Some(watching));
        let text = LiveText {
            session: SessionId(1),
            task,
            task_number: TaskNumber(7),
            turn: 3,
            offset: 10,
            text: " two  words\nand a line ".to_owned(),
        };
        assert_eq!(LiveText::read(&text.payload()), Some(text));
        assert_eq!(read_sessions("1 22"), Some(vec![SessionId(1), SessionId(22)]));
        assert_eq!(read_sessions(ANYWHERE), None);
    }

    #[test]
    fn too_many_texts_are_all_texts_and_a_notice_has_room_for_them() {
        let texts = (0..1000).map(|_| TextOf::Task(TaskId::new())).collect();
        let payload = Watching { by: Uuid::now_v7(), texts }.payload();
        assert!(payload.len() < 8000);
        assert_eq!(Watching::read(&payload).unwrap_or_else(|| unreachable!()).texts, [TextOf::All]);
    }
}
