use adjutant_agent::{LeaseId, SessionId, TaskId};

use crate::{Begun, Store};

/// The right to advance one task at one attempt. It cannot be copied; what ends the attempt consumes it.
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

    /// The number of the slot that it is.
    pub fn slot(&self) -> i32 {
        self.slot
    }

    /// What its start is told by.
    pub fn begun(&self) -> Begun {
        Begun { slot: self.slot, task: self.task, lease: self.id, session: self.session }
    }

    /// Where it writes.
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

    /// Model answers stored so far, by this attempt and those before it.
    pub fn answers(&self) -> i32 {
        self.answers
    }
}
