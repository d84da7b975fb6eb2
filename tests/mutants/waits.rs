//! Waits of clients, notifications and what was collected.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "news_told_without_the_lock",
        caught_by: &["store::waits::a_notification_goes_to_one_of_two_waits"],
        edits: &[("take_notifications_1", "    perform lock_sessions_1(array[p_session]);\n", "")],
    },
    Mutant {
        name: "news_stay_unread",
        caught_by: &[
            "dialects::ecs::waits::rows_2_22_to_2_24_notifications_are_delivered_once_and_cancelled_sessions_have_none",
        ],
        edits: &[("take_notifications_1", "set read_at = now()", "set read_at = null")],
    },
    Mutant {
        name: "cancelled_wakes_nobody",
        caught_by: &[
            "store::waits::a_wait_returns_a_task_that_was_cancelled_since_its_first_check",
        ],
        edits: &[("wait_1", "t.state = 'cancelled' and", "false and")],
    },
    Mutant {
        name: "collected_waited_for",
        caught_by: &[
            "dialects::spec::waits::service::row_g_13_with_ids_unknown_and_collected_ones_are_not_found",
        ],
        edits: &[("wait_1", "t.number = n and t.collected_at is null", "t.number = n")],
    },
    Mutant {
        name: "collected_cancelled",
        caught_by: &[
            "dialects::spec::collects::service::row_0_19_a_collected_task_is_not_found_again",
        ],
        edits: &[("cancel_by_number_1", " and t.collected_at is null", "")],
    },
    Mutant {
        name: "news_out_of_scope",
        caught_by: &["dialects::ecs::waits::row_2_23_a_wait_returns_and_marks_only_its_scope"],
        edits: &[("take_notifications_of_1", " and t.number = any(p_numbers)", "")],
    },
];
