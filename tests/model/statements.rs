//! One statement of a transaction in flight. Each sees the newest committed state plus its transaction's own writes; one
//! that waits for a row lock looks at the row anew when it gets it, and at nothing else.

use super::guard::Guard;
use super::protocol::Protocol;
use super::rows::{Fault, World};
use super::transaction::{Actor, Outcome, Step, Tx, Verb};
use super::{cancel, cap, claim, fence, let_in};

/// What a verb reads before its first lock.
pub fn look(protocol: &Protocol, world: &World, actor: Actor, tx: &mut Tx) {
    match tx.verb {
        Verb::Claim => claim::look(protocol, world, actor, tx),
        Verb::End(..) if protocol.drops(Guard::UnconditionalWake) => {
            let_in::foresee(protocol, world, actor, tx)
        }
        Verb::Cancel(_) if protocol.drops(Guard::FreshSnapshot) => {
            cancel::see_tree(protocol, tx);
            cancel::see_queue_rows(world, actor, tx);
            cancel::see_slots(protocol, world, actor, tx);
        }
        Verb::End(..)
        | Verb::Cancel(_)
        | Verb::Checkpoint(..)
        | Verb::Renew(..)
        | Verb::SpawnChild(..)
        | Verb::Spawn(_)
        | Verb::Sweep(..)
        | Verb::SetCap(_) => {}
    }
}

/// Whether a claim that starts now sees a task and a slot; one that does not changes nothing.
pub fn sees_work(protocol: &Protocol, world: &World, actor: Actor) -> bool {
    let mut tx = Tx::new(Verb::Claim, Step::LockFreeSlots);
    claim::look(protocol, world, actor, &mut tx);
    tx.count > 0 && (protocol.drops(Guard::SlotRow) || !tx.slots.is_empty())
}

/// The world after the next statement of `actor`, or none while that statement waits.
pub fn step(protocol: &Protocol, last: &World, actor: Actor) -> Option<World> {
    let mut world = last.clone();
    let mut tx = world.txs[actor].take()?;
    let outcome = match tx.step {
        Step::LockSession => lock_session(protocol, &mut world, actor, &mut tx),
        Step::Fence => fence::fence(protocol, &mut world, actor, &tx),
        Step::DeleteQueueRows => cancel::delete_queue_row(protocol, &mut world, actor, &mut tx),
        Step::EmptySlots => cancel::empty_slot(&mut world, actor, &mut tx),
        Step::TakeSurplus => cap::take_surplus(&mut world, actor),
        Step::Settle => let_in::settle(protocol, &mut world, actor, &mut tx),
        Step::CountSlots => let_in::count_slots(protocol, &world, actor, &mut tx),
        Step::LetIn => let_in::let_in(protocol, &mut world, actor, &tx),
        Step::LockFreeSlots => claim::lock_slots(protocol, &mut world, actor, &mut tx),
        Step::LockQueueRows => claim::lock_queue_rows(protocol, &mut world, actor, &mut tx),
        Step::LockCapChange => cap::lock_cap_change(protocol, &mut world, actor, &mut tx),
        Step::LockAllSlots => cap::lock_slot(&mut world, actor, &mut tx),
        Step::Resize => cap::resize(protocol, &mut world, actor, &tx),
        Step::Commit => {
            commit(protocol, &mut world, actor, &tx);
            return Some(world);
        }
    };
    match outcome {
        Outcome::Blocked => return None,
        Outcome::Next(step) => {
            tx.step = step;
            world.txs[actor] = Some(tx);
        }
        Outcome::GiveUp => {
            world.roll_back(actor);
            close(protocol, &mut world, actor, tx.verb);
        }
    }
    Some(world)
}

/// The world after a commit of which the client does not hear.
pub fn commit_unanswered(protocol: &Protocol, last: &World, actor: Actor) -> Option<World> {
    last.txs[actor].as_ref().filter(|tx| tx.step == Step::Commit)?;
    let (held, answered) = (last.held.clone(), last.answered.clone());
    Some(World { held, answered, ..step(protocol, last, actor)? })
}

fn lock_session(protocol: &Protocol, world: &mut World, actor: Actor, tx: &mut Tx) -> Outcome {
    let Some(task) = tx.verb.subject() else { unreachable!("{:?} locks no session", tx.verb) };
    if !protocol.drops(Guard::SessionLock) {
        let session = &mut world.sessions[protocol.plans[task].session];
        if !session.is_free_for(actor) {
            return Outcome::Blocked;
        }
        session.lock(actor);
    }
    match tx.verb {
        Verb::End(..) if protocol.drops(Guard::LockOrder) => Outcome::Next(cap::after_emptying(world, actor)),
        Verb::SpawnChild(..) if protocol.drops(Guard::SpawnFence) => Outcome::Next(Step::Settle),
        Verb::End(..) | Verb::SpawnChild(..) | Verb::Sweep(..) => Outcome::Next(Step::Fence),
        Verb::Spawn(_) => Outcome::Next(Step::Settle),
        Verb::Cancel(_) => cancel::begin(protocol, world, actor, tx),
        Verb::Claim | Verb::Checkpoint(..) | Verb::Renew(..) | Verb::SetCap(_) => {
            unreachable!("{:?} locks no session", tx.verb)
        }
    }
}

fn commit(protocol: &Protocol, world: &mut World, actor: Actor, tx: &Tx) {
    if let Some((task, lease)) = tx.verb.lease()
        && world.holder_of(task).is_none_or(|holder| holder.lease != lease)
    {
        world.faults.insert(Fault::StaleWrite);
    }
    if let Verb::Sweep(task, _) = tx.verb
        && world.holder_of(task).is_none_or(|holder| !holder.expired)
    {
        world.faults.insert(Fault::LiveLeaseSwept);
    }
    for task in &world.tasks {
        let (before, after) = (task.committed, task.seen_by(actor));
        if before.state.is_terminal() && before != *after {
            world.faults.insert(Fault::TerminalChanged);
        }
        if after.attempt < before.attempt {
            world.faults.insert(Fault::AttemptWentBack);
        }
    }
    if tx.verb == Verb::Claim {
        claim::fill(protocol, world, actor, tx);
    }
    if let Verb::Checkpoint(task, _) = tx.verb {
        world.turns[task] += 1;
    }
    world.commit(actor);
    if tx.verb == Verb::Claim && world.occupied() > world.limits.committed.cap {
        world.faults.insert(Fault::ClaimAboveCap);
    }
    if !matches!(tx.verb, Verb::Checkpoint(..) | Verb::Renew(..) | Verb::SpawnChild(..)) {
        close(protocol, world, actor, tx.verb);
    }
}

/// The client learns how its verb ended: a worker gives up the lease, a request is answered.
fn close(protocol: &Protocol, world: &mut World, actor: Actor, verb: Verb) {
    if let Some((task, lease)) = verb.lease() {
        world.forget(actor, task, lease);
    }
    if let Some(answered) = protocol.request_of(actor).and_then(|n| world.answered.get_mut(n)) {
        *answered = true;
    }
}
