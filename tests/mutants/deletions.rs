//! Deleted sessions, and sessions that another transaction holds.

use super::Mutant;

const BATCHES: &str =
    "store::delete::the_rows_of_a_deleted_session_go_in_batches_while_others_work";
const GONE: &str = "store::delete::no_call_finds_anything_of_a_deleted_session";
const WEIGHTS: &str = "store::delete::a_batch_has_fewer_tasks_if_they_have_many_turns_or_overlays";
const SWEEP: &str = "store::locks::a_sweep_takes_back_what_it_can_while_a_session_is_locked";
const DELAYED: &str =
    "store::locks::delayed_tasks_are_admitted_while_a_session_with_many_is_locked";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "slots_of_a_deleted_session_locked_in_any_order",
        caught_by: &["store::cap::deleting_a_session_does_not_deadlock_with_a_change_of_the_cap"],
        edits: &[("delete_session_1", "order by n for update", "order by n desc for update")],
    },
    Mutant {
        name: "deleted_session_keeps_its_slots",
        caught_by: &[BATCHES],
        edits: &[("delete_session_1", "perform free_slots_1(held);", "")],
    },
    Mutant {
        name: "deleted_session_keeps_its_queue",
        caught_by: &[BATCHES],
        edits: &[("delete_session_1", "delete from queue where session = p_session;", "")],
    },
    Mutant {
        name: "large_deletion_batches",
        caught_by: &[BATCHES],
        edits: &[("delete_next_tasks_1", "limit 1000", "limit 100000")],
    },
    Mutant {
        name: "deletion_batches_of_any_weight",
        caught_by: &[WEIGHTS],
        edits: &[("delete_next_tasks_1", "where w.before < 2000", "where true")],
    },
    Mutant {
        name: "deletions_at_once",
        caught_by: &[BATCHES],
        edits: &[(
            "delete_batch_1",
            "not pg_try_advisory_xact_lock(hashtext('adjutant delete_batch'))",
            "false",
        )],
    },
    Mutant {
        name: "deleted_tasks_not_counted",
        caught_by: &[BATCHES],
        edits: &[(
            "count_cancelled_1",
            "where t.id = any(p_tasks) and t.finished_at is null\n    group by",
            "where false\n    group by",
        )],
    },
    Mutant {
        name: "deleted_overlays_left",
        caught_by: &[BATCHES],
        edits: &[(
            "count_cancelled_1",
            "delete from context_history where session = any(overlays);",
            "",
        )],
    },
    Mutant {
        name: "tasks_of_the_deleted_cancelled",
        caught_by: &[GONE],
        edits: &[(
            "cancel_1",
            "lock_sessions_1(array[target.session]) = '{}'",
            "lock_sessions_1(array[target.session]) is null",
        )],
    },
    Mutant {
        name: "results_of_the_deleted_read",
        caught_by: &[GONE],
        edits: &[("read_result_1", "join session s on s.id = t.session", "")],
    },
    Mutant {
        name: "ends_of_the_deleted_awaited",
        caught_by: &[GONE],
        edits: &[(
            "wait_1",
            "    perform from session where id = p_session;\n    if not found then",
            "    if false then",
        )],
    },
    Mutant {
        name: "deliveries_of_the_deleted_claimed",
        caught_by: &["store::delete::deliveries_of_a_deleted_session_are_not_sent"],
        edits: &[(
            "claim_deliveries_1",
            "and exists (select from session s where s.id = d.session)",
            "",
        )],
    },
    Mutant {
        name: "delays_of_the_deleted_kept",
        caught_by: &["store::delete::delayed_tasks_of_a_deleted_session_never_run"],
        edits: &[("admit_due_1", "perform undelay_deleted_1(due);", "")],
    },
    Mutant {
        name: "sweep_waits_for_sessions",
        caught_by: &[SWEEP],
        edits: &[("sweep_1", "lock_free_sessions_1(sessions)", "lock_sessions_1(sessions)")],
    },
    Mutant {
        name: "delayed_tasks_wait_for_sessions",
        caught_by: &[DELAYED],
        edits: &[("admit_due_1", "lock_free_sessions_1(sessions)", "lock_sessions_1(sessions)")],
    },
    Mutant {
        name: "delayed_tasks_behind_a_locked_session",
        caught_by: &[DELAYED],
        edits: &[("admit_due_1", "exit when cardinality(sessions) > 0;", "exit;")],
    },
    Mutant {
        name: "ends_wait_for_a_session",
        caught_by: &[
            "store::locks::an_end_whose_session_is_locked_gives_up_soon_and_its_worker_claims",
        ],
        edits: &[("end_1", "lock_sessions_soon_1(wanted)", "lock_sessions_1(wanted)")],
    },
];
