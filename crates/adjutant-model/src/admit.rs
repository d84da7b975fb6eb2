//! The effects of a task's spawn or end on the other tasks of its session: dependants fail or are
//! queued, parents are woken, the next tasks are admitted. Always under the session lock.

use super::guard::Guard;
use super::protocol::Protocol;
use super::rows::{Entry, Failure, On, State, Task, TaskId, World};
use super::transaction::{Actor, End, Ending, Outcome, Step, Tx, Verb};

/// Writes the tasks, then counts the window's room. Task rows change only under the session lock,
/// so no other transaction can see a state between these statements.
pub fn settle(protocol: &Protocol, world: &mut World, actor: Actor, tx: &mut Tx) -> Outcome {
    let Some((after, woken)) = settled(protocol, world, actor, tx) else { return Outcome::GiveUp };
    for (task, mut new) in after.into_iter().enumerate() {
        let old = *world.tasks[task].seen_by(actor);
        if protocol.drops(Guard::UnconditionalWake)
            && matches!(tx.verb, Verb::End(..))
            && woken.contains(&task)
            && !tx.wake.contains(&task)
        {
            new.state = old.state;
        }
        if new != old {
            if !world.tasks[task].is_free_for(actor) {
                return Outcome::Blocked;
            }
            world.tasks[task].write(actor, new);
        }
    }
    Outcome::Next(look_what_is_hot(protocol, world, actor, tx))
}

/// Counts queue and slots in one statement, because a claim may move rows from one to the other.
fn look_what_is_hot(protocol: &Protocol, world: &World, actor: Actor, tx: &mut Tx) -> Step {
    let session = tx.sessions[0];
    tx.hot = world.queue.iter().filter(|it| it.is_seen_by(actor)).map(|it| it.task).collect();
    tx.hot.retain(|task| protocol.plans[*task].session == session);
    if protocol.drops(Guard::SingleCount) {
        return Step::CountSlots;
    }
    add_slots(protocol, world, actor, tx);
    Step::Admit
}

pub fn count_slots(protocol: &Protocol, world: &World, actor: Actor, tx: &mut Tx) -> Outcome {
    add_slots(protocol, world, actor, tx);
    Outcome::Next(Step::Admit)
}

fn add_slots(protocol: &Protocol, world: &World, actor: Actor, tx: &mut Tx) {
    let running =
        world.slots.iter().filter_map(|slot| slot.seen_by(actor).holder).map(|it| it.task);
    tx.hot.extend(running.filter(|task| protocol.plans[*task].session == tx.sessions[0]));
    tx.hot.sort_unstable();
}

/// Admits the next tasks of one session, then continues with the next session.
pub fn admit(protocol: &Protocol, world: &mut World, actor: Actor, tx: &mut Tx) -> Outcome {
    let session = tx.sessions.remove(0);
    let mut outside: Vec<(bool, TaskId)> = (0..world.tasks.len())
        .filter(|&task| protocol.plans[task].session == session)
        .filter(|&task| world.tasks[task].seen_by(actor).state == State::Queued)
        .filter(|task| !tx.hot.contains(task))
        .map(|task| (world.tasks[task].seen_by(actor).attempt == 0, task))
        .collect();
    outside.sort_unstable();
    for (is_new, task) in outside.into_iter().take(protocol.window.saturating_sub(tx.hot.len())) {
        let entry =
            Entry { task, front: !is_new, inserted_by: Some(actor), lock: None, deleted: false };
        let place = if is_new {
            world.queue.len()
        } else {
            world.queue.iter().take_while(|it| it.front).count()
        };
        world.queue.insert(place, entry);
    }
    tx.hot.clear();
    Outcome::Next(if tx.sessions.is_empty() {
        Step::Commit
    } else {
        look_what_is_hot(protocol, world, actor, tx)
    })
}

/// Decides which parents to wake before the lock is taken, which is too early (a mutant).
pub fn foresee(protocol: &Protocol, world: &World, actor: Actor, tx: &mut Tx) {
    if let Some((_, woken)) = settled(protocol, world, actor, tx) {
        tx.wake = woken;
    }
}

/// The tasks after the verb, and those that it woke; none if there is nothing to do.
fn settled(
    protocol: &Protocol,
    world: &World,
    actor: Actor,
    tx: &Tx,
) -> Option<(Vec<Task>, Vec<TaskId>)> {
    let mut tasks: Vec<Task> = world.tasks.iter().map(|task| *task.seen_by(actor)).collect();
    let (mut ended, mut waiting) = (vec![], vec![]);
    match tx.verb {
        Verb::Spawn(task) | Verb::SpawnChild(_, _, task) => {
            if tasks[task].state != State::Absent {
                return None;
            }
            tasks[task].state = State::Waiting(On::Dependencies);
            tasks[task].state = dependencies_say(protocol, &tasks, task);
        }
        Verb::End(..) | Verb::EndAll | Verb::Sweep => {
            for Ending { task, end, .. } in tx.requested.iter().chain(&tx.ends) {
                match end {
                    End::Complete => ended.push((*task, State::Completed)),
                    End::Fail => ended.push((*task, State::Failed(Failure::Reported))),
                    End::Lost if tasks[*task].failures >= protocol.max_failures => {
                        ended.push((*task, State::Failed(Failure::Lost)));
                    }
                    End::Release | End::Lost => {}
                    End::Wait => waiting.push(*task),
                }
            }
        }
        Verb::Cancel(_) => {
            let alive = |it: &&TaskId| {
                tasks[**it].state != State::Absent && !tasks[**it].state.is_terminal()
            };
            ended.extend(tx.tasks.iter().filter(alive).map(|task| (*task, State::Cancelled)));
        }
        Verb::Claim | Verb::Checkpoint(..) | Verb::Renew(..) | Verb::SetCap(_) => {
            unreachable!("{:?} changes no task", tx.verb)
        }
    }
    // All of a cancelled tree ends before any of it is settled: no member may wake another.
    ended.iter().for_each(|(task, state)| tasks[*task].state = *state);
    for task in waiting {
        let on = if protocol.plans[task].waits_for_any { On::AnyChild } else { On::AllChildren };
        let is_over = protocol.children_ended(task, |it| tasks[it].state);
        tasks[task].state = if is_over { State::Queued } else { State::Waiting(on) };
    }
    let mut ended: Vec<TaskId> = ended.into_iter().map(|(task, _)| task).collect();
    let mut woken = vec![];
    while let Some(task) = ended.pop() {
        for dependant in
            (0..tasks.len()).filter(|it| protocol.plans[*it].dependencies.contains(&task))
        {
            let state = dependencies_say(protocol, &tasks, dependant);
            if state.is_terminal() && !tasks[dependant].state.is_terminal() {
                ended.push(dependant);
            } else if state == State::Queued && tasks[dependant].state != state {
                woken.push(dependant);
            }
            tasks[dependant].state = state;
        }
        if let Some(parent) = protocol.plans[task].parent
            && matches!(tasks[parent].state, State::Waiting(On::AllChildren | On::AnyChild))
            && protocol.children_ended(parent, |it| tasks[it].state)
        {
            tasks[parent].state = State::Queued;
            woken.push(parent);
        }
    }
    Some((tasks, woken))
}

/// The new state of a task that waits for dependencies; other tasks are unchanged.
fn dependencies_say(protocol: &Protocol, tasks: &[Task], task: TaskId) -> State {
    if tasks[task].state != State::Waiting(On::Dependencies) {
        return tasks[task].state;
    }
    let mut states = protocol.plans[task].dependencies.iter().map(|it| tasks[*it].state);
    if states.clone().any(|state| state.is_terminal() && state != State::Completed) {
        State::Failed(Failure::Dependency)
    } else if states.all(|state| state == State::Completed) {
        State::Queued
    } else {
        State::Waiting(On::Dependencies)
    }
}
