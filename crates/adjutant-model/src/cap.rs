//! The cap: a slot is open if its number is not above it. There is no counter of excess tasks after
//! a shrink: for each task that still runs in a closed slot, claims keep an open slot empty.

use super::guard::Guard;
use super::protocol::Protocol;
use super::rows::{Slot, World};
use super::transaction::{Actor, Outcome, Step, Tx, Verb};

/// Locks the rows in a statement after that of the mutex, so that it sees the rows that the last
/// change added.
pub fn lock_cap_change(
    protocol: &Protocol,
    world: &mut World,
    actor: Actor,
    tx: &mut Tx,
) -> Outcome {
    if !protocol.drops(Guard::CapMutex) {
        if !world.cap_change.is_free_for(actor) {
            return Outcome::Blocked;
        }
        world.cap_change.lock(actor);
    }
    let cap = cap_of(tx);
    let rows = world
        .slots
        .iter()
        .map(|row| row.seen_by(actor))
        .enumerate()
        .filter(|(_, slot)| slot.exists);
    let changed = |n: usize, slot: &Slot| slot.open != (n < cap);
    tx.slots = rows
        .filter(|(n, slot)| !protocol.drops(Guard::AllSlots) || changed(*n, slot))
        .map(|(n, _)| n)
        .collect();
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

/// Opens and closes slots, and inserts missing rows.
pub fn resize(world: &mut World, actor: Actor, tx: &Tx) -> Outcome {
    let cap = cap_of(tx);
    let changes = |n: usize, world: &World| world.slots[n].seen_by(actor).open != (n < cap);
    let changed: Vec<usize> = (0..world.slots.len()).filter(|&n| changes(n, world)).collect();
    if changed.iter().any(|&n| !world.slots[n].is_free_for(actor)) {
        return Outcome::Blocked;
    }
    for n in changed {
        let slot = Slot { exists: true, open: n < cap, ..*world.slots[n].seen_by(actor) };
        world.slots[n].write(actor, slot);
    }
    Outcome::Next(Step::Commit)
}

fn cap_of(tx: &Tx) -> usize {
    let Verb::SetCap(cap) = tx.verb else { unreachable!("{:?} changes no cap", tx.verb) };
    cap
}
