//! Hints to other processes that they may look now instead of later: at most one of a kind in a while, because one is enough.
//! A spawn sends its own with its commit, which saves a round trip; commits with a NOTIFY wait for each other, so it is the
//! pause between two that keeps spawns from doing so. Whoever misses a hint finds out by looking.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use adjutant_agent::LeaseId;
use tokio::sync::watch;

use crate::calls::Calls;

/// At most one notice of a kind in this time, and one at its end if there was more to say.
const PAUSE: Duration = Duration::from_millis(50);

/// Leases in one notice: their ids have to fit into the 8,000 bytes that PostgreSQL takes.
const LEASES: usize = 200;

pub(crate) const QUEUE: &str = "adjutant_queue";
pub(crate) const LOST: &str = "adjutant_lost";

/// Whose workers should look into the queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whom {
    Pool(String),
    OtherPools(String),
    All,
    /// Not into the queue, but at the clock: a task, or what a webhook is told, waits for a time that may come before they look again.
    Delayed,
}

impl Whom {
    pub fn concerns(&self, pool: &str) -> bool {
        match self {
            Self::Pool(name) => name == pool,
            Self::OtherPools(name) => name != pool,
            Self::All => true,
            Self::Delayed => false,
        }
    }

    fn payload(&self) -> String {
        match self {
            Self::Pool(name) => format!("={name}"),
            Self::OtherPools(name) => format!("!{name}"),
            Self::All => "*".to_owned(),
            Self::Delayed => "+".to_owned(),
        }
    }

    pub(crate) fn read(payload: &str) -> Self {
        match payload.split_at_checked(1) {
            Some(("=", name)) => Self::Pool(name.to_owned()),
            Some(("!", name)) => Self::OtherPools(name.to_owned()),
            Some(("+", _)) => Self::Delayed,
            // Of a release that has more to say: looking once too often does no harm.
            _ => Self::All,
        }
    }
}

/// What this process has yet to say.
#[derive(Debug)]
pub(crate) struct Notices {
    calls: Arc<Calls>,
    /// Those in a pause, and whether there is more to say at its end.
    pausing: Mutex<BTreeMap<Whom, bool>>,
    /// How many are on their way; [`Notices::flush`] waits for none.
    sending: watch::Sender<usize>,
}

impl Notices {
    pub(crate) fn over(calls: Arc<Calls>) -> Arc<Self> {
        Arc::new(Self { calls, pausing: Mutex::default(), sending: watch::Sender::new(0) })
    }

    /// Those whom a transaction is to tell itself, as payloads for `QUEUE`; the others are in a pause, and are told at its end.
    /// The pause begins now: a transaction that fails had nothing to say.
    pub(crate) fn with_commit(self: &Arc<Self>, whom: impl IntoIterator<Item = Whom>) -> Vec<String> {
        whom.into_iter()
            .filter(|whom| self.begins(whom))
            .map(|whom| {
                let payload = whom.payload();
                self.clone().detached_pause(whom);
                payload
            })
            .collect()
    }

    /// Whether this may be said now: else it is said at the end of the pause.
    fn begins(&self, whom: &Whom) -> bool {
        let mut pausing = self.pausing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(more) = pausing.get_mut(whom) {
            *more = true;
            return false;
        }
        pausing.insert(whom.clone(), false);
        true
    }

    /// Something may be claimed. Returns at once.
    pub(crate) fn queued(self: &Arc<Self>, whom: Whom) {
        if !self.begins(&whom) {
            return;
        }
        self.detach(async move |notices| {
            notices.send(QUEUE, &whom.payload()).await;
            // The pause is not waited for by a process that ends: it says the rest before.
            notices.detached_pause(whom);
        });
    }

    /// These leases were taken away; their holders should stop. Returns at once.
    pub(crate) fn lost(self: &Arc<Self>, leases: Vec<LeaseId>) {
        if leases.is_empty() {
            return;
        }
        self.detach(async move |notices| {
            for some in leases.chunks(LEASES) {
                let ids: Vec<String> = some.iter().map(ToString::to_string).collect();
                notices.send(LOST, &ids.join(" ")).await;
            }
        });
    }

    /// Says at once what waits for the end of a pause, which this process may not live to see, and waits until all is said.
    pub(crate) async fn flush(&self) {
        let left: Vec<Whom> = {
            let mut pausing = self.pausing.lock().unwrap_or_else(PoisonError::into_inner);
            let unsaid = pausing.iter_mut().filter_map(|(whom, more)| std::mem::take(more).then_some(whom));
            unsaid.cloned().collect()
        };
        for whom in left {
            self.send(QUEUE, &whom.payload()).await;
        }
        // The sender lives as long as we do.
        let _ = self.sending.subscribe().wait_for(|sending| *sending == 0).await;
    }

    fn detached_pause(self: Arc<Self>, whom: Whom) {
        tokio::spawn(async move {
            tokio::time::sleep(PAUSE).await;
            let more = self.pausing.lock().unwrap_or_else(PoisonError::into_inner).remove(&whom);
            if more == Some(true) {
                self.queued(whom);
            }
        });
    }

    fn detach<F>(self: &Arc<Self>, work: impl FnOnce(Arc<Self>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.sending.send_modify(|sending| *sending += 1);
        let (me, work) = (self.clone(), work(self.clone()));
        tokio::spawn(async move {
            work.await;
            me.sending.send_modify(|sending| *sending -= 1);
        });
    }

    async fn send(&self, channel: &str, payload: &str) {
        // Lost hints cost time and nothing else.
        let notify = self.calls.call(async |connection| {
            sqlx::query!("select pg_notify($1, $2)", channel, payload).execute(connection).await
        });
        let _ = notify.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_reaches_whom_it_concerns() {
        for (whom, a, b) in [
            (Whom::Pool("a".to_owned()), true, false),
            (Whom::OtherPools("a".to_owned()), false, true),
            (Whom::All, true, true),
            (Whom::Delayed, false, false),
            (Whom::Pool("!a".to_owned()), false, false),
        ] {
            let read = Whom::read(&whom.payload());
            assert_eq!(read, whom);
            assert_eq!((read.concerns("a"), read.concerns("b")), (a, b), "{whom:?}");
        }
        assert_eq!(Whom::read(""), Whom::All);
        assert_eq!(Whom::read("éa"), Whom::All);
    }
}
