//! A transaction in flight: what it is for, which statement is next, and what its statements told it so far.

use super::rows::{Lease, SlotId, TaskId};

/// Whoever may have one transaction in flight: workers first, then sweepers, then one per request.
pub type Actor = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    Complete,
    Fail,
    Release,
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    Claim,
    Checkpoint(TaskId, Lease),
    Renew(TaskId, Lease),
    End(TaskId, Lease, End),
    /// A running task spawns a child, so the spawn is a write of its worker and fenced like any other.
    SpawnChild(TaskId, Lease, TaskId),
    Spawn(TaskId),
    Cancel(TaskId),
    Sweep(TaskId, Lease),
    SetCap(usize),
}

impl Verb {
    /// The lease under which a worker writes, if this is a worker's write.
    pub fn lease(self) -> Option<(TaskId, Lease)> {
        match self {
            Verb::Checkpoint(task, lease)
            | Verb::Renew(task, lease)
            | Verb::End(task, lease, _)
            | Verb::SpawnChild(task, lease, _) => Some((task, lease)),
            Verb::Claim | Verb::Spawn(_) | Verb::Cancel(_) | Verb::Sweep(..) | Verb::SetCap(_) => None,
        }
    }

    /// The task whose session the verb locks.
    pub fn subject(self) -> Option<TaskId> {
        match self {
            Verb::Checkpoint(task, _)
            | Verb::Renew(task, _)
            | Verb::End(task, ..)
            | Verb::SpawnChild(task, ..)
            | Verb::Spawn(task)
            | Verb::Cancel(task)
            | Verb::Sweep(task, _) => Some(task),
            Verb::Claim | Verb::SetCap(_) => None,
        }
    }
}

/// The next statement. Statements are taken together only where no other transaction could tell: a write to rows that
/// are locked already is invisible until the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    LockSession,
    /// Locks the slot row by (task, lease), and empties or renews it.
    Fence,
    DeleteQueueRows,
    EmptySlots,
    TakeSurplus,
    /// Writes the tasks that end, wake up or are new; then counts the room in the window.
    Settle,
    /// Only without `Guard::SingleCount`.
    CountSlots,
    LetIn,
    LockFreeSlots,
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
    /// Claim: free slots seen, then locked. Cancel, change of the cap: slots still to lock.
    pub slots: Vec<SlotId>,
    /// Claim: tasks whose queue rows are locked. Cancel: the tree.
    pub tasks: Vec<TaskId>,
    /// Cancel: queue rows seen that are still to delete.
    pub rows: Vec<TaskId>,
    /// Claim: how many it wants. Others: the room in the session's window.
    pub count: usize,
    /// Whom the finisher would wake by what it saw before it had the lock; only without `Guard::UnconditionalWake`.
    pub wake: Vec<TaskId>,
}

impl Tx {
    pub fn new(verb: Verb, step: Step) -> Self {
        Self { verb, step, slots: vec![], tasks: vec![], rows: vec![], count: 0, wake: vec![] }
    }
}

/// What became of a statement.
pub enum Outcome {
    /// It waits for a row lock.
    Blocked,
    Next(Step),
    /// The verb has nothing (more) to do, or has lost its lease: the transaction writes nothing.
    GiveUp,
}
