//! Budgets: raises, prices, warnings, and calls that were broken off.

use super::Mutant;

const RAISE: &str =
    "store::budgets::a_paused_task_holds_nothing_and_goes_on_when_its_budget_is_raised";
const TREE: &str = "store::budgets::a_tree_that_paused_goes_on_when_its_root_is_raised";
const SESSION: &str =
    "store::budgets::a_raise_of_a_session_goes_on_in_batches_though_its_server_has_died";
const PRICES: &str =
    "store::budgets::a_limit_of_the_cost_is_refused_without_prices_wherever_it_comes_from";
const BROKEN: &str =
    "store::budgets::a_broken_off_call_counts_once_everywhere_even_if_its_task_has_ended";
const TAKEN_OVER: &str =
    "store::budgets::a_call_of_a_lost_attempt_is_counted_beside_the_attempt_that_took_over";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "spawn_raises_limits",
        caught_by: &[
            "store::agents::a_delegation_lowers_limits_of_its_agent_and_adds_to_its_skills",
        ],
        edits: &[(
            "tighter_budget_1",
            "least((a ->> 'max_output_tokens')::bigint, (b ->> 'max_output_tokens')::bigint)",
            "coalesce((b ->> 'max_output_tokens')::bigint, (a ->> 'max_output_tokens')::bigint)",
        )],
    },
    Mutant {
        name: "raise_before_pause_forgotten",
        caught_by: &[RAISE],
        edits: &[(
            "settle_1",
            "when 'budget' then used_up_budget_1(t.id) is null",
            "when 'budget' then false",
        )],
    },
    Mutant {
        name: "own_budget_forgotten",
        caught_by: &[TREE],
        edits: &[(
            "used_up_budget_1",
            "when is_used_up_1(t.config -> 'budget', t.input_tokens, t.output_tokens, t.cost_nanousd) then 'task'",
            "",
        )],
    },
    Mutant {
        name: "tree_ignored_by_a_raise",
        caught_by: &[TREE],
        edits: &[(
            "used_up_budget_1",
            "when is_used_up_1(p.tree_budget, p.tree_input_tokens, p.tree_output_tokens, p.tree_cost_nanousd) then 'tree'",
            "",
        )],
    },
    Mutant {
        name: "raise_below_use",
        caught_by: &[RAISE],
        edits: &[("raised_budget_1", "wanted > allowed and wanted <= spent", "false")],
    },
    Mutant {
        name: "raise_lowers",
        caught_by: &[RAISE],
        edits: &[("raised_budget_1", "wanted < allowed", "false")],
    },
    Mutant {
        name: "raise_without_mark",
        caught_by: &[SESSION],
        edits: &[(
            "resume_from_1",
            "update task set not_before = now() where id = paused[101];",
            "",
        )],
    },
    Mutant {
        name: "mark_of_a_raise_raised_away",
        caught_by: &[
            "store::budgets::a_raise_of_the_task_that_marks_a_batch_keeps_the_raise_of_its_session_going",
        ],
        edits: &[("raise_1", "if marked is not null then", "if false then")],
    },
    Mutant {
        name: "mark_of_a_raise_cancelled",
        caught_by: &[SESSION],
        edits: &[(
            "cancel_tasks_1",
            "unnest(paused_sessions, paused_numbers) p (session, number)",
            "unnest('{}'::bigint[], '{}'::integer[]) p (session, number)",
        )],
    },
    Mutant {
        name: "mark_of_a_raise_not_followed",
        caught_by: &[SESSION],
        edits: &[(
            "admit_due_1",
            "and t.waiting_for = 'budget';",
            "and t.waiting_for = 'budget' and false;",
        )],
    },
    Mutant {
        name: "warned_again",
        caught_by: &["store::budgets::a_limit_is_warned_of_once_however_many_tasks_come_near_it"],
        edits: &[(
            "warn_of_budget_1",
            "    if found then\n        perform record",
            "    if true then\n        perform record",
        )],
    },
    Mutant {
        name: "prices_of_sessions_unchecked",
        caught_by: &[PRICES],
        edits: &[(
            "configure_1",
            "limits_cost or s.max_cost_nanousd is not null or",
            "limits_cost or",
        )],
    },
    Mutant {
        name: "prices_of_trees_unchecked",
        caught_by: &[PRICES],
        edits: &[("configure_1", " or p_parent.id is not null then", " then")],
    },
    Mutant {
        name: "prices_of_concurrent_spawns_unchecked",
        caught_by: &[PRICES],
        edits: &[("with_prices_1", "is not null then null", "is not null then e.config")],
    },
    Mutant {
        name: "sessions_with_prices_unchecked_together",
        caught_by: &[PRICES],
        edits: &[("places_with_room_1", "s.max_cost_nanousd is null and ", "")],
    },
    Mutant {
        name: "broken_call_counted_twice",
        caught_by: &[BROKEN],
        edits: &[(
            "broken_call_1",
            "    if not found then\n        return true;",
            "    if false then\n        return true;",
        )],
    },
    Mutant {
        name: "broken_calls_without_answers_forgotten",
        caught_by: &[BROKEN],
        edits: &[("given_ends_1", " or x.broken_calls > 0", "")],
    },
    Mutant {
        name: "late_call_forgotten",
        caught_by: &[BROKEN],
        edits: &[("broken_call_1", "    if is_late then", "    if false then")],
    },
    Mutant {
        name: "late_call_without_waiting_for_a_claim",
        caught_by: &[TAKEN_OVER],
        edits: &[(
            "broken_call_1",
            "        perform from queue where session = p_session and task = p_task for update;\n",
            "",
        )],
    },
    Mutant {
        name: "late_call_missing_in_the_next_attempt",
        caught_by: &[TAKEN_OVER],
        edits: &[(
            "broken_call_1",
            "    where task = p_task;\n    if is_late",
            "    where task = p_task and not is_late;\n    if is_late",
        )],
    },
    Mutant {
        name: "ended_tasks_get_cheaper",
        caught_by: &[BROKEN],
        edits: &[("refuse_rewrite_of_the_ended", "< 0\n", "< -1000\n")],
    },
];
