//! The fence: every write of a worker, and every sweep, begins with the slot row of (task, lease).

use super::cap;
use super::guard::Guard;
use super::protocol::Protocol;
use super::rows::{Holder, Slot, SlotId, Task, World};
use super::transaction::{Actor, Outcome, Step, Tx, Verb};

pub fn fence(protocol: &Protocol, world: &mut World, actor: Actor, tx: &Tx) -> Outcome {
    let Some((n, holder)) = find(protocol, world, actor, tx.verb) else { return Outcome::GiveUp };
    let is_checkpoint = matches!(tx.verb, Verb::Checkpoint(..));
    if is_checkpoint && protocol.drops(Guard::FenceLock) {
        return Outcome::Next(Step::Commit);
    }
    if !world.slots[n].is_free_for(actor) {
        return Outcome::Blocked;
    }
    match tx.verb {
        Verb::Checkpoint(..) | Verb::Renew(..) => {
            let turns = holder.turns + u8::from(is_checkpoint);
            let slot =
                Slot { holder: Some(Holder { turns, expired: false, ..holder }), ..world.slots[n].committed };
            world.slots[n].write(actor, slot);
            Outcome::Next(Step::Commit)
        }
        Verb::SpawnChild(..) => {
            world.slots[n].lock(actor);
            Outcome::Next(Step::Settle)
        }
        Verb::Sweep(..) if !holder.expired && !protocol.drops(Guard::SweepRecheck) => Outcome::GiveUp,
        Verb::End(..) | Verb::Sweep(..) => {
            if !world.tasks[holder.task].is_free_for(actor) {
                return Outcome::Blocked;
            }
            let lost = matches!(tx.verb, Verb::Sweep(..)) && holder.turns == holder.turns_at_claim;
            empty(world, actor, n, holder);
            if lost {
                let task = *world.tasks[holder.task].seen_by(actor);
                world.tasks[holder.task].write(actor, Task { failures: task.failures + 1, ..task });
            }
            // Reversed, the session lock is still to come.
            let reversed = protocol.drops(Guard::LockOrder) && matches!(tx.verb, Verb::End(..));
            Outcome::Next(if reversed { Step::LockSession } else { cap::after_emptying(world, actor) })
        }
        Verb::Claim | Verb::Spawn(_) | Verb::Cancel(_) | Verb::SetCap(_) => {
            unreachable!("{:?} has no lease", tx.verb)
        }
    }
}

fn find(protocol: &Protocol, world: &World, actor: Actor, verb: Verb) -> Option<(SlotId, Holder)> {
    let (task, lease) = match verb {
        Verb::Sweep(task, lease) => (task, lease),
        Verb::Claim
        | Verb::Checkpoint(..)
        | Verb::Renew(..)
        | Verb::End(..)
        | Verb::SpawnChild(..)
        | Verb::Spawn(_)
        | Verb::Cancel(_)
        | Verb::SetCap(_) => verb.lease()?,
    };
    let n = world.slot_of(actor, task)?;
    let holder = world.slots[n].seen_by(actor).holder?;
    let any_lease = protocol.drops(Guard::FenceLease) && verb.lease().is_some();
    (holder.lease == lease || any_lease).then_some((n, holder))
}

/// Empties the slot; what changed while the task ran moves to the task.
pub fn empty(world: &mut World, actor: Actor, n: SlotId, holder: Holder) {
    let task = *world.tasks[holder.task].seen_by(actor);
    world.tasks[holder.task].write(actor, Task { attempt: holder.attempt, turns: holder.turns, ..task });
    let slot = Slot { holder: None, ..*world.slots[n].seen_by(actor) };
    world.slots[n].write(actor, slot);
}
