//! The guards of the protocol, each of which can be left out to test the checker.

/// A rule that the protocol relies on. Without it, a property must fail; otherwise the guard is
/// useless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// A checkpoint locks the slot row, instead of only reading it.
    FenceLock,
    /// The fence compares the lease, not only the task.
    FenceLease,
    /// A checkpoint names the turn that it stores.
    TurnNumber,
    /// A running task's spawn is fenced.
    SpawnFence,
    /// A transaction that changes a session's tasks locks the session first.
    SessionLock,
    /// A claim locks slot rows, instead of counting what runs.
    SlotRow,
    /// An end decides which parents to wake after it has the session lock.
    UnconditionalWake,
    /// Cancel reads the slots in a separate statement, after it has locked the queue rows.
    FreshSnapshot,
    /// A claim re-checks, in the row that it locks, that the slot is open.
    OpenFlag,
    /// A claim keeps an open slot empty for each task in a closed one.
    Reserve,
    /// A claim counts those tasks again once it has its locks.
    Recount,
    /// A claim locks slots for them besides those that it wants to fill.
    Headroom,
    /// It locks them, instead of counting how many others are free.
    ReserveLock,
    /// A change of the cap locks all slots, not only those that it opens or closes.
    AllSlots,
    /// There is one change of the cap at a time.
    CapMutex,
    /// The session is locked before the slot.
    LockOrder,
    /// Several sessions are locked in the order of their ids.
    SessionOrder,
    /// Several slots are locked in the order of their numbers.
    SlotOrder,
    /// The window's room is counted over queue and slots in one statement.
    SingleCount,
    /// A sweep checks again, under the lock, that the lease is expired.
    SweepRecheck,
    /// A claim takes queue rows in order.
    QueueOrder,
}
