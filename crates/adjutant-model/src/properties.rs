//! The properties that must hold in every state. Unless stated otherwise they are about the
//! committed state, which clients and workers can read.

use super::claim;
use super::protocol::{Protocol, Situation};
use super::rows::{Fault, On, State, TaskId, World};
use super::statements;

pub const CAP: &str = "never more leased than the cap; after a shrink, use only falls";
pub const CLOSED: &str = "no claim commits into a closed slot";
pub const ROWS: &str = "as many slots are open as the last change of the cap said";
pub const CAPACITY: &str = "a claim that runs alone fills what the cap leaves free";
pub const ONE_PLACE: &str = "a task is in one slot or one queue row at the most";
pub const NOT_HOT: &str = "a task that ended or waits is in no slot and no queue row";
pub const DRAINED: &str = "when nothing more can happen, every task has ended";
pub const ROOM: &str = "no task is left outside while its session's window has room";
pub const AWAITED: &str = "a waiting task has something to wait for";
pub const ORPHAN: &str = "no task outlives the cancelled task that spawned it";
pub const TERMINAL: &str = "a terminal task never changes";
pub const ATTEMPT: &str = "attempt never goes back";
pub const TURNS: &str = "a stored turn is never lost";
pub const ONCE: &str = "a turn that is stored again is stored once";
pub const FENCE: &str = "a stale lease never writes";
pub const LIVE: &str = "a sweep takes only a lease that is expired";
pub const WINDOW: &str = "a session never has more in queue and slots than its window";
pub const DEADLOCK: &str = "some transaction in flight can always move";
pub const ORDER: &str = "claims take the first rows that are visible and unlocked";

pub fn promises() -> Vec<Situation> {
    vec![
        // Only a claim increases the use, so after a shrink it can only fall.
        (CAP, |_, world| !world.faults.contains(&Fault::ClaimAboveCap)),
        (CLOSED, |_, world| !world.faults.contains(&Fault::ClaimIntoClosedSlot)),
        (ROWS, |_, world| !world.faults.contains(&Fault::WrongCap)),
        (CAPACITY, |protocol, world| {
            let free = world.cap().saturating_sub(world.occupied()).min(world.queue.len());
            world.txs.iter().any(Option::is_some)
                || (0..protocol.workers).all(|worker| {
                    let room = protocol.batch - world.held[worker].len();
                    room == 0 || claim::alone(protocol, world, worker) == free.min(room)
                })
        }),
        (ONE_PLACE, |_, world| (0..world.tasks.len()).all(|task| places(world, task) <= 1)),
        (NOT_HOT, |_, world| {
            (0..world.tasks.len()).all(|task| {
                world.tasks[task].committed.state == State::Queued || places(world, task) == 0
            })
        }),
        (DRAINED, |protocol, world| {
            world.txs.iter().any(Option::is_some) || all_ended(world) || !protocol.is_at_rest(world)
        }),
        (ROOM, |protocol, world| {
            let outside = |task: TaskId| {
                world.tasks[task].committed.state == State::Queued
                    && places(world, task) == 0
                    && in_window(protocol, world, protocol.plans[task].session) < protocol.window
            };
            !(0..world.tasks.len()).any(outside)
        }),
        (AWAITED, |protocol, world| {
            (0..world.tasks.len()).all(|task| awaits_something(protocol, world, task))
        }),
        (ORPHAN, |protocol, world| {
            let state = |task: TaskId| world.tasks[task].committed.state;
            (0..world.tasks.len()).all(|task| match protocol.plans[task].parent {
                Some(parent) if state(parent) == State::Cancelled => {
                    state(task) == State::Absent || state(task).is_terminal()
                }
                Some(_) | None => true,
            })
        }),
        (TERMINAL, |_, world| !world.faults.contains(&Fault::TerminalChanged)),
        (ATTEMPT, |_, world| {
            let grows = |task: TaskId| {
                let last = world.tasks[task].committed.attempt;
                world.holder_of(task).is_none_or(|holder| holder.attempt > last)
            };
            !world.faults.contains(&Fault::AttemptWentBack) && (0..world.tasks.len()).all(grows)
        }),
        (TURNS, |_, world| {
            (0..world.tasks.len()).all(|task| {
                let used = world
                    .holder_of(task)
                    .map_or(world.tasks[task].committed.turns, |holder| holder.turns);
                used == world.turns[task]
            })
        }),
        (ONCE, |_, world| !world.faults.contains(&Fault::TurnStoredTwice)),
        (FENCE, |_, world| !world.faults.contains(&Fault::StaleWrite)),
        (LIVE, |_, world| !world.faults.contains(&Fault::LiveLeaseSwept)),
        (WINDOW, |protocol, world| {
            (0..world.sessions.len())
                .all(|session| in_window(protocol, world, session) <= protocol.window)
        }),
        (DEADLOCK, |protocol, world| {
            let mut in_flight =
                (0..world.txs.len()).filter(|actor| world.txs[*actor].is_some()).peekable();
            in_flight.peek().is_none()
                || in_flight.any(|actor| statements::step(protocol, world, actor).is_some())
        }),
        (ORDER, |_, world| !world.faults.contains(&Fault::OutOfOrder)),
    ]
}

pub fn all_ended(world: &World) -> bool {
    world
        .tasks
        .iter()
        .all(|task| task.committed.state == State::Absent || task.committed.state.is_terminal())
}

/// The number of queue rows and slots that hold a task.
fn places(world: &World, task: TaskId) -> usize {
    let queued =
        world.queue.iter().filter(|entry| entry.is_committed() && entry.task == task).count();
    let held = world
        .slots
        .iter()
        .filter(|slot| slot.committed.holder.is_some_and(|it| it.task == task))
        .count();
    queued + held
}

fn in_window(protocol: &Protocol, world: &World, session: usize) -> usize {
    (0..world.tasks.len())
        .filter(|task| protocol.plans[*task].session == session)
        .map(|task| places(world, task))
        .sum()
}

fn awaits_something(protocol: &Protocol, world: &World, task: TaskId) -> bool {
    let state = |it: TaskId| world.tasks[it].committed.state;
    match state(task) {
        State::Waiting(On::Dependencies) => {
            let dependencies = &protocol.plans[task].dependencies;
            dependencies.iter().any(|it| !state(*it).is_terminal())
                && dependencies
                    .iter()
                    .all(|it| !state(*it).is_terminal() || state(*it) == State::Completed)
        }
        State::Waiting(On::AllChildren | On::AnyChild) => !protocol.children_ended(task, state),
        State::Absent | State::Queued | State::Completed | State::Failed(_) | State::Cancelled => {
            true
        }
    }
}
