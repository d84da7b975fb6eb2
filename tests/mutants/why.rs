//! Why a task waits, and what counts as running.

use super::Mutant;

const ORDER: &str =
    "store::why::what_holds_back_a_queued_task_is_named_from_the_most_binding_reason_on";
const LOST: &str =
    "store::why::a_task_of_a_lost_worker_waits_for_its_lease_and_does_not_run_after_it";
const ABILITIES: &str = "store::why_codes::a_model_or_tools_that_no_worker_of_the_pool_has_are_named_until_the_patience_ends";
const FULL: &str = "store::why_codes::only_the_workers_that_can_run_a_task_are_full_for_it";
const BUDGET: &str = "store::why_codes::a_task_over_budget_says_whose_and_what_to_do";
const CALLS: &str = "store::why_codes::a_circuit_has_the_end_of_the_patience_and_a_call_that_is_tried_again_its_next_try";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "why_without_models",
        caught_by: &[ABILITIES],
        edits: &[("missing_model_1", "r.id = p_needs and", "false and")],
    },
    Mutant {
        name: "why_without_tools",
        caught_by: &[ABILITIES],
        edits: &[("why_code_1", "when w.able = 0 then 'missing_tools'", "")],
    },
    Mutant {
        name: "why_tool_patience_of_an_older_task",
        caught_by: &[ABILITIES],
        edits: &[("end_of_tool_patience_1", "p_created_at, ", "")],
    },
    Mutant {
        name: "why_with_an_old_tool_patience",
        caught_by: &[ABILITIES],
        edits: &[("lasting_shortages_1", "s.patience <> p_patience", "false")],
    },
    Mutant {
        name: "why_counts_unable_workers",
        caught_by: &[FULL],
        edits: &[("able_workers_1", "satisfies_1(w.models, w.tools, r)", "w.id is not null")],
    },
    Mutant {
        name: "why_budget_is_children",
        caught_by: &[BUDGET],
        edits: &[("why_code_1", "when w.waiting_for = 'budget' then 'budget'", "")],
    },
    Mutant {
        name: "why_archived_can_be_raised",
        caught_by: &[BUDGET],
        edits: &[("why_code_1", "w.waiting_for = 'budget' and w.is_archived", "false")],
    },
    Mutant {
        name: "why_retrying_is_fine",
        caught_by: &[CALLS],
        edits: &[(
            "why_code_1",
            "when (w.failed_call).task is not null then 'retrying' end",
            "when false then '' end",
        )],
    },
    Mutant {
        name: "why_circuit_is_a_gate",
        caught_by: &[CALLS],
        edits: &[("why_code_1", "(w.gate).reason = 'circuit'", "false")],
    },
    Mutant {
        name: "nobody_woken_from_a_circuit",
        caught_by: &[CALLS],
        edits: &[("wake_from_circuit_1", "f.waits_since is not null", "false")],
    },
    Mutant {
        name: "why_circuit_without_patience",
        caught_by: &[CALLS],
        edits: &[(
            "record_failed_call_1",
            "waits_until = excluded.waits_until",
            "waits_until = null",
        )],
    },
    Mutant {
        name: "why_without_workers",
        caught_by: &[ORDER],
        edits: &[("why_code_1", "when w.workers = 0 then 'no_worker'", "")],
    },
    Mutant {
        name: "why_window_after_the_cap",
        caught_by: &[ORDER],
        edits: &[(
            "why_code_1",
            "when not w.is_in_queue and w.not_before is null then 'window'",
            "",
        )],
    },
    Mutant {
        name: "why_blames_the_fleet_for_a_share",
        caught_by: &["store::why::a_tenant_learns_of_the_fleet_and_of_no_other_tenant"],
        edits: &[(
            "why_code_1",
            "when w.free <= 0 and w.tenant_holds >= w.tenant_share then 'tenant'",
            "",
        )],
    },
    Mutant {
        name: "why_silent_worker_is_fine",
        caught_by: &[LOST],
        edits: &[("why_code_1", " and not w.is_silent", "")],
    },
    Mutant {
        name: "backlog_counts_the_lost_as_running",
        caught_by: &[LOST],
        edits: &[("backlog_1", " filter (where x.expires_at > now())", "")],
    },
    Mutant {
        name: "search_finds_the_lost_as_running",
        caught_by: &[LOST],
        edits: &[("tasks_1", "x.expires_at > now()", "x.task is not null")],
    },
];
