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
pub enum NotifyTarget {
    Pool(String),
    OtherPools(String),
    All,
    /// Not into the queue, but at the clock: a task, or what a webhook is told, waits for a time that may come before they look again.
    Delayed,
}

impl NotifyTarget {
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
    pausing: Mutex<BTreeMap<NotifyTarget, bool>>,
    /// How many are on their way; [`Notices::flush`] waits for none.
    sending: watch::Sender<usize>,
}

impl Notices {
    pub(crate) fn over(calls: Arc<Calls>) -> Arc<Self> {
        Arc::new(Self { calls, pausing: Mutex::default(), sending: watch::Sender::new(0) })
    }

    /// The notices of a transaction that is about to begin. A target outside of a pause is notified by the transaction itself,
    /// and its pause begins now. A target in a pause is notified after the transaction: a notice that is sent at the end of the
    /// pause can come before the commit, and workers that poll then do not see the new tasks.
    pub(crate) fn for_commit(
        self: &Arc<Self>,
        targets: impl IntoIterator<Item = NotifyTarget>,
    ) -> CommitNotices {
        let mut notices =
            CommitNotices { notices: self.clone(), payloads: Vec::new(), after_commit: Vec::new() };
        for target in targets {
            if self.start_pause(&target) {
                notices.payloads.push(target.payload());
                self.clone().detached_pause(target);
            } else {
                notices.after_commit.push(target);
            }
        }
        notices
    }

    /// Whether a pause begins with this call; false in a pause.
    fn start_pause(&self, target: &NotifyTarget) -> bool {
        let mut pausing = self.pausing.lock().unwrap_or_else(PoisonError::into_inner);
        if pausing.contains_key(target) {
            return false;
        }
        pausing.insert(target.clone(), false);
        true
    }

    /// Something may be claimed. Returns at once.
    pub(crate) fn queued(self: &Arc<Self>, whom: NotifyTarget) {
        {
            let mut pausing = self.pausing.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(more) = pausing.get_mut(&whom) {
                *more = true;
                return;
            }
            pausing.insert(whom.clone(), false);
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
        let left: Vec<NotifyTarget> = {
            let mut pausing = self.pausing.lock().unwrap_or_else(PoisonError::into_inner);
            let unsaid =
                pausing.iter_mut().filter_map(|(whom, more)| std::mem::take(more).then_some(whom));
            unsaid.cloned().collect()
        };
        for whom in left {
            self.send(QUEUE, &whom.payload()).await;
        }
        // The sender lives as long as we do.
        let _ = self.sending.subscribe().wait_for(|sending| *sending == 0).await;
    }

    fn detached_pause(self: Arc<Self>, whom: NotifyTarget) {
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

/// The notices of one spawning transaction. Keep it until the transaction has ended: dropping it sends the notices that the
/// transaction did not send itself.
#[derive(Debug)]
#[must_use = "dropping it sends the notices that must follow the commit"]
pub(crate) struct CommitNotices {
    notices: Arc<Notices>,
    /// For the transaction to send on `QUEUE`.
    pub(crate) payloads: Vec<String>,
    after_commit: Vec<NotifyTarget>,
}

impl Drop for CommitNotices {
    fn drop(&mut self) {
        for target in self.after_commit.drain(..) {
            self.notices.queued(target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_reaches_whom_it_concerns() {
        for (whom, a, b) in [
            (NotifyTarget::Pool("a".to_owned()), true, false),
            (NotifyTarget::OtherPools("a".to_owned()), false, true),
            (NotifyTarget::All, true, true),
            (NotifyTarget::Delayed, false, false),
            (NotifyTarget::Pool("!a".to_owned()), false, false),
        ] {
            let read = NotifyTarget::read(&whom.payload());
            assert_eq!(read, whom);
            assert_eq!((read.concerns("a"), read.concerns("b")), (a, b), "{whom:?}");
        }
        assert_eq!(NotifyTarget::read(""), NotifyTarget::All);
        assert_eq!(NotifyTarget::read("éa"), NotifyTarget::All);
    }
}
