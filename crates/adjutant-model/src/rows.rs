//! The rows of the database, with PostgreSQL's visibility rules.

use super::transaction::{Actor, Tx};
use std::collections::BTreeSet;

pub type SessionId = usize;
pub type TaskId = usize;
pub type SlotId = usize;
/// Fresh for each claim of a task. The fence compares (task, lease), so numbering leases per task
/// loses nothing and keeps the states of two histories that differ only in lease ids the same
/// state.
pub type Lease = u8;

/// A row at READ COMMITTED: one writer at a time, everyone else sees the committed version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row<T> {
    pub committed: T,
    pending: Option<T>,
    lock: Option<Actor>,
}

impl<T: Clone> Row<T> {
    pub fn new(committed: T) -> Self {
        Self { committed, pending: None, lock: None }
    }

    /// The version that a statement of `actor` that starts now sees.
    pub fn seen_by(&self, actor: Actor) -> &T {
        match &self.pending {
            Some(pending) if self.lock == Some(actor) => pending,
            Some(_) | None => &self.committed,
        }
    }

    pub fn is_free_for(&self, actor: Actor) -> bool {
        self.lock.is_none_or(|owner| owner == actor)
    }

    pub fn is_locked_by(&self, actor: Actor) -> bool {
        self.lock == Some(actor)
    }

    pub fn lock(&mut self, actor: Actor) {
        assert!(self.is_free_for(actor), "a step took a lock that another actor holds");
        self.lock = Some(actor);
    }

    pub fn write(&mut self, actor: Actor, version: T) {
        self.lock(actor);
        self.pending = Some(version);
    }

    pub fn commit(&mut self, actor: Actor) {
        if self.lock == Some(actor) {
            if let Some(version) = self.pending.take() {
                self.committed = version;
            }
            self.lock = None;
        }
    }

    pub fn roll_back(&mut self, actor: Actor) {
        if self.lock == Some(actor) {
            self.pending = None;
            self.lock = None;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Not spawned yet: there is no row.
    Absent,
    Queued,
    Waiting(On),
    Completed,
    Failed(Failure),
    Cancelled,
}

impl State {
    pub fn is_terminal(self) -> bool {
        matches!(self, State::Completed | State::Failed(_) | State::Cancelled)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum On {
    Dependencies,
    AllChildren,
    AnyChild,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    Reported,
    Dependency,
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    pub state: State,
    pub attempt: u8,
    pub failures: u8,
    pub turns: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    pub task: TaskId,
    pub lease: Lease,
    pub attempt: u8,
    pub turns_at_claim: u8,
    pub turns: u8,
    pub expired: bool,
}

/// The cap is the number of open slots. A closed one is never claimed, but a task may still run in
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Whether there is such a row: growing inserts it, and it stays.
    pub exists: bool,
    pub open: bool,
    pub holder: Option<Holder>,
}

impl Slot {
    pub fn new(open: bool) -> Self {
        Self { exists: open, open, holder: None }
    }

    pub fn is_free(&self) -> bool {
        self.open && self.holder.is_none()
    }
}

/// A queue row; its place in the queue is taken when it is inserted, not when that commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    pub task: TaskId,
    pub front: bool,
    pub inserted_by: Option<Actor>,
    pub lock: Option<Actor>,
    /// Deleted by the transaction that has the lock.
    pub deleted: bool,
}

impl Entry {
    pub fn is_seen_by(&self, actor: Actor) -> bool {
        self.inserted_by.is_none_or(|owner| owner == actor)
            && !(self.deleted && self.lock == Some(actor))
    }

    pub fn is_committed(&self) -> bool {
        self.inserted_by.is_none()
    }
}

/// A lease that a worker believes it holds. It may be wrong, which is why there is a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeldLease {
    pub task: TaskId,
    pub lease: Lease,
    /// The last turn that it knows to be stored.
    pub turns: u8,
}

/// How often each optional action may still happen. It keeps the model finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    pub turns: u8,
    pub releases: u8,
    pub fails: u8,
    pub crashes: u8,
    /// Leases that expire although their worker lives; those of a crashed worker always expire.
    pub expiries: u8,
    /// Transactions that are rolled back, or whose commit's answer is lost, while their client
    /// lives.
    pub aborts: u8,
}

/// A commit that broke a rule about changes; rules about states are properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    ClaimAboveCap,
    ClaimIntoClosedSlot,
    WrongCap,
    StaleWrite,
    TurnStoredTwice,
    TerminalChanged,
    AttemptWentBack,
    OutOfOrder,
    LiveLeaseSwept,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub sessions: Vec<Row<()>>,
    pub tasks: Vec<Row<Task>>,
    /// The number of rows of each task in the append-only table of turns.
    pub turns: Vec<u8>,
    pub queue: Vec<Entry>,
    pub slots: Vec<Row<Slot>>,
    /// Held by a change of the cap, so that there is one at a time.
    pub cap_change: Row<()>,
    /// Last lease given for each task.
    pub leases: Vec<Lease>,
    pub held: Vec<Vec<HeldLease>>,
    pub txs: Vec<Option<Tx>>,
    pub answered: Vec<bool>,
    pub budget: Budget,
    pub faults: BTreeSet<Fault>,
}

impl World {
    pub fn slot_of(&self, actor: Actor, task: TaskId) -> Option<SlotId> {
        self.slots
            .iter()
            .position(|slot| slot.seen_by(actor).holder.is_some_and(|holder| holder.task == task))
    }

    /// The committed holder of a task.
    pub fn holder_of(&self, task: TaskId) -> Option<Holder> {
        self.slots
            .iter()
            .filter_map(|slot| slot.committed.holder)
            .find(|holder| holder.task == task)
    }

    pub fn occupied(&self) -> usize {
        self.slots.iter().filter(|slot| slot.committed.holder.is_some()).count()
    }

    pub fn cap(&self) -> usize {
        self.slots.iter().filter(|slot| slot.committed.open).count()
    }

    /// The number of tasks in closed slots that a statement of `actor` that starts now sees.
    pub fn closed_and_occupied(&self, actor: Actor) -> usize {
        let slots = self.slots.iter().map(|slot| slot.seen_by(actor));
        slots.filter(|slot| !slot.open && slot.holder.is_some()).count()
    }

    pub fn is_queued_for(&self, actor: Actor, task: TaskId) -> bool {
        self.queue.iter().any(|entry| entry.task == task && entry.is_seen_by(actor))
    }

    pub fn forget(&mut self, actor: Actor, task: TaskId, lease: Lease) {
        if let Some(held) = self.held.get_mut(actor) {
            held.retain(|it| (it.task, it.lease) != (task, lease));
        }
    }

    pub fn learn_turn(&mut self, actor: Actor, task: TaskId, lease: Lease, number: u8) {
        let mut held = self.held[actor].iter_mut();
        if let Some(held) = held.find(|it| (it.task, it.lease) == (task, lease)) {
            held.turns = number;
        }
    }

    /// Rolls back the transaction of `actor`.
    pub fn roll_back(&mut self, actor: Actor) {
        self.sessions.iter_mut().for_each(|row| row.roll_back(actor));
        self.tasks.iter_mut().for_each(|row| row.roll_back(actor));
        self.slots.iter_mut().for_each(|row| row.roll_back(actor));
        self.cap_change.roll_back(actor);
        self.queue.retain(|entry| entry.inserted_by != Some(actor));
        for entry in self.queue.iter_mut().filter(|entry| entry.lock == Some(actor)) {
            (entry.lock, entry.deleted) = (None, false);
        }
        self.txs[actor] = None;
    }

    /// Commits the transaction of `actor`.
    pub fn commit(&mut self, actor: Actor) {
        self.sessions.iter_mut().for_each(|row| row.commit(actor));
        self.tasks.iter_mut().for_each(|row| row.commit(actor));
        self.slots.iter_mut().for_each(|row| row.commit(actor));
        self.cap_change.commit(actor);
        self.queue.retain(|entry| !(entry.deleted && entry.lock == Some(actor)));
        for entry in &mut self.queue {
            if entry.lock == Some(actor) {
                entry.lock = None;
            }
            if entry.inserted_by == Some(actor) {
                entry.inserted_by = None;
            }
        }
        self.txs[actor] = None;
    }
}
