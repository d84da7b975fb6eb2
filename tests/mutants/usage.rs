//! Sums of usage.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "usage_of_retries_forgotten",
        caught_by: &[
            "store::usage::rollups_are_exactly_the_sums_of_the_tasks_and_survive_their_session",
        ],
        edits: &[(
            "write_ends_1",
            "coalesce(sum(e.new_input_tokens), 0), coalesce(sum(e.new_output_tokens), 0)",
            "coalesce(sum(e.new_input_tokens) filter (where e.finished_at is not null), 0), coalesce(sum(e.new_output_tokens), 0)",
        )],
    },
    Mutant {
        name: "usage_counted_twice",
        caught_by: &[
            "store::usage::rollups_are_exactly_the_sums_of_the_tasks_and_survive_their_session",
        ],
        edits: &[(
            "fold_usage_1",
            "delete from usage_delta\n",
            "update usage_delta set tasks = tasks\n",
        )],
    },
    Mutant {
        name: "usage_folded_and_lost",
        caught_by: &[
            "store::usage::rollups_are_exactly_the_sums_of_the_tasks_and_survive_their_session",
        ],
        edits: &[(
            "fold_usage_1",
            "set tasks = u.tasks + excluded.tasks",
            "set tasks = excluded.tasks",
        )],
    },
    Mutant {
        name: "hours_replaced_by_minutes",
        caught_by: &["store::usage::minutes_of_one_hour_are_added_to_what_the_hour_has"],
        edits: &[(
            "fold_minutes_1",
            "attempts = u.attempts + excluded.attempts",
            "attempts = excluded.attempts",
        )],
    },
    Mutant {
        name: "woken_tasks_still_waiting",
        caught_by: &[
            "store::usage::rollups_are_exactly_the_sums_of_the_tasks_and_survive_their_session",
        ],
        edits: &[("record_resumed_1", "-count(*)", "0")],
    },
    Mutant {
        name: "ended_while_waiting_still_waiting",
        caught_by: &[
            "store::usage::rollups_are_exactly_the_sums_of_the_tasks_and_survive_their_session",
        ],
        edits: &[("write_ends_1", " - count(*) filter (where e.was_waiting)", "")],
    },
    Mutant {
        name: "archived_sessions_counted",
        caught_by: &["store::keys::a_tenants_session_limit_ignores_archived_sessions"],
        edits: &[(
            "count_session_1",
            "if tg_op <> 'INSERT' and old.archived_at is null then",
            "if false then",
        )],
    },
];
