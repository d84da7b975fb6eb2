//! Cancel: deletes the queue rows of the tree, then, in a later statement that sees the result of
//! concurrent claims, empties its slots.

use super::ends;
use super::guard::Guard;
use super::protocol::Protocol;
use super::rows::{TaskId, World};
use super::transaction::{Actor, Outcome, Step, Tx, Verb};

pub fn begin(protocol: &Protocol, world: &World, actor: Actor, tx: &mut Tx) -> Outcome {
    if world.tasks[root_of(tx)].seen_by(actor).state.is_terminal() {
        return Outcome::GiveUp;
    }
    if !protocol.drops(Guard::FreshSnapshot) {
        see_tree(protocol, tx);
        see_queue_rows(world, actor, tx);
    }
    after_queue_rows(protocol, world, actor, tx)
}

pub fn see_tree(protocol: &Protocol, tx: &mut Tx) {
    let root = root_of(tx);
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

/// Waits for a claim in flight that has locked the row; when that commits, the row is deleted.
pub fn delete_queue_row(
    protocol: &Protocol,
    world: &mut World,
    actor: Actor,
    tx: &mut Tx,
) -> Outcome {
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
        ends::see_slots(protocol, world, actor, tx);
    }
    ends::next(tx)
}

fn root_of(tx: &Tx) -> TaskId {
    let Verb::Cancel(root) = tx.verb else { unreachable!("{:?} has no tree", tx.verb) };
    root
}
