//! The leases that this process holds, as far as it knows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use adjutant_agent::{LeaseId, TaskId};
use adjutant_store::Begun;
use adjutant_store::Draft;
use tokio_util::sync::CancellationToken;

use crate::saying::Saying;

/// One lease, from the claim until its end is written.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) task: TaskId,
    begun: Begun,
    claimed_at: Instant,
    /// Its start is among the events.
    announced: AtomicBool,
    taken_away: CancellationToken,
    renewed_at: Mutex<Instant>,
    stop_after: Duration,
    /// What its model has said since its last turn was stored.
    pub(crate) saying: Mutex<Saying>,
}

impl Hold {
    /// Whether something may be begun under the lease, by this process's own clock.
    pub(crate) fn is_good(&self) -> bool {
        !self.taken_away.is_cancelled() && self.deadline() > Instant::now()
    }

    /// When the lease is no longer good if it is not renewed.
    pub(crate) fn deadline(&self) -> Instant {
        *lock(&self.renewed_at) + self.stop_after
    }

    /// The time is that of the question, not of the answer, which may have been long under way.
    pub(crate) fn renewed(&self, asked_at: Instant) {
        let mut renewed_at = lock(&self.renewed_at);
        *renewed_at = asked_at.max(*renewed_at);
    }

    /// Resolves when somebody took the task away: it was cancelled, or taken over.
    pub(crate) async fn taken_away(&self) {
        self.taken_away.cancelled().await;
    }
}

#[derive(Debug)]
pub(crate) struct Held {
    holds: Mutex<HashMap<LeaseId, Arc<Hold>>>,
    /// Leases that are held no more, and of which the database has a draft.
    drafted: Mutex<Vec<LeaseId>>,
    /// What claims under way may bring.
    reserved: Mutex<usize>,
    concurrency: u16,
    stop_after: Duration,
}

/// Room for what a claim may bring; dropped when it has.
pub(crate) struct Room<'a> {
    held: &'a Held,
    pub(crate) size: u16,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        *lock(&self.held.reserved) -= usize::from(self.size);
    }
}

impl Held {
    pub(crate) fn new(concurrency: u16, stop_after: Duration) -> Self {
        Self {
            holds: Mutex::default(),
            drafted: Mutex::default(),
            reserved: Mutex::default(),
            concurrency,
            stop_after,
        }
    }

    /// All that it could run now, besides what it runs and what other claims under way may bring.
    pub(crate) fn room(&self) -> Room<'_> {
        let mut reserved = lock(&self.reserved);
        let used = u16::try_from(lock(&self.holds).len() + *reserved).unwrap_or(u16::MAX);
        let size = self.concurrency.saturating_sub(used);
        *reserved += usize::from(size);
        Room { held: self, size }
    }

    pub(crate) fn add(&self, begun: Begun, claimed_at: Instant) -> Arc<Hold> {
        let hold = Arc::new(Hold {
            task: begun.task,
            begun,
            claimed_at,
            announced: AtomicBool::new(false),
            taken_away: CancellationToken::new(),
            renewed_at: Mutex::new(claimed_at),
            stop_after: self.stop_after,
            saying: Mutex::default(),
        });
        lock(&self.holds).insert(begun.lease, hold.clone());
        hold
    }

    pub(crate) fn remove(&self, lease: LeaseId) {
        let hold = lock(&self.holds).remove(&lease);
        if hold.is_some_and(|hold| lock(&hold.saying).ends()) {
            lock(&self.drafted).push(lease);
        }
    }

    /// What is to be drafted now, and the leases whose drafts are done with.
    pub(crate) fn drafts(&self, now: Instant) -> (Vec<Draft>, Vec<LeaseId>) {
        let mut gone = std::mem::take(&mut *lock(&self.drafted));
        let mut drafts = Vec::new();
        for (lease, hold) in lock(&self.holds).iter() {
            let mut saying = lock(&hold.saying);
            if let Some((answer, text)) = saying.draft(now) {
                drafts.push(Draft { slot: hold.begun.slot, task: hold.task, lease: *lease, answer, text });
            } else if saying.drops_draft() {
                gone.push(*lease);
            }
        }
        (drafts, gone)
    }

    pub(crate) fn renewed(&self, leases: &[LeaseId], asked_at: Instant) {
        let holds = lock(&self.holds);
        for hold in leases.iter().filter_map(|lease| holds.get(lease)) {
            hold.renewed(asked_at);
        }
    }

    pub(crate) fn has_unannounced(&self) -> bool {
        lock(&self.holds).values().any(|hold| !hold.announced.load(Ordering::Relaxed))
    }

    /// Those that were claimed this long ago, and whose start was not told.
    pub(crate) fn unannounced(&self, age: Duration) -> Vec<Begun> {
        let holds = lock(&self.holds);
        let due = holds.values().filter(|hold| !hold.announced.load(Ordering::Relaxed));
        due.filter(|hold| hold.claimed_at.elapsed() >= age).map(|hold| hold.begun).collect()
    }

    pub(crate) fn announced(&self, leases: &[LeaseId]) {
        let holds = lock(&self.holds);
        for hold in leases.iter().filter_map(|lease| holds.get(lease)) {
            hold.announced.store(true, Ordering::Relaxed);
        }
    }

    /// Stops whatever runs under these leases.
    pub(crate) fn lost(&self, leases: &[LeaseId]) {
        let holds = lock(&self.holds);
        for hold in leases.iter().filter_map(|lease| holds.get(lease)) {
            if !hold.taken_away.is_cancelled() {
                tracing::info!(task.id = %hold.task, "task {} was cancelled or taken over", hold.task);
                hold.taken_away.cancel();
            }
        }
    }

    pub(crate) fn leases(&self) -> Vec<LeaseId> {
        lock(&self.holds).keys().copied().collect()
    }

    /// Slot, task and lease of each.
    pub(crate) fn all(&self) -> Vec<(i32, TaskId, LeaseId)> {
        lock(&self.holds).iter().map(|(lease, hold)| (hold.begun.slot, hold.task, *lease)).collect()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use adjutant_agent::SessionId;

    use super::*;

    const STOP_AFTER: Duration = Duration::from_secs(20);

    #[test]
    fn a_lease_is_good_until_its_deadline_and_no_renewal_takes_time_away() {
        let held = Held::new(2, STOP_AFTER);
        let lease = LeaseId(uuid());
        let now = Instant::now();
        let hold = held.add(begun(lease), now.checked_sub(STOP_AFTER).unwrap_or(now));
        assert!(!hold.is_good());
        held.renewed(&[lease], now);
        assert!(hold.is_good());
        held.renewed(&[lease], now.checked_sub(STOP_AFTER).unwrap_or(now));
        assert!(hold.is_good(), "an old answer that comes late changes nothing");
        held.lost(&[lease]);
        assert!(!hold.is_good());
    }

    #[test]
    fn only_what_can_run_is_asked_for() {
        let held = Held::new(2, STOP_AFTER);
        assert_eq!(held.room().size, 2);
        let room = held.room();
        assert_eq!((room.size, held.room().size), (2, 0), "a claim under way may bring two");
        drop(room);
        let leases: Vec<LeaseId> = (0..3).map(|_| LeaseId(uuid())).collect();
        for lease in &leases {
            held.add(begun(*lease), Instant::now());
        }
        assert_eq!(held.room().size, 0);
        held.remove(leases[0]);
        held.remove(leases[1]);
        assert_eq!(held.room().size, 1);
    }

    #[test]
    fn a_start_is_told_once_and_not_before_its_time() {
        let held = Held::new(2, STOP_AFTER);
        let lease = LeaseId(uuid());
        let begun = begun(lease);
        held.add(begun, Instant::now());
        assert!(held.has_unannounced() && held.unannounced(STOP_AFTER).is_empty());
        assert_eq!(held.unannounced(Duration::ZERO), [begun]);
        held.announced(&[lease]);
        assert!(!held.has_unannounced() && held.unannounced(Duration::ZERO).is_empty());
    }

    fn begun(lease: LeaseId) -> Begun {
        Begun { slot: 1, task: TaskId(uuid()), lease, session: SessionId(1) }
    }

    fn uuid() -> uuid::Uuid {
        uuid::Uuid::new_v4()
    }
}
