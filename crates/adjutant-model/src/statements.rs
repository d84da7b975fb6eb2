//! One statement of a transaction in flight. Each sees the newest committed state and its
//! transaction's own writes. A statement that waited for a row lock reads only that row again.

use super::guard::Guard;
use super::protocol::Protocol;
use super::rows::{Fault, World};
use super::transaction::{Actor, Outcome, Step, Tx, Verb};
use super::{admit, cancel, cap, claim, ends, fence};

/// The reads of a verb before its first lock.
pub fn read(protocol: &Protocol, world: &World, actor: Actor, tx: &mut Tx) {
    match tx.verb {
        Verb::Claim => claim::read(protocol, world, actor, tx),
        Verb::End(..) | Verb::EndAll | Verb::Sweep => {
            ends::peek(protocol, world, actor, tx);
            if ends::is_reversed(protocol, tx.verb) {
                ends::see_slots(protocol, world, actor, tx);
            }
            if protocol.drops(Guard::UnconditionalWake) && matches!(tx.verb, Verb::End(..)) {
                admit::foresee(protocol, world, actor, tx);
            }
        }
        Verb::Spawn(task) | Verb::SpawnChild(_, _, task) => {
            tx.sessions = vec![protocol.plans[task].session]
        }
        Verb::Cancel(task) => {
            tx.sessions = vec![protocol.plans[task].session];
            if protocol.drops(Guard::FreshSnapshot) {
                cancel::see_tree(protocol, tx);
                cancel::see_queue_rows(world, actor, tx);
                ends::see_slots(protocol, world, actor, tx);
            }
        }
        Verb::Checkpoint(..) | Verb::Renew(..) | Verb::SetCap(_) => {}
    }
}

/// The state after the next statement of `actor`; none while that statement waits.
pub fn step(protocol: &Protocol, last: &World, actor: Actor) -> Option<World> {
    let mut world = last.clone();
    let mut tx = world.txs[actor].take()?;
    let outcome = match tx.step {
        Step::LockSession => lock_session(protocol, &mut world, actor, &mut tx),
        Step::Fence => fence::fence(protocol, &mut world, actor, &tx),
        Step::DeleteQueueRows => cancel::delete_queue_row(protocol, &mut world, actor, &mut tx),
        Step::EmptySlots => ends::empty_slot(protocol, &mut world, actor, &mut tx),
        Step::Settle => admit::settle(protocol, &mut world, actor, &mut tx),
        Step::CountSlots => admit::count_slots(protocol, &world, actor, &mut tx),
        Step::Admit => admit::admit(protocol, &mut world, actor, &mut tx),
        Step::LockFreeSlots => claim::lock_free_slot(protocol, &mut world, actor, &mut tx),
        Step::Recount => claim::recount(protocol, &world, actor, &mut tx),
        Step::LockQueueRows => claim::lock_queue_rows(protocol, &mut world, actor, &mut tx),
        Step::LockCapChange => cap::lock_cap_change(protocol, &mut world, actor, &mut tx),
        Step::LockAllSlots => cap::lock_slot(&mut world, actor, &mut tx),
        Step::Resize => cap::resize(&mut world, actor, &tx),
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
        Outcome::Done => world.roll_back(actor),
        Outcome::GiveUp => {
            world.roll_back(actor);
            close(protocol, &mut world, actor, tx.verb);
        }
    }
    Some(world)
}

/// The state after a commit whose answer is lost.
pub fn commit_unanswered(protocol: &Protocol, last: &World, actor: Actor) -> Option<World> {
    last.txs[actor].as_ref().filter(|tx| tx.step == Step::Commit)?;
    let (held, answered) = (last.held.clone(), last.answered.clone());
    Some(World { held, answered, ..step(protocol, last, actor)? })
}

fn lock_session(protocol: &Protocol, world: &mut World, actor: Actor, tx: &mut Tx) -> Outcome {
    let mut left = tx.sessions.iter().filter(|it| !world.sessions[**it].is_locked_by(actor));
    if let Some(&session) = left.next()
        && !protocol.drops(Guard::SessionLock)
    {
        let is_last = left.next().is_none();
        if !world.sessions[session].is_free_for(actor) {
            return Outcome::Blocked;
        }
        world.sessions[session].lock(actor);
        if !is_last {
            return Outcome::Next(Step::LockSession);
        }
    }
    match tx.verb {
        verb if ends::is_reversed(protocol, verb) => ends::next(tx),
        Verb::End(..) | Verb::EndAll | Verb::Sweep => {
            ends::see_slots(protocol, world, actor, tx);
            ends::next(tx)
        }
        Verb::SpawnChild(..) if !protocol.drops(Guard::SpawnFence) => Outcome::Next(Step::Fence),
        Verb::SpawnChild(..) | Verb::Spawn(_) => Outcome::Next(Step::Settle),
        Verb::Cancel(_) => cancel::begin(protocol, world, actor, tx),
        Verb::Claim | Verb::Checkpoint(..) | Verb::Renew(..) | Verb::SetCap(_) => {
            unreachable!("{:?} locks no session", tx.verb)
        }
    }
}

fn commit(protocol: &Protocol, world: &mut World, actor: Actor, tx: &Tx) {
    note_stale_writes(world, tx);
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
    if let Verb::Checkpoint(task, lease, number) = tx.verb {
        world.turns[task] += 1;
        if world.turns[task] != number {
            world.faults.insert(Fault::TurnStoredTwice);
        }
        world.learn_turn(actor, task, lease, number);
    }
    world.commit(actor);
    if tx.verb == Verb::Claim && world.occupied() > world.cap() {
        world.faults.insert(Fault::ClaimAboveCap);
    }
    if let Verb::SetCap(cap) = tx.verb
        && world.cap() != cap
    {
        world.faults.insert(Fault::WrongCap);
    }
    if !matches!(tx.verb, Verb::Checkpoint(..) | Verb::Renew(..) | Verb::SpawnChild(..)) {
        close(protocol, world, actor, tx.verb);
    }
}

/// The transaction may end or write an attempt only under the lease that its client named.
fn note_stale_writes(world: &mut World, tx: &Tx) {
    let ends = tx.ends.iter().map(|it| (it.task, it.lease));
    for (task, lease) in tx.verb.lease().into_iter().chain(ends) {
        let holder = world.holder_of(task);
        if holder.is_none_or(|it| it.lease != lease) {
            world.faults.insert(Fault::StaleWrite);
        }
        if tx.verb == Verb::Sweep && holder.is_none_or(|it| !it.expired) {
            world.faults.insert(Fault::LiveLeaseSwept);
        }
    }
}

/// The client gets the answer of its verb: a worker drops the lease, a request is done.
fn close(protocol: &Protocol, world: &mut World, actor: Actor, verb: Verb) {
    if let Some((task, lease)) = verb.lease() {
        world.forget(actor, task, lease);
    }
    if verb == Verb::EndAll {
        world.held[actor].clear();
    }
    if let Some(answered) = protocol.request_of(actor).and_then(|n| world.answered.get_mut(n)) {
        *answered = true;
    }
}
