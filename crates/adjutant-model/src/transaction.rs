//! A transaction in flight: its verb, its next statement, and the results of its statements so far.

use super::rows::{Lease, SessionId, SlotId, TaskId};

/// An actor, which has at most one transaction in flight: workers, then sweepers, then one per
/// request.
pub type Actor = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    Complete,
    Fail,
    Release,
    Wait,
    /// Not by its worker: a sweep found the lease expired.
    Lost,
}

/// One attempt that a transaction is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ending {
    pub task: TaskId,
    pub lease: Lease,
    pub end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    Claim,
    /// Stores the turn of this number.
    Checkpoint(TaskId, Lease, u8),
    Renew(TaskId, Lease),
    End(TaskId, Lease, End),
    /// Completes all that the worker holds, in one transaction.
    EndAll,
    /// A running task spawns a child, so the spawn is a write of its worker and fenced like any
    /// other.
    SpawnChild(TaskId, Lease, TaskId),
    Spawn(TaskId),
    Cancel(TaskId),
    /// Takes back all whose lease is expired when it looks, in one transaction.
    Sweep,
    SetCap(usize),
}

impl Verb {
    /// The lease that a worker's write names.
    pub fn lease(self) -> Option<(TaskId, Lease)> {
        match self {
            Verb::Checkpoint(task, lease, _)
            | Verb::Renew(task, lease)
            | Verb::End(task, lease, _)
            | Verb::SpawnChild(task, lease, _) => Some((task, lease)),
            Verb::Claim
            | Verb::EndAll
            | Verb::Spawn(_)
            | Verb::Cancel(_)
            | Verb::Sweep
            | Verb::SetCap(_) => None,
        }
    }
}

/// The next statement. Statements are one step only where no other transaction can see a
/// difference: a write to locked rows is invisible until the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    LockSession,
    /// Locks the slot row by (task, lease), and may write it.
    Fence,
    DeleteQueueRows,
    /// Locks the next slot that is to be emptied, and empties it.
    EmptySlots,
    /// Writes the tasks that end, wake up or are new; then counts the window's room.
    Settle,
    /// Only without `Guard::SingleCount`.
    CountSlots,
    Admit,
    /// Tries the next of the free slots that the claim saw.
    LockFreeSlots,
    /// Counts the closed slots that are occupied once more, now that the free ones are locked.
    Recount,
    LockQueueRows,
    LockCapChange,
    LockAllSlots,
    Resize,
    Commit,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tx {
    pub verb: Verb,
    pub step: Step,
    /// The sessions that it locks, in this order; from `Admit` on, those whose next tasks are still
    /// to be admitted.
    pub sessions: Vec<SessionId>,
    /// Claim: free slots seen, then those it may fill. Others: slots still to lock.
    pub slots: Vec<SlotId>,
    /// Claim: the most slots that it locks.
    pub limit: usize,
    /// Claim: the occupied closed slots of its snapshot; only without `Guard::Recount`.
    pub reserve: usize,
    /// Claim: tasks whose queue rows are locked. Cancel: the tree.
    pub tasks: Vec<TaskId>,
    /// Cancel: queue rows seen that are still to delete.
    pub rows: Vec<TaskId>,
    /// The attempts that it is asked to end, then those that it does end.
    pub requested: Vec<Ending>,
    pub ends: Vec<Ending>,
    /// The tasks of the session that are in the queue or in a slot.
    pub hot: Vec<TaskId>,
    /// The parents that an end would wake, read before the lock; only without
    /// `Guard::UnconditionalWake`.
    pub wake: Vec<TaskId>,
}

impl Tx {
    pub fn new(verb: Verb, step: Step) -> Self {
        Self {
            verb,
            step,
            sessions: vec![],
            slots: vec![],
            limit: 0,
            reserve: 0,
            tasks: vec![],
            rows: vec![],
            requested: vec![],
            ends: vec![],
            hot: vec![],
            wake: vec![],
        }
    }
}

/// The result of a statement.
pub enum Outcome {
    /// It waits for a row lock.
    Blocked,
    Next(Step),
    /// The transaction ends without a write, and its client keeps its leases.
    Done,
    /// The verb has nothing (more) to do, or has lost its lease: the transaction wrote nothing.
    GiveUp,
}
