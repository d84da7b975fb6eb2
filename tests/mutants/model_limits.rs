//! Limits of models.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "model_window_too_short",
        caught_by: &[
            "store::model_limits::no_60_seconds_have_more_calls_of_a_model_than_its_limit",
        ],
        edits: &[("model_room_1", "::bigint - 63", "::bigint - 58")],
    },
    Mutant {
        name: "model_limits_not_locked",
        caught_by: &[
            "store::model_limits::workers_that_reserve_at_once_get_no_more_than_the_limits",
        ],
        edits: &[("lock_model_limit_1", " for update", "")],
    },
    Mutant {
        name: "model_waiters_overtaken",
        caught_by: &["store::model_limits::tasks_get_their_calls_in_the_order_in_which_they_asked"],
        edits: &[(
            "reserve_model_calls_1",
            "not exists (select from model_waiter w where w.model = p_model)",
            "true",
        )],
    },
    Mutant {
        name: "model_waiters_not_counted",
        caught_by: &["store::model_limits::tasks_get_their_calls_in_the_order_in_which_they_asked"],
        edits: &[(
            "model_turns_1",
            "x.due_at > p_at - interval '10 seconds'",
            "x.task = any(p_tasks)",
        )],
    },
    Mutant {
        name: "late_model_waiters_block",
        caught_by: &[
            "store::model_limits::a_task_that_does_not_come_back_holds_up_others_for_10_seconds",
        ],
        edits: &[("model_turns_1", " and x.due_at > p_at - interval '10 seconds'", "")],
    },
    Mutant {
        name: "model_place_lost",
        caught_by: &["store::model_limits::tasks_get_their_calls_in_the_order_in_which_they_asked"],
        edits: &[(
            "place_model_waiters_1",
            "set tokens = excluded.tokens,",
            "set place = excluded.place, tokens = excluded.tokens,",
        )],
    },
    Mutant {
        name: "begun_tasks_wait_behind_others",
        caught_by: &[
            "store::model_limits::a_task_that_has_had_a_call_comes_before_those_that_have_not",
        ],
        edits: &[(
            "place_model_waiters_1",
            "case when g.begun then 0 else",
            "case when false then 0 else",
        )],
    },
    Mutant {
        name: "model_permits_of_others_ignored",
        caught_by: &[
            "store::model_limits::workers_that_reserve_at_once_get_no_more_than_the_limits",
        ],
        edits: &[("model_room_1", "p.worker <> p_worker and p.expires_at > p_at", "false")],
    },
    Mutant {
        name: "model_permits_of_the_dead_kept",
        caught_by: &["store::model_limits::the_calls_of_a_dead_worker_come_back_after_its_lease"],
        edits: &[
            ("model_room_1", " and p.expires_at > p_at", ""),
            ("grant_model_calls_1", " and expires_at <= p_at", " and false"),
        ],
    },
    Mutant {
        name: "model_tokens_not_limited",
        caught_by: &[
            "store::model_limits::workers_that_reserve_at_once_get_no_more_than_the_limits",
        ],
        edits: &[(
            "model_turns_1",
            "waiter.all_tokens <= coalesce(room.tokens, waiter.all_tokens)",
            "true",
        )],
    },
    Mutant {
        name: "model_tokens_not_settled",
        caught_by: &[
            "store::model_limits::tokens_are_reserved_by_estimate_and_settled_after_the_call",
        ],
        edits: &[("settle_model_usage_1", "tokens = u.tokens + e.tokens", "tokens = u.tokens")],
    },
    Mutant {
        name: "model_headers_ignored",
        caught_by: &[
            "store::model_limits::what_the_providers_headers_leave_holds_until_their_reset",
        ],
        edits: &[(
            "model_room_1",
            "case when p_limit.requests_reset_at > p_at then p_limit.remaining_requests end",
            "null",
        )],
    },
    Mutant {
        name: "model_limits_of_the_last_worker",
        caught_by: &[
            "store::model_limits::the_smallest_limit_that_a_worker_asks_with_holds_for_a_minute",
        ],
        edits: &[(
            "lock_model_limit_1",
            "when limits.limited_at < now() - interval '60 seconds' then",
            "when true then",
        )],
    },
    Mutant {
        name: "model_tenants_in_one_line",
        caught_by: &["store::model_limits::tenants_take_turns_at_a_limited_model"],
        edits: &[("place_model_waiters_1", " and x.tenant = y.tenant", "")],
    },
    Mutant {
        name: "model_waiters_kept_by_cancel",
        caught_by: &["store::model_limits::a_cancelled_task_waits_for_no_call"],
        edits: &[(
            "cancel_tasks_1",
            "where w.task = any(p_tasks) for update skip locked",
            "where false",
        )],
    },
];
