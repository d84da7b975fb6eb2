//! The shared context, snapshots of it and overlays.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "context_without_fence",
        caught_by: &["store::shared_context::tasks::a_lost_lease_writes_nothing"],
        edits: &[("task_context_1", " and lease = p_lease", "")],
    },
    Mutant {
        name: "context_written_again",
        caught_by: &[
            "store::shared_context::tasks::a_call_and_its_result_are_stored_together_and_once",
        ],
        edits: &[("task_context_1", " and r.call = p_call_id", " and false")],
    },
    Mutant {
        name: "context_slot_before_session",
        caught_by: &[
            "store::shared_context::races::a_write_waits_for_its_session_before_it_takes_its_slot",
        ],
        edits: &[("task_context_1", "perform lock_sessions_1(array[p_session]);", "null;")],
    },
    Mutant {
        name: "context_session_not_locked",
        caught_by: &["store::shared_context::races::a_write_that_waited_counts_what_it_waited_for"],
        edits: &[("context_1", " for no key update", "")],
    },
    Mutant {
        name: "context_of_the_archived_written",
        caught_by: &[
            "store::shared_context::lifetime::sc_14_an_archived_session_can_be_read_and_not_written",
        ],
        edits: &[("context_1", "s.archived_at is not null", "false")],
    },
    Mutant {
        name: "context_without_limit",
        caught_by: &[
            "store::shared_context::calls::sc_10_all_values_together_have_10000_tokens_and_an_overwritten_one_does_not_count",
        ],
        edits: &[("context_write_1", "total > store_limit", "false")],
    },
    Mutant {
        name: "history_of_long_values_unbounded",
        caught_by: &["store::shared_context::lifetime::a_history_of_long_values_is_shown_in_part"],
        edits: &[(
            "context_read_history_1",
            "sum(tokens) over (order by id desc) <= 100000",
            "true",
        )],
    },
    Mutant {
        name: "overlay_ignored",
        caught_by: &[
            "store::snapshots::overlays::row_4_8_a_task_on_a_snapshot_never_changes_the_session",
        ],
        edits: &[("task_context_1", "coalesce(caller.context, p_session)", "p_session")],
    },
    Mutant {
        name: "snapshot_forgotten",
        caught_by: &["store::snapshots::overlays::row_4_6_a_task_starts_with_its_sessions_entries"],
        edits: &[("spawn_1", "'depends_on', 'snapshot'", "'depends_on'")],
    },
    Mutant {
        name: "snapshot_without_labels",
        caught_by: &["store::snapshots::overlays::row_4_6_a_task_starts_with_its_sessions_entries"],
        edits: &[("copy_context_1", "where c.session = p_context", "where false")],
    },
    Mutant {
        name: "overlay_kept_from_children",
        caught_by: &["store::snapshots::overlays::children_share_the_context_of_their_parent"],
        edits: &[("create_tasks_1", "else p_parent.context end", "end")],
    },
    Mutant {
        name: "overlay_taken_from_children",
        caught_by: &["store::snapshots::ends::an_overlay_ends_with_the_last_task_that_works_on_it"],
        edits: &[("delete_overlay_1", "if not found then", "if true then")],
    },
    Mutant {
        name: "overlay_left_behind",
        caught_by: &[
            "store::snapshots::ends::an_overlay_ends_in_the_transaction_that_ends_its_task",
        ],
        edits: &[("delete_overlay_1", "if not found then", "if false then")],
    },
];
