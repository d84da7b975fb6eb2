use adjutant_agent::{LeaseId, SessionId, TaskId};

use crate::{StartedAttempt, Store};

/// The right to advance one task in one attempt. It cannot be cloned; the methods that end the
/// attempt consume it.
#[derive(Debug)]
pub struct Lease {
    pub(crate) store: Store,
    pub(crate) task: TaskId,
    pub(crate) id: LeaseId,
    pub(crate) slot: i32,
    pub(crate) session: SessionId,
    pub(crate) attempt: i32,
    pub(crate) answers: i32,
}

impl Lease {
    pub fn id(&self) -> LeaseId {
        self.id
    }

    pub fn task(&self) -> TaskId {
        self.task
    }

    /// The number of the slot whose row is this lease.
    pub fn slot(&self) -> i32 {
        self.slot
    }

    /// The ids that [`Worker::record_starts`](crate::Worker::record_starts) needs.
    pub fn started_attempt(&self) -> StartedAttempt {
        StartedAttempt { slot: self.slot, task: self.task, lease: self.id, session: self.session }
    }

    /// The store that it writes to.
    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The number of this attempt; it only grows.
    pub fn attempt(&self) -> i32 {
        self.attempt
    }

    /// The number of model answers stored so far, by this attempt and earlier ones.
    pub fn answers(&self) -> i32 {
        self.answers
    }
}
