//! Cancels.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "cancel_in_one_statement",
        caught_by: &["store::cancel::a_cancel_that_waits_for_a_claim_in_flight_takes_its_lease_away"],
        edits: &[
            (
                "cancel_tasks_1",
                "    delete from queue where queue.session = any(p_sessions) and queue.task = any(p_tasks);\n",
                "",
            ),
            (
                "cancel_tasks_1",
                "held := array(select n from slot where slot.task = any(p_tasks) order by n for update);",
                "with gone as (delete from queue where queue.task = any(p_tasks))
                 select array(select n from slot where slot.task = any(p_tasks) order by n for update) into held;",
            ),
        ],
    },
    Mutant {
        name: "stored_answer_shown_as_draft",
        caught_by: &["store::drafts::a_draft_does_not_count_when_its_answer_is_stored"],
        edits: &[("cancel_tasks_1", " and d.answer = x.answers + 1", "")],
    },
];
