//! Checks and numbers of a spawn, alone and concurrent with others.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "tree_counted_without_its_root",
        caught_by: &["store::trees::a_tree_has_at_most_200_tasks_however_many_spawn_at_once"],
        edits: &[("check_tree_1", "integer := 1 + (select", "integer := (select")],
    },
    Mutant {
        name: "tree_without_limit",
        caught_by: &["store::trees::a_tree_has_at_most_200_tasks_however_many_spawn_at_once"],
        edits: &[("check_spawn_1", "perform check_tree_1(", "perform format('%s%s%s', ")],
    },
    Mutant {
        name: "session_lock_dropped",
        caught_by: &["store::events::a_turn_waits_for_its_session_before_it_takes_its_slot"],
        edits: &[("lock_sessions_1", " for no key update", "")],
    },
    Mutant {
        name: "session_lock_dropped_by_spawn",
        caught_by: &["store::spawn::a_spawn_that_waits_for_another_counts_its_task"],
        edits: &[("spawn_1", " for no key update", "")],
    },
    Mutant {
        name: "sessions_locked_in_any_order",
        caught_by: &["store::lock_order::sessions_are_locked_in_the_order_of_their_ids"],
        edits: &[("lock_sessions_1", "order by id", "order by id desc")],
    },
    Mutant {
        name: "future_numbers_known",
        caught_by: &["store::dependencies::a_task_number_not_yet_assigned_is_unknown"],
        edits: &[("record_dependencies_1", " and n.dependency < s.next_number", "")],
    },
    Mutant {
        name: "keys_shared_by_parents",
        caught_by: &["store::children::an_idempotency_key_belongs_to_the_parent_across_attempts"],
        edits: &[("spawn_1", "coalesce(p_by.task || '/', '') || p_key.key", "p_key.key")],
    },
    Mutant {
        name: "keys_forgotten_early",
        caught_by: &["store::idempotency::a_key_is_the_same_after_23_hours_and_free_after_24"],
        edits: &[("find_answer_1", "interval '24 hours'", "interval '23 hours'")],
    },
    Mutant {
        name: "keys_kept_too_long",
        caught_by: &["store::idempotency::a_key_is_the_same_after_23_hours_and_free_after_24"],
        edits: &[("find_answer_1", "interval '24 hours'", "interval '25 hours'")],
    },
    Mutant {
        name: "concurrent_spawns_wait",
        caught_by: &["store::batched_calls::a_locked_session_does_not_delay_others"],
        edits: &[("spawn_concurrent_1", "for no key update skip locked", "for no key update")],
    },
    Mutant {
        name: "concurrent_spawns_beyond_the_window",
        caught_by: &["store::batched_calls::a_batch_fills_the_window_of_a_session_and_no_more"],
        edits: &[("places_with_room_1", "f.k <= least(s.max_active, s.max_queued) - ", "f.k <= 1000 - ")],
    },
    Mutant {
        name: "concurrent_spawns_for_archived_sessions",
        caught_by: &["store::batched_calls::concurrent_spawns_of_many_sessions_are_each_as_if_alone"],
        edits: &[("spawn_concurrent_1", " and s.archived_at is null", "")],
    },
    Mutant {
        name: "numbers_given_twice",
        caught_by: &["store::spawn::numbers_count_up_inside_a_session"],
        edits: &[("create_tasks_1", "partition by e.session order by e.place", "partition by e.place")],
    },
    Mutant {
        name: "answer_lost_with_its_agent",
        caught_by: &["dialects::spec::spawns::service::row_g_32_the_same_key_spawns_one_task"],
        edits: &[(
            "spawn_1",
            "    if own_key is not null then\n        answer",
            "    if not exists (select from agent_1(s.id, t.agents[1])) then perform refuse('AGENT_NOT_FOUND', ''); end if;
             if own_key is not null then\n        answer",
        )],
    },
    Mutant {
        name: "admitted_past_the_window",
        caught_by: &["store::spawn::a_window_with_some_room_takes_no_more_than_that"],
        edits: &[("check_room_1", "return case when span = 0 then s.max_active end", "return s.max_active")],
    },
    Mutant {
        name: "admitted_never",
        caught_by: &["store::spawn::a_window_with_some_room_takes_no_more_than_that"],
        edits: &[("spawn_1", "        if room is null then\n", "        if false then\n")],
    },
    Mutant {
        name: "unfinished_counted_as_none",
        caught_by: &["store::spawn::a_sixth_unfinished_task_is_refused_unless_it_accepts_to_wait"],
        edits: &[("check_room_1", "coalesce(s.next_number - oldest, 0)", "0")],
    },
    Mutant {
        name: "permissions_forgotten",
        caught_by: &["worker::permissions::every_task_has_the_permissions_of_its_session_as_they_are_when_it_is_spawned"],
        edits: &[("create_tasks_1", "add_session_settings_1(t.configs[g.place], g.inherited, g.permissions, p_grants)", "t.configs[g.place]")],
    },
];
