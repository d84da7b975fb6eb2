//! The fence: every write of a worker begins with the slot row of (task, lease). For ends it is in
//! `ends.rs`.

use super::guard::Guard;
use super::protocol::Protocol;
use super::rows::{Holder, Lease, Slot, SlotId, TaskId, World};
use super::transaction::{Actor, Outcome, Step, Tx, Verb};

pub fn fence(protocol: &Protocol, world: &mut World, actor: Actor, tx: &Tx) -> Outcome {
    let Some((task, lease)) = tx.verb.lease() else { unreachable!("{:?} has no lease", tx.verb) };
    let Some((n, holder)) = find(protocol, world, actor, (task, lease)) else {
        return Outcome::GiveUp;
    };
    match tx.verb {
        Verb::Checkpoint(..) if protocol.drops(Guard::FenceLock) => Outcome::Next(Step::Commit),
        // A renewal skips locked rows: the lock is held by the worker's own checkpoint, or by an
        // end.
        Verb::Renew(..) if !world.slots[n].is_free_for(actor) => Outcome::Done,
        _ if !world.slots[n].is_free_for(actor) => Outcome::Blocked,
        Verb::Checkpoint(_, _, number) => {
            if holder.turns >= number
                && number > holder.turns_at_claim
                && !protocol.drops(Guard::TurnNumber)
            {
                world.learn_turn(actor, task, lease, number);
                return Outcome::Done;
            }
            write(world, actor, n, Holder { turns: holder.turns + 1, expired: false, ..holder })
        }
        Verb::Renew(..) => write(world, actor, n, Holder { expired: false, ..holder }),
        Verb::SpawnChild(..) => {
            world.slots[n].lock(actor);
            Outcome::Next(Step::Settle)
        }
        Verb::Claim
        | Verb::End(..)
        | Verb::EndAll
        | Verb::Spawn(_)
        | Verb::Cancel(_)
        | Verb::Sweep
        | Verb::SetCap(_) => unreachable!("{:?} has no single slot to write", tx.verb),
    }
}

fn write(world: &mut World, actor: Actor, n: SlotId, holder: Holder) -> Outcome {
    let slot = Slot { holder: Some(holder), ..*world.slots[n].seen_by(actor) };
    world.slots[n].write(actor, slot);
    Outcome::Next(Step::Commit)
}

/// The slot of a lease, in the snapshot of a statement of `actor` that starts now.
pub fn find(
    protocol: &Protocol,
    world: &World,
    actor: Actor,
    (task, lease): (TaskId, Lease),
) -> Option<(SlotId, Holder)> {
    let n = world.slot_of(actor, task)?;
    let holder = world.slots[n].seen_by(actor).holder?;
    (holder.lease == lease || protocol.drops(Guard::FenceLease)).then_some((n, holder))
}
