//! Fences by lease, renewals and sweeps.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "end_without_fence",
        caught_by: &["store::lease::a_stale_lease_cannot_complete_fail_release_or_wait"],
        edits: &[("end_1", " and x.lease = e.lease", "")],
    },
    Mutant {
        name: "checkpoint_without_fence",
        caught_by: &["store::lease::a_stale_lease_cannot_store_a_turn_or_a_tool_result"],
        edits: &[(
            "checkpoint_1",
            "task = p_task and lease = p_lease for update",
            "task = p_task for update",
        )],
    },
    Mutant {
        name: "checkpoint_without_session_lock",
        caught_by: &["store::events::a_turn_waits_for_its_session_before_it_takes_its_slot"],
        edits: &[(
            "checkpoint_1",
            "perform lock_sessions_1(array[p_session]);",
            "perform commit_durably_1();",
        )],
    },
    Mutant {
        name: "tool_result_without_fence",
        caught_by: &["store::lease::a_stale_lease_cannot_store_a_turn_or_a_tool_result"],
        edits: &[("tool_result_1", " and lease = p_lease", "")],
    },
    Mutant {
        name: "sweep_by_anyone",
        caught_by: &["store::sweep::only_a_worker_that_renewed_twice_in_a_row_may_sweep"],
        edits: &[("sweep_1", " and renewals >= 2", "")],
    },
    Mutant {
        name: "sweep_without_second_look",
        caught_by: &["store::sweep::a_lease_that_is_renewed_while_a_sweep_waits_is_kept"],
        edits: &[(
            "sweep_1",
            "x.lease = any(candidates) and x.expires_at < now() - p_grace",
            "x.lease = any(candidates)",
        )],
    },
    Mutant {
        name: "draft_without_fence",
        caught_by: &["store::drafts::a_worker_without_the_lease_drafts_nothing"],
        edits: &[("save_drafts_1", "    where e.lease = any(held)\n", "")],
    },
    Mutant {
        name: "drafts_wait",
        caught_by: &["store::drafts::a_draft_never_waits_for_the_checkpoint_of_its_answer"],
        edits: &[("save_drafts_1", " skip locked", "")],
    },
];
