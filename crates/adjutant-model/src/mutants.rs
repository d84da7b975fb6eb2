//! The protocol without one of its guards: the checker must find a violated property. Otherwise it
//! could not find the same error in the store.

use super::configurations::{
    batches, claimants, dependencies, felling, of_many, race_of_children, reserve, shrink,
    stale_worker, traffic,
};
use super::guard::Guard;
use super::properties::{
    AWAITED, CAP, CAPACITY, CLOSED, DEADLOCK, DRAINED, FENCE, LIVE, NOT_HOT, ONCE, ORDER, ORPHAN,
    ROOM, TERMINAL, TURNS, WINDOW,
};
use super::protocol::Protocol;
use super::transaction::Verb;
use stateright::{Checker, HasDiscoveries, Model};

fn without(guard: Guard, protocol: Protocol, broken: &'static str) {
    let mutant = Protocol { dropped: Some(guard), situations: vec![], ..protocol };
    let finish = HasDiscoveries::AnyOf([broken].into());
    let checker = mutant.checker().finish_when(finish).spawn_bfs().join();
    let trace = checker.assert_any_discovery(broken).into_actions();
    println!("model: without {guard:?}, not so: {broken}, after {} actions:", trace.len());
    trace.iter().for_each(|action| println!("  {action:?}"));
}

#[test]
fn a_fence_that_only_looks_lets_a_stale_turn_in() {
    without(Guard::FenceLock, stale_worker(), FENCE);
}

#[test]
fn a_turn_behind_a_fence_that_only_looks_is_not_counted() {
    without(Guard::FenceLock, stale_worker(), TURNS);
}

#[test]
fn a_fence_without_the_lease_lets_a_stale_worker_end_the_task() {
    without(Guard::FenceLease, stale_worker(), FENCE);
}

#[test]
fn a_spawn_without_the_fence_leaves_an_orphan() {
    without(Guard::SpawnFence, felling(), ORPHAN);
}

#[test]
fn without_the_session_lock_a_wake_up_is_lost() {
    without(Guard::SessionLock, dependencies(), AWAITED);
}

#[test]
fn without_the_session_lock_the_window_is_exceeded() {
    without(Guard::SessionLock, traffic(), WINDOW);
}

#[test]
fn counting_what_runs_breaks_the_cap() {
    without(Guard::SlotRow, claimants(), CAP);
}

#[test]
fn waking_by_what_was_seen_before_the_lock_leaves_a_dependant_waiting_for_ever() {
    without(Guard::UnconditionalWake, dependencies(), DRAINED);
}

#[test]
fn waking_by_what_was_seen_before_the_lock_leaves_a_parent_waiting_for_ever() {
    without(
        Guard::UnconditionalWake,
        Protocol { budget: Default::default(), ..race_of_all_children() },
        DRAINED,
    );
}

fn race_of_all_children() -> Protocol {
    let mut protocol = race_of_children();
    protocol.plans[0].waits_for_any = false;
    protocol
}

#[test]
fn a_cancel_with_one_snapshot_misses_the_claim_it_waited_for() {
    without(Guard::FreshSnapshot, traffic(), NOT_HOT);
}

#[test]
fn a_cancelled_task_that_kept_its_slot_ends_twice() {
    without(Guard::FreshSnapshot, traffic(), TERMINAL);
}

#[test]
fn a_cap_read_from_a_snapshot_lets_a_claim_in_after_the_shrink() {
    without(Guard::OpenFlag, shrink(), CLOSED);
}

#[test]
fn a_claim_that_ignores_tasks_in_closed_slots_lets_use_rise_after_a_shrink() {
    without(Guard::Reserve, shrink(), CAP);
}

#[test]
fn a_claim_that_counts_only_before_its_locks_misses_a_shrink() {
    without(Guard::Recount, shrink(), CAP);
}

#[test]
fn a_claim_that_locks_only_what_it_fills_leaves_slots_unused() {
    without(Guard::Headroom, reserve(), CAPACITY);
}

#[test]
fn two_claims_that_only_count_what_must_stay_empty_count_each_others_slot() {
    without(Guard::ReserveLock, reserve(), CAP);
}

#[test]
fn a_shrink_that_locks_only_what_it_closes_overtakes_a_claim() {
    without(Guard::AllSlots, shrink(), CAP);
}

#[test]
fn a_shrink_that_overtakes_a_growth_misses_its_rows() {
    let requests = vec![Verb::SetCap(3), Verb::SetCap(2)];
    let grown = Protocol { requests, cap: 1, batch: 2, budget: Default::default(), ..shrink() };
    without(Guard::CapMutex, grown, CAP);
}

#[test]
fn a_turn_without_a_number_is_stored_twice() {
    without(Guard::TurnNumber, stale_worker(), ONCE);
}

#[test]
fn locking_sessions_in_any_order_deadlocks() {
    without(Guard::SessionOrder, of_many(), DEADLOCK);
}

#[test]
fn locking_the_slot_before_the_session_deadlocks() {
    without(Guard::LockOrder, stale_worker(), DEADLOCK);
}

#[test]
fn locking_slots_in_any_order_deadlocks() {
    without(Guard::SlotOrder, felling(), DEADLOCK);
}

#[test]
fn counting_queue_and_slots_apart_leaves_a_task_outside() {
    without(Guard::SingleCount, batches(), ROOM);
}

#[test]
fn a_sweep_that_does_not_look_again_takes_a_renewed_lease() {
    without(Guard::SweepRecheck, stale_worker(), LIVE);
}

#[test]
fn a_claim_without_an_order_jumps_the_queue() {
    without(Guard::QueueOrder, claimants(), ORDER);
}
