//! Cancel: the queue rows of the tree first, then, in a statement that sees what a claim made of them, its slots.

use super::guard::Guard;
use super::protocol::Protocol;
use super::rows::{TaskId, World};
use super::transaction::{Actor, Outcome, Step, Tx, Verb};
use super::{cap, fence};

pub fn begin(protocol: &Protocol, world: &World, actor: Actor, tx: &mut Tx) -> Outcome {
    if tx.verb.subject().is_some_and(|task| world.tasks[task].seen_by(actor).state.is_terminal()) {
        return Outcome::GiveUp;
    }
    if !protocol.drops(Guard::FreshSnapshot) {
        see_tree(protocol, tx);
        see_queue_rows(world, actor, tx);
    }
    after_queue_rows(protocol, world, actor, tx)
}

pub fn see_tree(protocol: &Protocol, tx: &mut Tx) {
    let Verb::Cancel(root) = tx.verb else { unreachable!("only cancel has a tree") };
    // Parents come before their children, so one pass finds every descendant.
    for task in root..protocol.plans.len() {
        let parent: Option<TaskId> = protocol.plans[task].parent;
        if task == root || parent.is_some_and(|parent| tx.tasks.contains(&parent)) {
            tx.tasks.push(task);
        }
    }
}

pub fn see_queue_rows(world: &World, actor: Actor, tx: &mut Tx) {
    tx.rows = tx.tasks.iter().copied().filter(|&task| world.is_queued_for(actor, task)).collect();
}

pub fn see_slots(protocol: &Protocol, world: &World, actor: Actor, tx: &mut Tx) {
    tx.slots = tx.tasks.iter().filter_map(|&task| world.slot_of(actor, task)).collect();
    tx.slots.sort_unstable();
    if protocol.drops(Guard::SlotOrder) {
        tx.slots.reverse();
    }
}

/// Waits for a claim in flight that has the row; when that commits, the row is gone.
pub fn delete_queue_row(protocol: &Protocol, world: &mut World, actor: Actor, tx: &mut Tx) -> Outcome {
    if let Some(entry) = world.queue.iter_mut().find(|entry| tx.rows.first() == Some(&entry.task)) {
        if entry.lock.is_some_and(|owner| owner != actor) {
            return Outcome::Blocked;
        }
        (entry.lock, entry.deleted) = (Some(actor), true);
    }
    tx.rows.remove(0);
    after_queue_rows(protocol, world, actor, tx)
}

fn after_queue_rows(protocol: &Protocol, world: &World, actor: Actor, tx: &mut Tx) -> Outcome {
    if !tx.rows.is_empty() {
        return Outcome::Next(Step::DeleteQueueRows);
    }
    if !protocol.drops(Guard::FreshSnapshot) {
        see_slots(protocol, world, actor, tx);
    }
    Outcome::Next(if tx.slots.is_empty() { Step::Settle } else { Step::EmptySlots })
}

/// One row of the statement: the rows were found when it started, each is looked at anew once it is locked.
pub fn empty_slot(world: &mut World, actor: Actor, tx: &mut Tx) -> Outcome {
    let n = tx.slots[0];
    if !world.slots[n].is_free_for(actor) {
        return Outcome::Blocked;
    }
    if let Some(holder) = world.slots[n].seen_by(actor).holder.filter(|it| tx.tasks.contains(&it.task)) {
        if !world.tasks[holder.task].is_free_for(actor) {
            return Outcome::Blocked;
        }
        fence::empty(world, actor, n, holder);
    }
    tx.slots.remove(0);
    Outcome::Next(if tx.slots.is_empty() { cap::after_emptying(world, actor) } else { Step::EmptySlots })
}
