//! Cancels.

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
        name: "stored_answer_shown_as_draft",
        caught_by: &["store::drafts::a_draft_does_not_count_when_its_answer_is_stored"],
        edits: &[("cancel_1", " and d.answer = x.answers + 1", "")],
    },
];
