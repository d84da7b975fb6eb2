//! Notices for workers: tasks are in the queue, leases were taken away. A notice is a hint: workers
//! also poll, so a lost notice costs only latency. Each target gets at most one queue notice per
//! pause. A spawn sends its notice in its own transaction, which saves a round trip. PostgreSQL
//! serializes the commits of transactions with a NOTIFY; the pause keeps most spawns free of one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use adjutant_agent::LeaseId;
use tokio::sync::watch;

use crate::connection_pool::ConnectionPool;

/// The shortest time between two notices to the same target. A notice that falls into the pause is
/// sent at its end.
const PAUSE: Duration = Duration::from_millis(50);

/// The most leases in one notice: NOTIFY takes less than 8,000 bytes.
const MAX_LEASES: usize = 200;

pub(crate) const QUEUE: &str = "adjutant_queue";
pub(crate) const LOST: &str = "adjutant_lost";

/// The workers that a queue notice is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotifyTarget {
    Pool(String),
    OtherPools(String),
    All,
    /// All workers, to poll for a due time: a delayed task or a webhook delivery may be due before
    /// their next poll.
    Delayed,
}

impl NotifyTarget {
    /// Whether workers of this pool should claim.
    pub fn includes(&self, pool: &str) -> bool {
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

    pub(crate) fn parse(payload: &str) -> Self {
        match payload.split_at_checked(1) {
            Some(("=", name)) => Self::Pool(name.to_owned()),
            Some(("!", name)) => Self::OtherPools(name.to_owned()),
            Some(("+", _)) => Self::Delayed,
            // Sent by a later release: a needless claim does no harm.
            _ => Self::All,
        }
    }
}

/// Sends notices to workers, in the background.
#[derive(Debug)]
pub(crate) struct WorkerNotifier {
    pool: Arc<ConnectionPool>,
    /// The targets in a pause, and whether a notice is due at the end of it.
    pausing: Mutex<BTreeMap<NotifyTarget, bool>>,
    /// The number of notices that are being sent; [`WorkerNotifier::flush`] waits until it is 0.
    sending: watch::Sender<usize>,
}

impl WorkerNotifier {
    pub(crate) fn new(pool: Arc<ConnectionPool>) -> Arc<Self> {
        Arc::new(Self { pool, pausing: Mutex::default(), sending: watch::Sender::new(0) })
    }

    /// The notices of a transaction that is about to begin. A target outside of a pause is notified
    /// by the transaction itself, and its pause begins now. A target in a pause is notified after
    /// the transaction: a notice that is sent at the end of the pause can come before the commit,
    /// and workers that poll then do not see the new tasks.
    pub(crate) fn for_commit(
        self: &Arc<Self>,
        targets: impl IntoIterator<Item = NotifyTarget>,
    ) -> CommitNotices {
        let mut notices = CommitNotices {
            notifier: self.clone(),
            payloads: Vec::new(),
            after_commit: Vec::new(),
        };
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

    /// Notifies these workers that tasks are in the queue. Returns at once.
    pub(crate) fn notify_queue(self: &Arc<Self>, target: NotifyTarget) {
        {
            let mut pausing = self.pausing.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(more) = pausing.get_mut(&target) {
                *more = true;
                return;
            }
            pausing.insert(target.clone(), false);
        }
        self.detach(async move |notifier| {
            notifier.send(QUEUE, &target.payload()).await;
            // Detached, so that `flush` does not wait for the pause.
            notifier.detached_pause(target);
        });
    }

    /// Notifies the holders of these leases that they are lost. Returns at once.
    pub(crate) fn notify_lost(self: &Arc<Self>, leases: Vec<LeaseId>) {
        if leases.is_empty() {
            return;
        }
        self.detach(async move |notifier| {
            for chunk in leases.chunks(MAX_LEASES) {
                let ids: Vec<String> = chunk.iter().map(ToString::to_string).collect();
                notifier.send(LOST, &ids.join(" ")).await;
            }
        });
    }

    /// Sends the notices that wait for the end of a pause, and waits until all are sent. For a
    /// process that is about to exit.
    pub(crate) async fn flush(&self) {
        let due: Vec<NotifyTarget> = {
            let mut pausing = self.pausing.lock().unwrap_or_else(PoisonError::into_inner);
            let due = pausing
                .iter_mut()
                .filter_map(|(target, more)| std::mem::take(more).then_some(target));
            due.cloned().collect()
        };
        for target in due {
            self.send(QUEUE, &target.payload()).await;
        }
        // Cannot fail: `self` owns the sender.
        let _ = self.sending.subscribe().wait_for(|sending| *sending == 0).await;
    }

    fn detached_pause(self: Arc<Self>, target: NotifyTarget) {
        tokio::spawn(async move {
            tokio::time::sleep(PAUSE).await;
            let more = self.pausing.lock().unwrap_or_else(PoisonError::into_inner).remove(&target);
            if more == Some(true) {
                self.notify_queue(target);
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
        // A lost notice costs only latency.
        let notify = self.pool.call(async |connection| {
            sqlx::query!("select pg_notify($1, $2)", channel, payload).execute(connection).await
        });
        let _ = notify.await;
    }
}

/// The notices of one spawning transaction. Keep it until the transaction has ended: dropping it
/// sends the notices that the transaction did not send itself.
#[derive(Debug)]
#[must_use = "dropping it sends the notices that must follow the commit"]
pub(crate) struct CommitNotices {
    notifier: Arc<WorkerNotifier>,
    /// For the transaction to send on `QUEUE`.
    pub(crate) payloads: Vec<String>,
    after_commit: Vec<NotifyTarget>,
}

impl Drop for CommitNotices {
    fn drop(&mut self) {
        for target in self.after_commit.drain(..) {
            self.notifier.notify_queue(target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_reaches_the_workers_of_its_target() {
        for (target, a, b) in [
            (NotifyTarget::Pool("a".to_owned()), true, false),
            (NotifyTarget::OtherPools("a".to_owned()), false, true),
            (NotifyTarget::All, true, true),
            (NotifyTarget::Delayed, false, false),
            (NotifyTarget::Pool("!a".to_owned()), false, false),
        ] {
            let parsed = NotifyTarget::parse(&target.payload());
            assert_eq!(parsed, target);
            assert_eq!((parsed.includes("a"), parsed.includes("b")), (a, b), "{target:?}");
        }
        assert_eq!(NotifyTarget::parse(""), NotifyTarget::All);
        assert_eq!(NotifyTarget::parse("éa"), NotifyTarget::All);
    }
}
