//! Cancels and the deletion of sessions.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "cancel_in_one_statement",
        caught_by: &["store::cancel::a_cancel_that_waits_for_a_claim_in_flight_takes_its_lease_away"],
        edits: &[
            ("cancel_1", "    delete from queue where queue.session = target.session and queue.task = any(tree);\n", ""),
            (
                "cancel_1",
                "held := array(select n from slot where slot.task = any(tree) order by n for update);",
                "with gone as (delete from queue where queue.task = any(tree))
                 select array(select n from slot where slot.task = any(tree) order by n for update) into held;",
            ),
        ],
    },
    Mutant {
        name: "slots_of_a_deleted_session_locked_in_any_order",
        caught_by: &["store::cap::deleting_a_session_does_not_deadlock_with_a_change_of_the_cap"],
        edits: &[("delete_session_1", "perform from slot where session = p_session order by n for update;", "")],
    },
    Mutant {
        name: "deleted_session_not_cancelled",
        caught_by: &["store::shared_context::tasks::a_deleted_session_leaves_nothing_and_takes_its_leases_back"],
        edits: &[("delete_session_1", "fenced := fenced || (select leases from cancel_1(unfinished));", "null;")],
    },
    Mutant {
        name: "stored_answer_shown_as_draft",
        caught_by: &["store::drafts::a_draft_does_not_count_when_its_answer_is_stored"],
        edits: &[("cancel_1", " and d.answer = x.answers + 1", "")],
    },
];
