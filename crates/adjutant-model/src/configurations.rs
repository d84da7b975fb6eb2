//! The configurations that are explored, each for one kind of race. The crate's documentation
//! explains why their bounds suffice.

use super::properties::all_ended;
use super::protocol::{Plan, Protocol};
use super::rows::{Budget, Failure, On, State, World};
use super::transaction::{Actor, End, Step, Tx, Verb};
use stateright::{Checker, Model};

fn check(name: &str, protocol: Protocol) {
    let started = std::time::Instant::now();
    let checker = protocol.checker().spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("model: {name}: {states} states, depth {depth}, {:.1?}", started.elapsed());
    checker.assert_properties();
}

fn in_flight(world: &World, is_so: impl Fn(&Tx) -> bool) -> usize {
    world.txs.iter().flatten().filter(|tx| is_so(tx)).count()
}

fn owner_runs(world: &World, owner: Option<Actor>, verb: Verb) -> bool {
    owner.and_then(|actor| world.txs[actor].as_ref()).is_some_and(|tx| tx.verb == verb)
}

/// Sees what is committed.
const NOBODY: Actor = Actor::MAX;

fn all_have_ended(_: &Protocol, world: &World) -> bool {
    all_ended(world)
}

/// Three workers at one slot, tasks of two sessions; one worker crashes, one transaction is rolled
/// back.
pub fn claimants() -> Protocol {
    Protocol {
        requests: vec![Verb::Cancel(1)],
        budget: Budget { crashes: 1, aborts: 1, releases: 1, ..Budget::default() },
        sweepers: 1,
        situations: vec![
            ("three claims are in flight at cap 1", |_, world| {
                in_flight(world, |tx| tx.verb == Verb::Claim) == 3
            }),
            ("a task is in a slot that no worker knows of", |_, world| {
                world.occupied() == 1 && world.held.iter().all(Vec::is_empty)
            }),
            ("all ended", all_have_ended),
        ],
        ..Protocol::new(vec![Plan::task(), Plan { session: 1, ..Plan::task() }, Plan::task()], 3, 1)
    }
}

#[test]
fn claimants_never_share_a_slot() {
    check("three claimants, cap 1", claimants());
}

/// Claims of two at a time; ends of two sessions, which have no lock in common.
pub fn batches() -> Protocol {
    let other = Plan { session: 1, ..Plan::task() };
    Protocol {
        batch: 2,
        requests: vec![Verb::Cancel(2)],
        budget: Budget { releases: 1, ..Budget::default() },
        situations: vec![
            ("one claim takes two", |_, world| world.held.iter().any(|held| held.len() == 2)),
            ("two claims have a slot each and one row is left", |_, world| {
                in_flight(world, |tx| tx.step == Step::LockQueueRows) == 2 && world.queue.len() == 1
            }),
            ("a released task is in front", |_, world| {
                world.queue.len() > 1 && world.queue[0].front
            }),
            ("all ended", all_have_ended),
        ],
        ..Protocol::new(vec![Plan::task(), other.clone(), Plan::task(), other], 2, 2)
    }
}

#[test]
fn claims_of_several_keep_the_order_of_the_queue() {
    check("claims of two, two sessions, cap 2", batches());
}

/// A window of one, so that every end must admit the next task; a dependant is spawned while its
/// dependency ends.
pub fn traffic() -> Protocol {
    Protocol {
        window: 1,
        requests: vec![Verb::Spawn(1), Verb::Spawn(2), Verb::Cancel(0), Verb::Cancel(1)],
        budget: Budget { fails: 1, aborts: 1, ..Budget::default() },
        sweepers: 1,
        situations: vec![
            ("cancel waits for a claim in flight", |_, world| {
                in_flight(world, |tx| tx.step == Step::DeleteQueueRows) == 1
                    && world
                        .queue
                        .iter()
                        .any(|it| it.task == 0 && owner_runs(world, it.lock, Verb::Claim))
            }),
            ("a finished task's worker is fenced off by a cancel", |_, world| {
                world.tasks[0].committed.state == State::Cancelled
                    && in_flight(world, |tx| matches!(tx.verb, Verb::End(0, ..))) == 1
            }),
            ("a dependant is spawned after its dependency failed", |_, world| {
                world.tasks[2].committed.state == State::Failed(Failure::Dependency)
            }),
            ("all ended", all_have_ended),
        ],
        ..Protocol::new(
            vec![Plan::task(), Plan::to_spawn(), Plan { exists: false, ..Plan::after(&[0]) }],
            2,
            1,
        )
    }
}

#[test]
fn a_finish_races_spawn_and_cancel_and_nothing_is_lost() {
    check("finish against spawn and cancel", traffic());
}

/// A parent and its two children on one slot.
pub fn family() -> Protocol {
    Protocol {
        requests: vec![Verb::Cancel(1)],
        budget: Budget { crashes: 1, expiries: 1, ..Budget::default() },
        sweepers: 1,
        situations: vec![
            ("the parent waits", |_, world| {
                world.tasks[0].committed.state == State::Waiting(On::AllChildren)
            }),
            ("the woken parent is in front", |_, world| {
                let parent = world.tasks[0].committed;
                parent.state == State::Queued
                    && parent.attempt > 0
                    && world.queue.iter().any(|it| it.front)
            }),
            ("all ended", all_have_ended),
        ],
        ..Protocol::new(vec![Plan::task(), Plan::child_of(0), Plan::child_of(0)], 2, 1)
    }
}

#[test]
fn a_parent_of_two_ends_at_cap_1() {
    check("parent waits for two children, cap 1", family());
}

/// A parent, its child and its grandchild on one slot: each gives the slot up while it waits.
fn three_generations() -> Protocol {
    Protocol {
        requests: vec![Verb::Cancel(1)],
        budget: Budget { crashes: 1, fails: 1, aborts: 1, ..Budget::default() },
        sweepers: 1,
        situations: vec![
            ("parent and grandparent wait", |_, world| {
                world.tasks[..2]
                    .iter()
                    .all(|it| it.committed.state == State::Waiting(On::AllChildren))
            }),
            ("all completed", |_, world| {
                world.tasks.iter().all(|it| it.committed.state == State::Completed)
            }),
        ],
        ..Protocol::new(vec![Plan::task(), Plan::child_of(0), Plan::child_of(1)], 2, 1)
    }
}

#[test]
fn a_tree_of_depth_3_ends_at_cap_1() {
    check("three generations, cap 1", three_generations());
}

/// The parent resumes when one child has ended; the other child may end at any time, or the whole
/// tree may be cancelled.
pub fn race_of_children() -> Protocol {
    let parent = Plan { waits_for_any: true, ..Plan::task() };
    Protocol {
        requests: vec![Verb::Cancel(0)],
        budget: Budget { fails: 1, ..Budget::default() },
        situations: vec![
            ("the parent decides to wait and a child ends first", |_, world| {
                in_flight(world, |tx| matches!(tx.verb, Verb::End(0, _, End::Wait))) == 1
                    && world.tasks[1].committed.state.is_terminal()
            }),
            ("both children end at once while the parent waits", |_, world| {
                world.tasks[0].committed.state == State::Waiting(On::AnyChild)
                    && in_flight(world, |tx| matches!(tx.verb, Verb::End(1 | 2, ..))) == 2
            }),
            ("all ended", all_have_ended),
        ],
        ..Protocol::new(vec![parent, Plan::child_of(0), Plan::child_of(0)], 3, 2)
    }
}

#[test]
fn a_parent_of_any_is_woken_once_and_cancel_takes_the_tree() {
    check("parent waits for any child, tree cancelled, cap 2", race_of_children());
}

/// Two dependencies that end concurrently, one of them possibly with a failure, and a chain of
/// dependants.
pub fn dependencies() -> Protocol {
    Protocol {
        requests: vec![Verb::Cancel(1)],
        budget: Budget { fails: 1, crashes: 1, aborts: 1, ..Budget::default() },
        sweepers: 1,
        situations: vec![
            ("both dependencies end at once", |_, world| {
                in_flight(world, |tx| matches!(tx.verb, Verb::End(0 | 1, ..))) == 2
            }),
            ("failure went down the chain", |_, world| {
                world.tasks[3].committed.state == State::Failed(Failure::Dependency)
            }),
            ("all ended", all_have_ended),
        ],
        ..Protocol::new(
            vec![Plan::task(), Plan::task(), Plan::after(&[0, 1]), Plan::after(&[2])],
            2,
            2,
        )
    }
}

#[test]
fn dependencies_that_end_together_wake_their_dependant() {
    check("two dependencies end together", dependencies());
}

/// Leases that expire while their workers live, two concurrent sweeps, a cancel.
pub fn stale_worker() -> Protocol {
    Protocol {
        requests: vec![Verb::Cancel(0)],
        budget: Budget { turns: 1, expiries: 2, aborts: 1, ..Budget::default() },
        sweepers: 2,
        situations: vec![
            ("a checkpoint is tried under a lease that was taken over", |_, world| {
                in_flight(world, |tx| {
                    matches!(tx.verb, Verb::Checkpoint(task, lease, _)
                        if world.holder_of(task).is_some_and(|it| it.lease != lease))
                }) == 1
            }),
            ("two sweeps want the same slot", |_, world| {
                in_flight(world, |tx| tx.verb == Verb::Sweep && tx.requested.len() == 1) == 2
            }),
            ("a lease is renewed under a sweep", |_, world| {
                in_flight(world, |tx| tx.verb == Verb::Sweep) == 1
                    && world.holder_of(0).is_some_and(|it| !it.expired)
            }),
            ("a task is lost for good", |_, world| {
                world.tasks[0].committed.state == State::Failed(Failure::Lost)
            }),
            ("a turn makes up for an earlier loss", |_, world| {
                let task = world.tasks[0].committed;
                task.attempt == 2 && task.failures == 0 && task.state == State::Queued
            }),
            ("a turn kept a task from being lost", |_, world| {
                let task = world.tasks[0].committed;
                task.attempt == 2 && task.failures == 1 && task.state == State::Queued
            }),
            ("all ended", all_have_ended),
        ],
        ..Protocol::new(vec![Plan::task()], 2, 1)
    }
}

#[test]
fn a_stale_lease_never_writes() {
    check("stale worker, two sweeps and a cancel", stale_worker());
}

/// The cap goes down to one and up to three, in either order, while tasks start and end.
pub fn shrink() -> Protocol {
    Protocol {
        requests: vec![Verb::SetCap(1), Verb::SetCap(3)],
        slots: 4,
        window: 3,
        budget: Budget { crashes: 1, ..Budget::default() },
        sweepers: 1,
        situations: vec![
            ("two end, one of them in a closed slot", |_, world| {
                world.closed_and_occupied(NOBODY) == 1
                    && in_flight(world, |tx| matches!(tx.verb, Verb::End(..))) == 2
            }),
            ("the cap grows while a task is in a closed slot", |_, world| {
                world.closed_and_occupied(NOBODY) > 0
                    && in_flight(world, |tx| tx.verb == Verb::SetCap(3)) == 1
            }),
            ("a claim keeps the open slot empty", |_, world| {
                world.cap() == 1 && in_flight(world, |tx| tx.step == Step::Recount) == 1
            }),
            ("a shrink commits between a claim's snapshot and its locks", |_, world| {
                world.cap() == 1
                    && in_flight(world, |tx| tx.step == Step::LockFreeSlots && tx.slots.len() == 2)
                        > 0
            }),
            ("all ended", all_have_ended),
        ],
        ..Protocol::new(vec![Plan::task(), Plan::task(), Plan::task()], 2, 2)
    }
}

#[test]
fn after_a_shrink_use_only_falls() {
    check("cap changes against claim and finish", shrink());
}

/// Four tasks at cap 3, which goes down to 2: a claim may fill one open slot while a task is in the
/// closed one.
pub fn reserve() -> Protocol {
    Protocol {
        batch: 2,
        requests: vec![Verb::SetCap(2)],
        window: 4,
        situations: vec![
            ("a claim has one slot to fill and one to keep empty", |_, world| {
                world.closed_and_occupied(NOBODY) == 1
                    && in_flight(world, |tx| tx.step == Step::LockQueueRows && tx.slots == [1]) == 1
            }),
            // Neither gets a task, though one could: an empty claim does not mean that there was no
            // room.
            ("two claims have one free slot each, and one must stay empty", |_, world| {
                world.closed_and_occupied(NOBODY) == 1
                    && in_flight(world, |tx| tx.step == Step::Recount) == 2
            }),
            ("all ended", all_have_ended),
        ],
        ..Protocol::new(vec![Plan::task(), Plan::task(), Plan::task(), Plan::task()], 2, 3)
    }
}

#[test]
fn a_task_in_a_closed_slot_keeps_one_open_slot_empty() {
    check("claims beside a closed slot", reserve());
}

/// One worker ends tasks of two sessions in one transaction, while two sweeps and a change of the
/// cap lock the same rows.
pub fn of_many() -> Protocol {
    let other = Plan { session: 1, ..Plan::task() };
    Protocol {
        batch: 2,
        requests: vec![Verb::SetCap(1)],
        window: 1,
        budget: Budget { expiries: 2, ..Budget::default() },
        sweepers: 2,
        situations: vec![
            ("a sweep and an end of two tasks each", |_, world| {
                in_flight(world, |tx| tx.verb == Verb::EndAll) == 1
                    && in_flight(world, |tx| tx.verb == Verb::Sweep && tx.requested.len() == 2) == 1
            }),
            ("of two ends one has lost its lease", |_, world| {
                in_flight(world, |tx| {
                    tx.verb == Verb::EndAll && tx.step == Step::Settle && tx.ends.len() == 1
                }) == 1
                    && world.held[0].len() == 2
            }),
            ("an end of two admits the next task of a session", |_, world| {
                in_flight(world, |tx| tx.verb == Verb::EndAll && tx.step == Step::Commit) == 1
                    && world.queue.iter().any(|it| owner_runs(world, it.inserted_by, Verb::EndAll))
            }),
            ("all ended", all_have_ended),
        ],
        ..Protocol::new(vec![Plan::task(), other.clone(), other], 1, 2)
    }
}

#[test]
fn ends_and_sweeps_of_many_neither_deadlock_nor_take_more_than_theirs() {
    check("ends and sweeps of two, two sessions", of_many());
}

/// A tree with two tasks in slots is cancelled while the cap changes: both lock several slots.
pub fn felling() -> Protocol {
    Protocol {
        requests: vec![Verb::Cancel(0), Verb::SetCap(1)],
        budget: Budget { turns: 1, ..Budget::default() },
        situations: vec![
            ("cancel empties two slots while a shrink waits for them", |_, world| {
                in_flight(world, |tx| {
                    matches!(tx.verb, Verb::Cancel(_)) && tx.step == Step::EmptySlots
                }) == 1
                    && in_flight(world, |tx| tx.step == Step::LockAllSlots) == 1
                    && world.occupied() == 2
            }),
            ("a stale parent spawns", |_, world| {
                world.tasks[0].committed.state == State::Cancelled
                    && in_flight(world, |tx| matches!(tx.verb, Verb::SpawnChild(..))) == 1
            }),
            ("all ended", all_have_ended),
        ],
        ..Protocol::new(vec![Plan::task(), Plan::child_of(0), Plan::child_of(0)], 2, 2)
    }
}

#[test]
fn a_tree_is_cancelled_whole_while_the_cap_changes() {
    check("tree cancelled against a shrink", felling());
}
