//! The leases that this process holds, as far as it knows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use adjutant_agent::{LeaseId, TaskId};
use adjutant_store::Draft;
use adjutant_store::StartedAttempt;
use tokio_util::sync::CancellationToken;

use crate::answer_draft::AnswerDraft;

/// One lease, from the claim until its end is stored.
#[derive(Debug)]
pub(crate) struct HeldLease {
    pub(crate) task: TaskId,
    attempt: StartedAttempt,
    claimed_at: Instant,
    /// The start event of the attempt is written.
    announced: AtomicBool,
    taken_away: CancellationToken,
    renewed_at: Mutex<Instant>,
    stop_after: Duration,
    /// The text that the model has produced since the last stored turn.
    pub(crate) draft: Mutex<AnswerDraft>,
}

impl HeldLease {
    /// Whether this worker may start a step under the lease, by its own clock.
    pub(crate) fn is_valid(&self) -> bool {
        !self.taken_away.is_cancelled() && self.deadline() > Instant::now()
    }

    /// When the lease stops being valid unless it is renewed.
    pub(crate) fn deadline(&self) -> Instant {
        *lock(&self.renewed_at) + self.stop_after
    }

    /// Takes the time of the request, not of the response, which may have been delayed.
    pub(crate) fn renewed(&self, requested_at: Instant) {
        let mut renewed_at = lock(&self.renewed_at);
        *renewed_at = requested_at.max(*renewed_at);
    }

    /// Resolves when the task was cancelled or taken over.
    pub(crate) async fn taken_away(&self) {
        self.taken_away.cancelled().await;
    }
}

#[derive(Debug)]
pub(crate) struct LeaseTable {
    leases: Mutex<HashMap<LeaseId, Arc<HeldLease>>>,
    /// Leases that are no longer held, but of which the database may have a draft.
    obsolete_drafts: Mutex<Vec<LeaseId>>,
    /// Tasks that claims under way may return.
    reserved: Mutex<usize>,
    concurrency: u16,
    stop_after: Duration,
}

/// Capacity that is reserved for a claim until this is dropped.
pub(crate) struct Room<'a> {
    table: &'a LeaseTable,
    pub(crate) size: u16,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        *lock(&self.table.reserved) -= usize::from(self.size);
    }
}

impl LeaseTable {
    pub(crate) fn new(concurrency: u16, stop_after: Duration) -> Self {
        Self {
            leases: Mutex::default(),
            obsolete_drafts: Mutex::default(),
            reserved: Mutex::default(),
            concurrency,
            stop_after,
        }
    }

    /// Reserves the capacity that is neither in use nor reserved by another claim.
    pub(crate) fn room(&self) -> Room<'_> {
        let mut reserved = lock(&self.reserved);
        let used = u16::try_from(lock(&self.leases).len() + *reserved).unwrap_or(u16::MAX);
        let size = self.concurrency.saturating_sub(used);
        *reserved += usize::from(size);
        Room { table: self, size }
    }

    pub(crate) fn add(&self, attempt: StartedAttempt, claimed_at: Instant) -> Arc<HeldLease> {
        let held = Arc::new(HeldLease {
            task: attempt.task,
            attempt,
            claimed_at,
            announced: AtomicBool::new(false),
            taken_away: CancellationToken::new(),
            renewed_at: Mutex::new(claimed_at),
            stop_after: self.stop_after,
            draft: Mutex::default(),
        });
        lock(&self.leases).insert(attempt.lease, held.clone());
        held
    }

    pub(crate) fn remove(&self, lease: LeaseId) {
        let held = lock(&self.leases).remove(&lease);
        if held.is_some_and(|held| lock(&held.draft).finish()) {
            lock(&self.obsolete_drafts).push(lease);
        }
    }

    /// The drafts that are due, and the leases whose drafts are obsolete.
    pub(crate) fn drafts(&self, now: Instant) -> (Vec<Draft>, Vec<LeaseId>) {
        let mut obsolete = std::mem::take(&mut *lock(&self.obsolete_drafts));
        let mut drafts = Vec::new();
        for (lease, held) in lock(&self.leases).iter() {
            let mut draft = lock(&held.draft);
            if let Some((answer, text)) = draft.due(now) {
                drafts.push(Draft {
                    slot: held.attempt.slot,
                    task: held.task,
                    lease: *lease,
                    answer,
                    text,
                });
            } else if draft.take_obsolete() {
                obsolete.push(*lease);
            }
        }
        (drafts, obsolete)
    }

    pub(crate) fn renewed(&self, ids: &[LeaseId], requested_at: Instant) {
        let leases = lock(&self.leases);
        for held in ids.iter().filter_map(|lease| leases.get(lease)) {
            held.renewed(requested_at);
        }
    }

    pub(crate) fn has_unannounced(&self) -> bool {
        lock(&self.leases).values().any(|held| !held.announced.load(Ordering::Relaxed))
    }

    /// Leases of at least this age without a start event.
    pub(crate) fn unannounced(&self, age: Duration) -> Vec<StartedAttempt> {
        let leases = lock(&self.leases);
        let due = leases.values().filter(|held| !held.announced.load(Ordering::Relaxed));
        due.filter(|held| held.claimed_at.elapsed() >= age).map(|held| held.attempt).collect()
    }

    pub(crate) fn announced(&self, ids: &[LeaseId]) {
        let leases = lock(&self.leases);
        for held in ids.iter().filter_map(|lease| leases.get(lease)) {
            held.announced.store(true, Ordering::Relaxed);
        }
    }

    /// Stops the attempts under these leases.
    pub(crate) fn lost(&self, ids: &[LeaseId]) {
        let leases = lock(&self.leases);
        for held in ids.iter().filter_map(|lease| leases.get(lease)) {
            if !held.taken_away.is_cancelled() {
                tracing::debug!(task.id = %held.task, "the lease of task {} is lost", held.task);
                held.taken_away.cancel();
            }
        }
    }

    pub(crate) fn ids(&self) -> Vec<LeaseId> {
        lock(&self.leases).keys().copied().collect()
    }

    /// Slot, task and lease of each held lease.
    pub(crate) fn all(&self) -> Vec<(i32, TaskId, LeaseId)> {
        lock(&self.leases)
            .iter()
            .map(|(lease, held)| (held.attempt.slot, held.task, *lease))
            .collect()
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
    fn a_lease_is_valid_until_its_deadline_and_no_renewal_shortens_it() {
        let table = LeaseTable::new(2, STOP_AFTER);
        let lease = LeaseId(uuid());
        let now = Instant::now();
        let held = table.add(started_attempt(lease), now.checked_sub(STOP_AFTER).unwrap_or(now));
        assert!(!held.is_valid());
        table.renewed(&[lease], now);
        assert!(held.is_valid());
        table.renewed(&[lease], now.checked_sub(STOP_AFTER).unwrap_or(now));
        assert!(held.is_valid(), "a delayed response changes nothing");
        table.lost(&[lease]);
        assert!(!held.is_valid());
    }

    #[test]
    fn a_claim_requests_no_more_than_the_free_capacity() {
        let table = LeaseTable::new(2, STOP_AFTER);
        assert_eq!(table.room().size, 2);
        let room = table.room();
        assert_eq!((room.size, table.room().size), (2, 0), "a claim under way may return two");
        drop(room);
        let leases: Vec<LeaseId> = (0..3).map(|_| LeaseId(uuid())).collect();
        for lease in &leases {
            table.add(started_attempt(*lease), Instant::now());
        }
        assert_eq!(table.room().size, 0);
        table.remove(leases[0]);
        table.remove(leases[1]);
        assert_eq!(table.room().size, 1);
    }

    #[test]
    fn a_start_event_is_written_once_and_not_too_early() {
        let table = LeaseTable::new(2, STOP_AFTER);
        let lease = LeaseId(uuid());
        let attempt = started_attempt(lease);
        table.add(attempt, Instant::now());
        assert!(table.has_unannounced() && table.unannounced(STOP_AFTER).is_empty());
        assert_eq!(table.unannounced(Duration::ZERO), [attempt]);
        table.announced(&[lease]);
        assert!(!table.has_unannounced() && table.unannounced(Duration::ZERO).is_empty());
    }

    fn started_attempt(lease: LeaseId) -> StartedAttempt {
        StartedAttempt { slot: 1, task: TaskId(uuid()), lease, session: SessionId(1) }
    }

    fn uuid() -> uuid::Uuid {
        uuid::Uuid::new_v4()
    }
}
