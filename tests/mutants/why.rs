//! Why a task waits, and what counts as running.

use super::Mutant;

const ORDER: &str =
    "store::why::what_holds_back_a_queued_task_is_named_from_the_most_binding_reason_on";
const LOST: &str =
    "store::why::a_task_of_a_lost_worker_waits_for_its_lease_and_does_not_run_after_it";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "why_without_workers",
        caught_by: &[ORDER],
        edits: &[("why_of_1", "when w.workers = 0 then 'no_worker'", "")],
    },
    Mutant {
        name: "why_window_after_the_cap",
        caught_by: &[ORDER],
        edits: &[("why_of_1", "when not w.is_in_queue and w.not_before is null then 'window'", "")],
    },
    Mutant {
        name: "why_blames_the_fleet_for_a_share",
        caught_by: &["store::why::a_tenant_learns_of_the_fleet_and_of_no_other_tenant"],
        edits: &[(
            "why_of_1",
            "when w.free <= 0 and w.tenant_holds >= w.tenant_share then 'tenant'",
            "",
        )],
    },
    Mutant {
        name: "why_silent_worker_is_fine",
        caught_by: &[LOST],
        edits: &[("why_of_1", " or w.is_silent", "")],
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
