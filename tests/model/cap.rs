//! The cap: as many slots are open as it says, plus the surplus that a shrink found occupied.
//!
//! An occupied slot is always open. While there is a surplus, whoever empties a slot closes it and lowers the surplus, so
//! use only falls until it fits, whichever tasks end first. Closing slots by number instead lets a claim into a low free
//! slot while a high closed one is still occupied (`Guard::Surplus`).

use super::guard::Guard;
use super::protocol::Protocol;
use super::rows::{Limits, Slot, SlotId, World};
use super::transaction::{Actor, Outcome, Step, Tx, Verb};

/// The statement after one that emptied slots. A change of the cap locks every slot, so while this transaction has one
/// locked the surplus can only fall, and none now is none later.
pub fn after_emptying(world: &World, actor: Actor) -> Step {
    if world.limits.seen_by(actor).surplus > 0 { Step::TakeSurplus } else { Step::Settle }
}

/// Must wait, not skip: two that end together must not both leave the surplus to the other.
pub fn take_surplus(world: &mut World, actor: Actor) -> Outcome {
    if world.limits.seen_by(actor).surplus > 0 && !world.limits.is_free_for(actor) {
        return Outcome::Blocked;
    }
    let mut limits = *world.limits.seen_by(actor);
    for row in world.slots.iter_mut().filter(|row| row.is_locked_by(actor)) {
        if row.seen_by(actor).holder.is_none() && limits.surplus > 0 {
            row.write(actor, Slot { open: false, holder: None });
            limits.surplus -= 1;
            world.limits.write(actor, limits);
        }
    }
    Outcome::Next(Step::Settle)
}

pub fn lock_cap_change(protocol: &Protocol, world: &mut World, actor: Actor, tx: &mut Tx) -> Outcome {
    if !world.cap_change.is_free_for(actor) {
        return Outcome::Blocked;
    }
    world.cap_change.lock(actor);
    let Verb::SetCap(cap) = tx.verb else { unreachable!("only a change of the cap locks it") };
    let changes =
        |n: &SlotId| !protocol.drops(Guard::Surplus) || world.slots[*n].committed.open != (*n < cap);
    if !protocol.drops(Guard::OpenFlag) {
        tx.slots = (0..world.slots.len()).filter(changes).collect();
    }
    Outcome::Next(if tx.slots.is_empty() { Step::Resize } else { Step::LockAllSlots })
}

pub fn lock_slot(world: &mut World, actor: Actor, tx: &mut Tx) -> Outcome {
    let n = tx.slots[0];
    if !world.slots[n].is_free_for(actor) {
        return Outcome::Blocked;
    }
    world.slots[n].lock(actor);
    tx.slots.remove(0);
    Outcome::Next(if tx.slots.is_empty() { Step::Resize } else { Step::LockAllSlots })
}

pub fn resize(protocol: &Protocol, world: &mut World, actor: Actor, tx: &Tx) -> Outcome {
    let Verb::SetCap(cap) = tx.verb else { unreachable!("only a change of the cap resizes") };
    if !world.limits.is_free_for(actor) {
        return Outcome::Blocked;
    }
    let by_number = protocol.drops(Guard::Surplus);
    let occupied = world.slots.iter().filter(|row| row.seen_by(actor).holder.is_some()).count();
    let mut free = cap.saturating_sub(occupied);
    for (n, row) in world.slots.iter_mut().enumerate().filter(|(_, row)| row.is_locked_by(actor)) {
        let holder = row.seen_by(actor).holder;
        let open = if by_number { n < cap } else { holder.is_some() || free > 0 };
        if open && holder.is_none() {
            free = free.saturating_sub(1);
        }
        row.write(actor, Slot { open, holder });
    }
    let surplus = if by_number || protocol.drops(Guard::OpenFlag) { 0 } else { occupied.saturating_sub(cap) };
    world.limits.write(actor, Limits { cap, surplus });
    Outcome::Next(Step::Commit)
}
