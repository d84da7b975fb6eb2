//! Claim: free slots and queue rows, SKIP LOCKED; no session lock, and nothing to wait for.

use super::guard::Guard;
use super::protocol::Protocol;
use super::rows::{Fault, Held, Holder, Slot, SlotId, World};
use super::transaction::{Actor, Outcome, Step, Tx};

/// The snapshot of the first statement: the free slots, and how many tasks there are to put in them.
pub fn look(protocol: &Protocol, world: &World, actor: Actor, tx: &mut Tx) {
    let cap = world.limits.seen_by(actor).cap;
    let is_free = |n: &SlotId| {
        let slot = world.slots[*n].seen_by(actor);
        let is_open = if protocol.drops(Guard::OpenFlag) { *n < cap } else { slot.open };
        is_open && slot.holder.is_none()
    };
    let room = protocol.batch - world.held[actor].len();
    let waiting = world.queue.iter().filter(|entry| entry.is_seen_by(actor)).count();
    tx.count = room.min(waiting);
    if protocol.drops(Guard::SlotRow) {
        tx.count = tx.count.min(cap.saturating_sub(world.occupied()));
    } else {
        tx.slots = (0..world.slots.len()).filter(is_free).collect();
    }
}

/// The lock of the first statement looks at the newest version of each row.
pub fn lock_slots(protocol: &Protocol, world: &mut World, actor: Actor, tx: &mut Tx) -> Outcome {
    if protocol.drops(Guard::SlotRow) {
        return Outcome::Next(Step::LockQueueRows);
    }
    let still_free = |n: &SlotId| {
        let Slot { open, holder } = world.slots[*n].committed;
        world.slots[*n].is_free_for(actor) && holder.is_none() && (open || protocol.drops(Guard::OpenFlag))
    };
    tx.slots = tx.slots.iter().copied().filter(still_free).take(tx.count).collect();
    if tx.slots.is_empty() {
        return Outcome::GiveUp;
    }
    tx.slots.iter().for_each(|&n| world.slots[n].lock(actor));
    tx.count = tx.slots.len();
    Outcome::Next(Step::LockQueueRows)
}

pub fn lock_queue_rows(protocol: &Protocol, world: &mut World, actor: Actor, tx: &mut Tx) -> Outcome {
    let mut free: Vec<usize> = (0..world.queue.len())
        .filter(|&place| world.queue[place].is_committed() && world.queue[place].lock.is_none())
        .collect();
    if protocol.drops(Guard::QueueOrder) {
        free.reverse();
    }
    let taken = &free[..tx.count.min(free.len())];
    if taken.is_empty() {
        return Outcome::GiveUp;
    }
    for &place in taken {
        world.queue[place].lock = Some(actor);
        tx.tasks.push(world.queue[place].task);
    }
    let last = taken.iter().max().copied().unwrap_or(0);
    if world.queue[..last].iter().any(|entry| entry.is_committed() && entry.lock.is_none()) {
        world.faults.insert(Fault::OutOfOrder);
    }
    Outcome::Next(Step::Commit)
}

/// The last statement: deletes the queue rows and fills the slots. It touches only rows that this transaction has locked,
/// so it is taken together with the commit.
pub fn fill(protocol: &Protocol, world: &mut World, actor: Actor, tx: &Tx) {
    let mut slots = tx.slots.clone();
    if protocol.drops(Guard::SlotRow) {
        slots.extend((0..world.slots.len()).filter(|n| world.slots[*n].committed.holder.is_none()));
    }
    for (&task, &n) in tx.tasks.iter().zip(&slots) {
        for entry in world.queue.iter_mut().filter(|entry| entry.task == task && entry.lock == Some(actor)) {
            entry.deleted = true;
        }
        world.leases[task] += 1;
        let lease = world.leases[task];
        let row = *world.tasks[task].seen_by(actor);
        let holder = Holder {
            task,
            lease,
            attempt: row.attempt + 1,
            turns_at_claim: row.turns,
            turns: row.turns,
            expired: false,
        };
        let cap = world.limits.committed.cap;
        let is_open = if protocol.drops(Guard::OpenFlag) { n < cap } else { world.slots[n].committed.open };
        if !is_open {
            world.faults.insert(Fault::ClaimIntoClosedSlot);
        }
        let slot = Slot { holder: Some(holder), ..*world.slots[n].seen_by(actor) };
        world.slots[n].write(actor, slot);
        world.held[actor].push(Held { task, lease });
    }
}
