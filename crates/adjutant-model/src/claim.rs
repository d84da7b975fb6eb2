//! Claim: locks free slots and queue rows with SKIP LOCKED. It takes no session lock and never
//! waits.

use super::guard::Guard;
use super::protocol::Protocol;
use super::rows::{Fault, HeldLease, Holder, Slot, SlotId, World};
use super::transaction::{Actor, Outcome, Step, Tx, Verb};

/// The snapshot of the first statement: the free slots, and how many of them to lock. Besides the
/// slots that it fills, a claim locks one for each task in a closed slot, so that these stay empty.
pub fn read(protocol: &Protocol, world: &World, actor: Actor, tx: &mut Tx) {
    let room = protocol.batch - world.held[actor].len();
    let waiting = world.queue.iter().filter(|entry| entry.is_seen_by(actor)).count();
    tx.limit = room.min(waiting);
    if protocol.drops(Guard::SlotRow) {
        tx.limit = tx.limit.min(world.cap().saturating_sub(world.occupied()));
        return;
    }
    tx.slots =
        (0..world.slots.len()).filter(|n| world.slots[*n].seen_by(actor).is_free()).collect();
    let reserve = world.closed_and_occupied(actor);
    let locks_reserve = ![Guard::Reserve, Guard::Headroom, Guard::ReserveLock]
        .into_iter()
        .any(|guard| protocol.drops(guard));
    if locks_reserve {
        tx.limit += reserve;
    }
    if protocol.drops(Guard::Recount) {
        tx.reserve = reserve;
    }
}

/// Whether a claim that starts now would lock anything.
pub fn sees_work(protocol: &Protocol, world: &World, actor: Actor) -> bool {
    let mut tx = Tx::new(Verb::Claim, Step::LockFreeSlots);
    read(protocol, world, actor, &mut tx);
    tx.limit > 0 && (protocol.drops(Guard::SlotRow) || !tx.slots.is_empty())
}

/// One row of the first statement: it was free in the snapshot, and is locked if its newest version
/// is free and not locked.
pub fn lock_free_slot(
    protocol: &Protocol,
    world: &mut World,
    actor: Actor,
    tx: &mut Tx,
) -> Outcome {
    if protocol.drops(Guard::SlotRow) {
        return Outcome::Next(Step::LockQueueRows);
    }
    let row = &mut world.slots[tx.slots.remove(0)];
    let is_open = row.committed.open || protocol.drops(Guard::OpenFlag);
    if row.is_free_for(actor) && row.committed.holder.is_none() && is_open {
        row.lock(actor);
    }
    let locked = locked_by(world, actor).len();
    if locked < tx.limit && !tx.slots.is_empty() {
        return Outcome::Next(Step::LockFreeSlots);
    }
    tx.slots.clear();
    if locked == 0 {
        return Outcome::GiveUp;
    }
    if reserve(protocol, world, actor, tx) == 0 {
        // A change of the cap needs these locks, so none of the slots can be closed before the
        // commit.
        return recount(protocol, world, actor, tx);
    }
    Outcome::Next(Step::Recount)
}

/// The second statement. While the locks are held, every shrink has committed or waits for them, so
/// the count can only fall.
pub fn recount(protocol: &Protocol, world: &World, actor: Actor, tx: &mut Tx) -> Outcome {
    let reserve = reserve(protocol, world, actor, tx);
    tx.slots = locked_by(world, actor).into_iter().skip(reserve).collect();
    if tx.slots.is_empty() { Outcome::GiveUp } else { Outcome::Next(Step::LockQueueRows) }
}

fn reserve(protocol: &Protocol, world: &World, actor: Actor, tx: &Tx) -> usize {
    if protocol.drops(Guard::Reserve) {
        0
    } else if protocol.drops(Guard::Recount) {
        tx.reserve
    } else if protocol.drops(Guard::ReserveLock) {
        let free = world
            .slots
            .iter()
            .filter(|row| !row.is_locked_by(actor) && row.committed.is_free())
            .count();
        world.closed_and_occupied(actor).saturating_sub(free)
    } else {
        world.closed_and_occupied(actor)
    }
}

fn locked_by(world: &World, actor: Actor) -> Vec<SlotId> {
    (0..world.slots.len()).filter(|n| world.slots[*n].is_locked_by(actor)).collect()
}

/// The number of tasks that a claim without concurrent transactions gets.
pub fn alone(protocol: &Protocol, world: &World, worker: Actor) -> usize {
    if !sees_work(protocol, world, worker) {
        return 0;
    }
    let after = protocol.run_alone(world, worker, Verb::Claim);
    after.held[worker].len() - world.held[worker].len()
}

pub fn lock_queue_rows(
    protocol: &Protocol,
    world: &mut World,
    actor: Actor,
    tx: &mut Tx,
) -> Outcome {
    let mut free: Vec<usize> = (0..world.queue.len())
        .filter(|&place| world.queue[place].is_committed() && world.queue[place].lock.is_none())
        .collect();
    if protocol.drops(Guard::QueueOrder) {
        free.reverse();
    }
    let room = if protocol.drops(Guard::SlotRow) { tx.limit } else { tx.slots.len() };
    let taken = &free[..room.min(free.len())];
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

/// The last statement: deletes the queue rows and fills the slots. It writes only rows that this
/// transaction has locked, so it is one step with the commit.
pub fn fill(protocol: &Protocol, world: &mut World, actor: Actor, tx: &Tx) {
    let mut slots = tx.slots.clone();
    if protocol.drops(Guard::SlotRow) {
        slots.extend((0..world.slots.len()).filter(|n| world.slots[*n].committed.holder.is_none()));
    }
    for (&task, &n) in tx.tasks.iter().zip(&slots) {
        for entry in
            world.queue.iter_mut().filter(|entry| entry.task == task && entry.lock == Some(actor))
        {
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
        if !world.slots[n].committed.open {
            world.faults.insert(Fault::ClaimIntoClosedSlot);
        }
        let slot = Slot { holder: Some(holder), ..*world.slots[n].seen_by(actor) };
        world.slots[n].write(actor, slot);
        world.held[actor].push(HeldLease { task, lease, turns: row.turns });
    }
}
