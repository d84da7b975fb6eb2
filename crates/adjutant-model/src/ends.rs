//! The end of attempts, several in one transaction: by their worker, by a sweep or by a cancel.
//! Sessions are locked first, in the order of their ids, then slots, in the order of their numbers.

use super::fence;
use super::guard::Guard;
use super::protocol::Protocol;
use super::rows::{Holder, Slot, SlotId, Task, World};
use super::transaction::{Actor, End, Ending, Outcome, Step, Tx, Verb};

/// The attempts that a worker or a sweep is to end, and their sessions, read without a lock. A lost
/// lease stays lost.
pub fn peek(protocol: &Protocol, world: &World, actor: Actor, tx: &mut Tx) {
    let requested: Vec<Ending> = match tx.verb {
        Verb::End(task, lease, end) => vec![Ending { task, lease, end }],
        Verb::EndAll => world.held[actor]
            .iter()
            .map(|held| Ending { task: held.task, lease: held.lease, end: End::Complete })
            .collect(),
        Verb::Sweep => world
            .slots
            .iter()
            .filter_map(|row| row.seen_by(actor).holder)
            .filter(|holder| holder.expired)
            .map(|holder| Ending { task: holder.task, lease: holder.lease, end: End::Lost })
            .collect(),
        Verb::Claim
        | Verb::Checkpoint(..)
        | Verb::Renew(..)
        | Verb::SpawnChild(..)
        | Verb::Spawn(_)
        | Verb::Cancel(_)
        | Verb::SetCap(_) => unreachable!("{:?} names no attempts to end", tx.verb),
    };
    tx.requested = requested
        .into_iter()
        .filter(|it| fence::find(protocol, world, actor, (it.task, it.lease)).is_some())
        .collect();
    tx.requested.sort_unstable();
    tx.sessions = tx.requested.iter().map(|it| protocol.plans[it.task].session).collect();
    tx.sessions.sort_unstable();
    tx.sessions.dedup();
    if protocol.drops(Guard::SessionOrder) && tx.verb == Verb::Sweep {
        tx.sessions.reverse();
    }
}

/// The slots to lock, in the snapshot of the locking statement. A session's tasks leave slots only
/// under its lock.
pub fn see_slots(protocol: &Protocol, world: &World, actor: Actor, tx: &mut Tx) {
    let is_ours = |n: &SlotId| {
        world.slots[*n].seen_by(actor).holder.is_some_and(|it| ending(protocol, tx, it).is_some())
    };
    tx.slots = (0..world.slots.len()).filter(is_ours).collect();
    if protocol.drops(Guard::SlotOrder) {
        tx.slots.reverse();
    }
}

pub fn next(tx: &Tx) -> Outcome {
    if !tx.slots.is_empty() {
        return Outcome::Next(Step::EmptySlots);
    }
    // Without an end there is no task to admit: `ROOM` holds as before.
    let is_lost = tx.ends.is_empty() && !matches!(tx.verb, Verb::Cancel(_));
    if is_lost { Outcome::GiveUp } else { Outcome::Next(Step::Settle) }
}

/// One row of the statement: the rows were found in its snapshot; each is checked again once it is
/// locked.
pub fn empty_slot(protocol: &Protocol, world: &mut World, actor: Actor, tx: &mut Tx) -> Outcome {
    let n = tx.slots[0];
    if !world.slots[n].is_free_for(actor) {
        return Outcome::Blocked;
    }
    if let Some(holder) = world.slots[n].seen_by(actor).holder
        && let Some(ending) = ending(protocol, tx, holder)
    {
        if !world.tasks[holder.task].is_free_for(actor) {
            return Outcome::Blocked;
        }
        empty(world, actor, n, holder, tx.verb);
        tx.ends.extend(ending);
    }
    tx.slots.remove(0);
    if !tx.slots.is_empty() {
        return Outcome::Next(Step::EmptySlots);
    }
    tx.requested.clear();
    // With reversed lock order, the session lock follows.
    if is_reversed(protocol, tx.verb) && !tx.ends.is_empty() {
        return Outcome::Next(Step::LockSession);
    }
    next(tx)
}

/// Whether the slots are locked before the session.
pub fn is_reversed(protocol: &Protocol, verb: Verb) -> bool {
    protocol.drops(Guard::LockOrder) && matches!(verb, Verb::End(..) | Verb::EndAll)
}

/// Whether the attempt in a slot is one of those that the transaction ends, and for a worker or a
/// sweep, how.
fn ending(protocol: &Protocol, tx: &Tx, holder: Holder) -> Option<Option<Ending>> {
    if let Verb::Cancel(_) = tx.verb {
        return tx.tasks.contains(&holder.task).then_some(None);
    }
    let any_lease = protocol.drops(Guard::FenceLease);
    let ending = *tx
        .requested
        .iter()
        .find(|it| it.task == holder.task && (it.lease == holder.lease || any_lease))?;
    let is_live =
        ending.end == End::Lost && !holder.expired && !protocol.drops(Guard::SweepRecheck);
    (!is_live).then_some(Some(ending))
}

/// Empties the slot, and copies the changes of the attempt to the task.
fn empty(world: &mut World, actor: Actor, n: SlotId, holder: Holder, verb: Verb) {
    let task = *world.tasks[holder.task].seen_by(actor);
    let failures = match verb {
        Verb::Cancel(_) => task.failures,
        _ if holder.turns > holder.turns_at_claim => 0,
        Verb::Sweep => task.failures + 1,
        Verb::End(..) | Verb::EndAll => task.failures,
        Verb::Claim
        | Verb::Checkpoint(..)
        | Verb::Renew(..)
        | Verb::SpawnChild(..)
        | Verb::Spawn(_)
        | Verb::SetCap(_) => unreachable!("{verb:?} empties no slot"),
    };
    world.tasks[holder.task]
        .write(actor, Task { attempt: holder.attempt, turns: holder.turns, failures, ..task });
    let slot = Slot { holder: None, ..*world.slots[n].seen_by(actor) };
    world.slots[n].write(actor, slot);
}
