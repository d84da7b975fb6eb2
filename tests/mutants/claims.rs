//! The cap, claims and the order of the queue.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "count_instead_of_slot",
        caught_by: &["store::claim::a_claim_in_flight_keeps_its_slot_from_others"],
        edits: &[
            (
                "claim_1",
                "slot.task is null and open",
                "slot.task is null and (select count(x.task) < count(*) filter (where x.open) from slot x)",
            ),
            (
                "claim_1",
                "limit cardinality(tasks) + closing",
                "limit least(cardinality(tasks), (select count(*) filter (where x.open) - count(x.task) from slot x)) + closing",
            ),
        ],
    },
    Mutant {
        name: "slot_not_locked",
        caught_by: &["store::claim::a_claim_in_flight_keeps_its_slot_from_others"],
        edits: &[(
            "claim_1",
            "- cardinality(p_kept)
            for update skip locked",
            "- cardinality(p_kept)",
        )],
    },
    Mutant {
        name: "shrink_without_reserve",
        caught_by: &["store::cap::a_grown_cap_is_used_at_once_and_a_shrunk_one_only_falls"],
        // Without the first edit this needs a change of the cap between choice and locks.
        edits: &[
            (
                "choose_1",
                "want := least(p_want, cardinality(p_kept) + free - closing);",
                "want := least(p_want, cardinality(p_kept) + free);",
            ),
            (
                "claim_1",
                "slots[closing + 1:closing + cardinality(tasks)]",
                "slots[1:cardinality(tasks)]",
            ),
        ],
    },
    Mutant {
        name: "shrink_without_headroom",
        caught_by: &["store::cap::a_grown_cap_is_used_at_once_and_a_shrunk_one_only_falls"],
        edits: &[(
            "claim_1",
            "limit cardinality(tasks) + closing - cardinality(p_kept)",
            "limit cardinality(tasks) - cardinality(p_kept)",
        )],
    },
    Mutant {
        name: "closed_slots_kept",
        caught_by: &[
            "store::end_and_claim::of_an_open_and_a_closed_slot_that_end_together_the_open_one_is_filled",
        ],
        edits: &[("end_1", "p_keep and x.open as is_kept", "p_keep as is_kept")],
    },
    Mutant {
        name: "kept_slots_not_freed",
        caught_by: &[
            "store::end_and_claim::a_reused_slot_is_never_empty_and_never_holds_two_tasks",
        ],
        edits: &[(
            "claim_1",
            "if closing > 0 or cardinality(tasks) < cardinality(p_kept) then",
            "if false then",
        )],
    },
    Mutant {
        name: "kept_slots_counted_as_running",
        caught_by: &[
            "store::end_and_claim::a_task_admitted_by_an_end_gets_its_slot_in_the_same_call",
        ],
        edits: &[("admit_1", " and x.task <> all(p_left)", "")],
    },
    Mutant {
        name: "closed_slots_claimed",
        caught_by: &["store::cap::a_grown_cap_is_used_at_once_and_a_shrunk_one_only_falls"],
        edits: &[
            ("choose_1", "(where x.task is null and x.open),", "(where x.task is null),"),
            ("claim_1", "slot.task is null and open", "slot.task is null"),
        ],
    },
    Mutant {
        name: "window_counted_in_two_statements",
        caught_by: &[
            "store::claim::an_end_during_which_a_task_is_claimed_admits_as_many_as_have_room",
        ],
        edits: &[
            (
                "admit_1",
                "begin\n",
                "declare seen uuid[] := array(select x.task from slot x where x.session = any(p_sessions));\nbegin\n",
            ),
            (
                "admit_1",
                "where x.session = any(p_sessions) and x.task <> all(p_left)",
                "where x.session = any(p_sessions) and x.task <> all(p_left) and x.task = any(seen)",
            ),
        ],
    },
    Mutant {
        name: "window_ignored",
        caught_by: &["store::spawn::a_window_with_some_room_takes_no_more_than_that"],
        edits: &[("admit_1", "greatest(0, s.max_active - cardinality(hot.tasks))", "s.max_active")],
    },
    Mutant {
        name: "front_forgotten",
        caught_by: &[
            "store::queue_order::a_released_task_goes_to_the_front_behind_those_released_before_it",
        ],
        edits: &[("admit_1", " - case when next.attempt > 0 then 1::bigint << 62 else 0 end", "")],
    },
    Mutant {
        name: "claim_in_any_order",
        caught_by: &[
            "store::queue_order::tasks_are_claimed_in_the_order_in_which_they_were_spawned",
        ],
        edits: &[("lock_queued_1", "order by priority desc, entry", "order by entry desc")],
    },
    Mutant {
        name: "turned_over_lazily",
        caught_by: &[
            "store::end_and_claim::ends_are_durable_when_the_call_returns_though_claims_need_not_be",
        ],
        edits: &[("commit_lazily_1", " and pg_current_xact_id_if_assigned() is null", "")],
    },
    Mutant {
        name: "busy_places_filled",
        caught_by: &[
            "store::end_and_claim::a_session_locked_by_another_end_is_skipped_and_its_slot_not_filled",
        ],
        edits: &[("end_and_claim_1", "        room := room - 1;\n", "")],
    },
];
