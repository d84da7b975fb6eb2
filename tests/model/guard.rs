//! What can be left out of the protocol, to see that the checker notices.

/// Something that the protocol relies on. Dropping one must break a property, else it guards nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// A checkpoint locks the slot row, instead of only looking whether it is there.
    FenceLock,
    /// The fence compares the lease, not only the task.
    FenceLease,
    /// A running task's spawn is fenced.
    SpawnFence,
    /// Whatever changes a session's tasks locks the session first.
    SessionLock,
    /// A claim locks slot rows, instead of counting what runs.
    SlotRow,
    /// A finisher wakes by what it sees after it has the session lock.
    UnconditionalWake,
    /// Cancel looks for slots in a statement of its own, after it has the queue rows.
    FreshSnapshot,
    /// A claim re-checks that the slot itself is open, instead of reading the cap from another row.
    OpenFlag,
    /// A shrink keeps the occupied slots open and closes those that are emptied next.
    Surplus,
    /// The session is locked before the slot.
    LockOrder,
    /// Several slots are locked in the order of their numbers.
    SlotOrder,
    /// The window's room is counted over queue and slots in one statement.
    SingleCount,
    /// A sweep checks again, under the lock, that the lease is expired.
    SweepRecheck,
    /// A claim takes queue rows in order.
    QueueOrder,
}
