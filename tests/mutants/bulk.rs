//! Cancels and retries of all tasks that match a filter.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "bulk_cancel_overtakes_a_claim",
        caught_by: &["store::bulk::a_task_that_starts_meanwhile_is_not_cancelled_as_queued"],
        edits: &[(
            "cancel_many_1",
            "perform from queue q where q.session = any(sessions) and q.task = any(p_tasks) for update;",
            "",
        )],
    },
    Mutant {
        name: "bulk_cancel_of_a_state_that_is_over",
        caught_by: &["store::bulk::a_task_that_starts_meanwhile_is_not_cancelled_as_queued"],
        edits: &[("is_still_1", "coalesce(p_expires_at <= now(), true)", "true")],
    },
    Mutant {
        name: "bulk_cancel_of_the_ended",
        caught_by: &["store::bulk::a_task_that_ends_meanwhile_keeps_its_result"],
        edits: &[("is_still_1", "t.finished_at is null and", "")],
    },
    Mutant {
        name: "bulk_cancel_of_another_tenant",
        caught_by: &["store::bulk::the_ids_of_another_tenant_are_not_cancelled"],
        edits: &[("cancel_many_1", " and s.tenant = p_tenant", "")],
    },
    Mutant {
        name: "bulk_retry_of_another_tenant",
        caught_by: &["store::bulk::the_ids_of_another_tenant_are_not_cancelled"],
        edits: &[(
            "not_retried_1",
            "t.id is null or s.tenant is distinct from p_tenant",
            "t.id is null",
        )],
    },
    Mutant {
        name: "bulk_cancel_without_a_bound",
        caught_by: &[
            "store::bulk::a_transaction_ends_no_further_tree_when_it_has_many_tasks_to_end",
        ],
        edits: &[("cancel_many_1", "exit when cardinality(tree) >= p_most;", "")],
    },
    Mutant {
        name: "bulk_cancel_of_a_tree_twice",
        caught_by: &["store::bulk::a_child_and_its_parent_that_both_match_are_cancelled_once"],
        edits: &[
            ("cancel_many_1", " where b <> all(tree)", ""),
            (
                "cancel_many_1",
                "ended := array(select t.id from task t where t.id = any(tree) order by t.session, t.number);",
                "ended := tree;",
            ),
        ],
    },
    Mutant {
        name: "bulk_retry_twice_at_once",
        caught_by: &["store::bulk::retries::two_bulk_retries_at_once_retry_each_task_once"],
        edits: &[("record_retry_1", "if p_once then", "if false then")],
    },
    Mutant {
        name: "bulk_retry_twice",
        caught_by: &[
            "store::bulk::retries::a_task_that_was_retried_by_hand_is_not_retried_in_bulk",
        ],
        edits: &[(
            "record_retry_1",
            "insert into retried (task, as_task) values (p_task, p_retry) on conflict do nothing;",
            "null;",
        )],
    },
    Mutant {
        name: "retries_of_the_deleted_kept",
        caught_by: &["store::bulk::retries::the_retries_of_a_deleted_session_are_forgotten"],
        edits: &[("delete_tasks_1", "delete from retried where task = any(p_tasks);", "")],
    },
];
