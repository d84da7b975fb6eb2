//! Guards, broken on purpose. `make mutants` runs the tests against each of them and expects a
//! failure; here it is only seen to that each still fits the functions that it breaks.

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::support::world::World;

pub struct Mutant {
    pub name: &'static str,
    /// Function, what it says, what the mutant says instead.
    edits: &'static [(&'static str, &'static str, &'static str)],
}

pub const MUTANTS: &[Mutant] = &[
    Mutant { name: "end_without_fence", edits: &[("end_1", " and x.lease = e.lease", "")] },
    Mutant {
        name: "checkpoint_without_fence",
        edits: &[("checkpoint_1", "task = p_task and lease = p_lease for update", "task = p_task for update")],
    },
    Mutant {
        name: "checkpoint_without_session_lock",
        edits: &[("checkpoint_1", "perform lock_sessions_1(array[p_session]);", "perform commit_durably_1();")],
    },
    Mutant { name: "tool_result_without_fence", edits: &[("tool_result_1", " and lease = p_lease", "")] },
    Mutant { name: "children_without_fence", edits: &[("spawning_task_1", " and slot.lease = p_by.lease", "")] },
    Mutant { name: "children_handled_without_fence", edits: &[("check_lease_1", " and lease = p_lease", "")] },
    Mutant {
        name: "children_delegated_again",
        edits: &[("children_of_call_1", "c.parent = p_by.task and c.call = p_by.call", "false")],
    },
    Mutant {
        name: "strangers_collected",
        edits: &[("collect_child_1", "number = p_number and parent = p_task and", "number = p_number and")],
    },
    Mutant {
        name: "timed_waits_never_end",
        edits: &[("admit_due_1", "waiting_for in ('all_children', 'any_child')", "false")],
    },
    Mutant { name: "tree_counted_without_its_root", edits: &[("check_tree_1", "integer := 1 + (select", "integer := (select")] },
    Mutant { name: "tree_without_limit", edits: &[("check_spawn_1", "perform check_tree_1(", "perform format('%s%s%s', ")] },
    Mutant { name: "session_lock_dropped", edits: &[("lock_sessions_1", " for no key update", "")] },
    Mutant { name: "session_lock_dropped_by_spawn", edits: &[("spawn_1", " for no key update", "")] },
    Mutant { name: "sessions_locked_in_any_order", edits: &[("lock_sessions_1", "order by id", "order by random()")] },
    Mutant {
        name: "slot_locked_before_session",
        edits: &[(
            "end_1",
            "    if not p_wait then",
            "    perform from slot x where x.lease = any(p_leases) order by x.n for update;
             if not p_wait then",
        )],
    },
    Mutant {
        name: "count_instead_of_slot",
        edits: &[
            (
                "claim_1",
                "slot.task is null and open",
                "slot.task is null and (select count(x.task) < count(*) filter (where x.open) from slot x)",
            ),
            (
                "claim_1",
                "limit cardinality(tasks) + closing",
                "limit least(cardinality(tasks), (select count(*) filter (where x.open) - count(x.task) from slot x)) + closing",
            ),
        ],
    },
    Mutant {
        name: "slot_not_locked",
        edits: &[(
            "claim_1",
            "- cardinality(p_kept)
            for update skip locked",
            "- cardinality(p_kept)",
        )],
    },
    Mutant {
        name: "shrink_without_reserve",
        edits: &[(
            "claim_1",
            "slots[closing + 1:closing + cardinality(tasks)]",
            "slots[1:cardinality(tasks)]",
        )],
    },
    Mutant {
        name: "shrink_without_headroom",
        edits: &[(
            "claim_1",
            "limit cardinality(tasks) + closing - cardinality(p_kept)",
            "limit cardinality(tasks) - cardinality(p_kept)",
        )],
    },
    Mutant { name: "closed_slots_kept", edits: &[("end_1", "p_keep and x.open as is_kept", "p_keep as is_kept")] },
    Mutant {
        name: "kept_slots_not_freed",
        edits: &[("claim_1", "if closing > 0 or cardinality(tasks) < cardinality(p_kept) then", "if false then")],
    },
    Mutant {
        name: "kept_slots_counted_as_running",
        edits: &[("admit_1", " and x.task <> all(p_left)", "")],
    },
    Mutant { name: "closed_slots_claimed", edits: &[("claim_1", "slot.task is null and open", "slot.task is null")] },
    Mutant {
        name: "let_in_only_if_someone_was_seen",
        edits: &[
            ("end_1", "    places integer[];", "    places integer[]; seen boolean;"),
            (
                "end_1",
                "    if not p_wait then",
                "    seen := exists (
                     select from task t where t.session = any(sessions) and t.finished_at is null
                     and not exists (select from slot x where x.task = t.id)
                 );
                 if not p_wait then",
            ),
            (
                "end_1",
                "perform settle_and_admit_1(sessions, ended, parked);",
                "if seen then perform settle_and_admit_1(sessions, ended, parked); end if;",
            ),
        ],
    },
    Mutant {
        name: "woken_only_by_the_last",
        edits: &[
            ("end_1", "    places integer[];", "    places integer[]; last boolean;"),
            (
                "end_1",
                "    if not p_wait then",
                "    last := not exists (
                     select from unnest(p_tasks) e (task)
                     join awaited a on a.on_task = e.task
                     join awaited b on b.task = a.task and b.on_task <> a.on_task
                     join task d on d.id = b.on_task and d.finished_at is null
                 );
                 if not p_wait then",
            ),
            (
                "end_1",
                "perform settle_and_admit_1(sessions, ended, parked);",
                "if last then perform settle_and_admit_1(sessions, ended, parked);
                 else perform admit_1(sessions); end if;",
            ),
        ],
    },
    Mutant {
        name: "cancel_in_one_statement",
        edits: &[
            ("cancel_1", "    delete from queue where queue.session = target.session and queue.task = any(tree);\n", ""),
            (
                "cancel_1",
                "held := array(select n from slot where slot.task = any(tree) order by n for update);",
                "with gone as (delete from queue where queue.task = any(tree))
                 select array(select n from slot where slot.task = any(tree) order by n for update) into held;",
            ),
        ],
    },
    Mutant {
        name: "window_counted_in_two_statements",
        edits: &[
            (
                "admit_1",
                "begin\n",
                "declare seen uuid[] := array(select x.task from slot x where x.session = any(p_sessions));\nbegin\n",
            ),
            (
                "admit_1",
                "where x.session = any(p_sessions) and x.task <> all(p_left)",
                "where x.session = any(p_sessions) and x.task <> all(p_left) and x.task = any(seen)",
            ),
        ],
    },
    Mutant {
        name: "window_ignored",
        edits: &[("admit_1", "greatest(0, s.max_active - cardinality(hot.tasks))", "s.max_active")],
    },
    Mutant {
        name: "front_forgotten",
        edits: &[("admit_1", " - case when next.attempt > 0 then 1::bigint << 62 else 0 end", "")],
    },
    Mutant {
        name: "failure_not_passed_on",
        edits: &[(
            "settle_1",
            "waiting := array(select distinct task from awaited where on_task = any(doomed));",
            "exit;",
        )],
    },
    Mutant {
        name: "future_numbers_known",
        edits: &[("record_dependencies_1", " and n.dependency < s.next_number", "")],
    },
    Mutant { name: "keys_shared_by_parents", edits: &[("spawn_1", "coalesce(p_by.task || '/', '') || p_key.key", "p_key.key")] },
    Mutant { name: "keys_forgotten_early", edits: &[("find_answer_1", "interval '24 hours'", "interval '23 hours'")] },
    Mutant { name: "keys_kept_too_long", edits: &[("find_answer_1", "interval '24 hours'", "interval '25 hours'")] },
    Mutant { name: "sweep_by_anyone", edits: &[("sweep_1", " and renewals >= 2", "")] },
    Mutant {
        name: "sweep_without_second_look",
        edits: &[("sweep_1", "x.lease = any(candidates) and x.expires_at < now() - p_grace", "x.lease = any(candidates)")],
    },
    Mutant {
        name: "end_not_idempotent",
        edits: &[("unwritten_ends_1", " and a.lease = e.lease and a.outcome = e.outcome", " and false")],
    },
    Mutant {
        name: "claim_in_any_order",
        edits: &[("claim_1", "order by priority desc, entry", "order by entry desc")],
    },
    Mutant { name: "news_told_without_the_lock", edits: &[("take_notifications_1", "    perform lock_sessions_1(array[p_session]);\n", "")] },
    Mutant { name: "news_stay_unread", edits: &[("take_notifications_1", "set read_at = now()", "set read_at = null")] },
    Mutant { name: "cancelled_wakes_nobody", edits: &[("wait_1", "t.state = 'cancelled' and", "false and")] },
    Mutant { name: "collected_waited_for", edits: &[("wait_1", "t.number = n and t.collected_at is null", "t.number = n")] },
    Mutant { name: "collected_cancelled", edits: &[("cancel_by_number_1", " and t.collected_at is null", "")] },
    Mutant {
        name: "concurrent_spawns_wait",
        edits: &[("spawn_concurrent_1", "for no key update skip locked", "for no key update")],
    },
    Mutant {
        name: "concurrent_spawns_beyond_the_window",
        edits: &[("places_with_room_1", "f.k <= least(s.max_active, s.max_queued) - ", "f.k <= 1000 - ")],
    },
    Mutant {
        name: "concurrent_spawns_for_archived_sessions",
        edits: &[("spawn_concurrent_1", " and s.archived_at is null", "")],
    },
    Mutant {
        name: "numbers_given_twice",
        edits: &[("create_tasks_1", "partition by e.session order by e.place", "partition by e.place")],
    },
    Mutant {
        name: "answer_lost_with_its_agent",
        edits: &[(
            "spawn_1",
            "    if own_key is not null then\n        answer",
            "    if not exists (select from agent_1(s.id, t.agents[1])) then perform refuse('AGENT_NOT_FOUND', ''); end if;
             if own_key is not null then\n        answer",
        )],
    },
    Mutant { name: "admitted_past_the_window", edits: &[("check_room_1", "return case when span = 0 then s.max_active end", "return s.max_active")] },
    Mutant { name: "admitted_never", edits: &[("spawn_1", "        if room is null then\n", "        if false then\n")] },
    Mutant { name: "unfinished_counted_as_none", edits: &[("check_room_1", "coalesce(s.next_number - oldest, 0)", "0")] },
    Mutant {
        name: "slots_of_a_deleted_session_locked_in_any_order",
        edits: &[("delete_session_1", "perform from slot where session = p_session order by n for update;", "")],
    },
    Mutant { name: "ends_before_it_started", edits: &[("write_ends_1", "t.created_at, t.started_at, g.claimed_at", "t.created_at, g.claimed_at")] },
    Mutant { name: "lost_task_ends_silently", edits: &[("write_ends_1", "select 'failed' where g.outcome = 'lost' and g.state = 'failed'", "select 'failed' where false")] },
    Mutant { name: "turned_over_lazily", edits: &[("commit_lazily_1", " and pg_current_xact_id_if_assigned() is null", "")] },
    Mutant { name: "busy_places_filled", edits: &[("end_and_claim_1", "        room := room - 1;\n", "")] },
    Mutant { name: "context_without_fence", edits: &[("task_context_1", " and lease = p_lease", "")] },
    Mutant { name: "context_written_again", edits: &[("task_context_1", " and r.call = p_call_id", " and false")] },
    Mutant { name: "context_slot_before_session", edits: &[("task_context_1", "perform lock_sessions_1(array[p_session]);", "null;")] },
    Mutant { name: "context_session_not_locked", edits: &[("context_1", " for no key update", "")] },
    Mutant { name: "context_of_the_archived_written", edits: &[("context_1", "s.archived_at is not null", "false")] },
    Mutant { name: "context_without_limit", edits: &[("context_write_1", "total > 10000", "false")] },
    Mutant { name: "overlay_ignored", edits: &[("task_context_1", "coalesce(asking.context, p_session)", "p_session")] },
    Mutant { name: "snapshot_forgotten", edits: &[("spawn_1", "'depends_on', 'snapshot'", "'depends_on'")] },
    Mutant { name: "snapshot_without_labels", edits: &[("copy_context_1", "where c.session = p_context", "where false")] },
    Mutant { name: "overlay_kept_from_children", edits: &[("create_tasks_1", "else p_parent.context end", "end")] },
    Mutant { name: "overlay_taken_from_children", edits: &[("delete_overlay_1", "if not found then", "if true then")] },
    Mutant { name: "overlay_left_behind", edits: &[("delete_overlay_1", "if not found then", "if false then")] },
    Mutant { name: "config_agents_replaced", edits: &[("define_1", "known.session is null or not p_replace", "not p_replace")] },
    Mutant { name: "agents_published_at_once", edits: &[("publish_agents_1", "perform pg_advisory_xact_lock(hashtext('adjutant publish_agents'));", "")] },
    Mutant { name: "gate_opened_early", edits: &[("close_gate_1", "\n    where g.closed_until < excluded.closed_until", "")] },
    Mutant { name: "running_tasks_cost_nothing", edits: &[("preflight_1", "where x.session = p_session", "where false")] },
    Mutant { name: "deleted_session_not_cancelled", edits: &[("delete_session_1", "fenced := fenced || (select leases from cancel_1(unfinished));", "null;")] },
    Mutant { name: "draft_without_fence", edits: &[("save_drafts_1", "    where e.lease = any(held)\n", "")] },
    Mutant { name: "stored_answer_shown_as_draft", edits: &[("cancel_1", " and d.answer = x.answers + 1", "")] },
    Mutant { name: "drafts_wait", edits: &[("save_drafts_1", " skip locked", "")] },
    Mutant { name: "tenant_counted_without_its_lock", edits: &[("lock_tenant_1", "perform pg_advisory_xact_lock(hashtext('adjutant tenant'), hashtext(p_tenant));", "")] },
    Mutant {
        name: "answers_refused_to_full_tenants",
        edits: &[(
            "spawn_1",
            "    if own_key is not null then\n        answer",
            "    if p_limits is not null then perform check_tenant_tasks_1(s.tenant, p_limits[1] - 1, p_limits[2] - 1, false); end if;
             if own_key is not null then\n        answer",
        )],
    },
    Mutant { name: "revoked_keys_accepted", edits: &[("use_key_1", " and revoked_at is null", "")] },
    Mutant { name: "expired_keys_accepted", edits: &[("use_key_1", " and (expires_at is null or expires_at > now())", "")] },
    Mutant { name: "usage_of_retries_forgotten", edits: &[("write_ends_1", "coalesce(sum(e.new_input_tokens), 0), coalesce(sum(e.new_output_tokens), 0)", "coalesce(sum(e.new_input_tokens) filter (where e.finished_at is not null), 0), coalesce(sum(e.new_output_tokens), 0)")] },
    Mutant { name: "usage_counted_twice", edits: &[("fold_usage_1", "delete from usage_delta\n", "update usage_delta set tasks = tasks\n")] },
    Mutant { name: "usage_folded_and_lost", edits: &[("fold_usage_1", "set tasks = u.tasks + excluded.tasks", "set tasks = excluded.tasks")] },
    Mutant { name: "hours_replaced_by_minutes", edits: &[("fold_minutes_1", "attempts = u.attempts + excluded.attempts", "attempts = excluded.attempts")] },
    Mutant { name: "woken_tasks_still_waiting", edits: &[("record_resumed_1", "-count(*)", "0")] },
    Mutant { name: "ended_while_waiting_still_waiting", edits: &[("write_ends_1", " - count(*) filter (where e.was_waiting)", "")] },
    Mutant { name: "archived_sessions_counted", edits: &[("count_session_1", "if tg_op <> 'INSERT' and old.archived_at is null then", "if false then")] },
    Mutant { name: "positions_count_other_tenants", edits: &[("queue_length_1", " and b.tenant = p_tenant", "")] },
    Mutant { name: "history_of_all_tenants", edits: &[("tasks_1", "s.tenant = p_tenant", "true")] },
    Mutant { name: "stats_of_all_tenants", edits: &[("stats_1", "d.tenant = p_tenant", "true")] },
    Mutant {
        name: "permissions_forgotten",
        edits: &[("create_tasks_1", "add_session_settings_1(t.configs[g.place], g.inherited, g.permissions)", "t.configs[g.place]")],
    },
    Mutant { name: "news_out_of_scope", edits: &[("take_notifications_of_1", " and t.number = any(p_numbers)", "")] },
    Mutant { name: "delivery_settled_without_lease", edits: &[("settle_delivery_1", "where id = p_id and lease = p_lease\n", "where id = p_id\n")] },
    Mutant { name: "delivery_claimed_twice", edits: &[("claim_deliveries_1", "next_try_at = now() + p_lease", "next_try_at = now()")] },
    Mutant { name: "delivery_forgotten_by_ends", edits: &[("write_ends_1", "if to_deliver is not null then", "if false then")] },
    Mutant { name: "children_told_of", edits: &[("create_deliveries_1", "case when t.parent is null then s.webhook end", "s.webhook")] },
    Mutant { name: "gone_receivers_told", edits: &[("create_deliveries_1", " and h.webhook ->> 'disabled_at' is null", "")] },
    Mutant { name: "all_ends_told", edits: &[("create_deliveries_1", "h.webhook -> 'events' ? ('task.' || e.kind)", "h.webhook is not null")] },
    Mutant { name: "old_secrets_sign", edits: &[("claim_deliveries_1", " and (w.expires_at is null or w.expires_at > now())", "")] },
    Mutant { name: "secrets_of_all_tenants_sign", edits: &[("claim_deliveries_1", "w.tenant = c.tenant and ", "")] },
    Mutant { name: "deliveries_of_all_tenants", edits: &[("deliveries_1", "h.tenant = p_tenant", "true")] },
    Mutant { name: "slow_receivers_hold_up_others", edits: &[("claim_deliveries_1", " and d.url <> all(p_busy)", "")] },
    Mutant { name: "model_window_too_short", edits: &[("model_room_1", "::bigint - 63", "::bigint - 58")] },
    Mutant { name: "model_limits_not_locked", edits: &[("lock_model_limit_1", " for update", "")] },
    Mutant { name: "model_waiters_overtaken", edits: &[("reserve_model_calls_1", "not exists (select from model_waiter w where w.model = p_model)", "true")] },
    Mutant { name: "model_waiters_not_counted", edits: &[("model_turns_1", "x.due_at > p_at - interval '10 seconds'", "x.task = any(p_tasks)")] },
    Mutant { name: "late_model_waiters_block", edits: &[("model_turns_1", "x.due_at > p_at - interval '10 seconds'", "true")] },
    Mutant { name: "model_place_lost", edits: &[("place_model_waiters_1", "set tokens = excluded.tokens,", "set place = excluded.place, tokens = excluded.tokens,")] },
    Mutant { name: "model_permits_of_others_ignored", edits: &[("model_room_1", "p.worker <> p_worker and p.expires_at > p_at", "false")] },
    Mutant { name: "model_permits_of_the_dead_kept", edits: &[
        ("model_room_1", " and p.expires_at > p_at", ""),
        ("grant_model_calls_1", "delete from model_permit where model = p_limit.model and expires_at <= p_at;", ""),
    ] },
    Mutant { name: "model_tokens_not_limited", edits: &[("model_turns_1", "waiter.all_tokens <= coalesce(room.tokens, waiter.all_tokens)", "true")] },
    Mutant { name: "model_headers_ignored", edits: &[("model_room_1", "case when p_limit.requests_reset_at > p_at then p_limit.remaining_requests end", "null")] },
    Mutant { name: "model_limits_of_the_last_worker", edits: &[("lock_model_limit_1", "when limits.limited_at < now() - interval '60 seconds' then", "when true then")] },
    Mutant { name: "model_tenants_in_one_line", edits: &[("place_model_waiters_1", " and x.tenant = y.tenant", "")] },
    Mutant { name: "model_waiters_kept_by_cancel", edits: &[("cancel_1", "where w.task = any(tree) for update skip locked", "where false")] },
    Mutant { name: "busy_sessions_not_left", edits: &[("end_1", "        where x.session = any(sessions)\n", "")] },
];

/// The mutant that `make mutants` wants this run to have.
pub fn chosen() -> Option<&'static Mutant> {
    let name = std::env::var("ADJUTANT_TEST_MUTANT").ok()?;
    Some(
        MUTANTS
            .iter()
            .find(|mutant| mutant.name == name)
            .unwrap_or_else(|| panic!("there is no mutant {name:?}")),
    )
}

impl Mutant {
    pub async fn apply(&self, connection: &mut PgConnection) {
        for (function, from, to) in self.edits {
            let definition: String = sqlx::query_scalar("select pg_get_functiondef($1::regproc)")
                .bind(function)
                .fetch_one(&mut *connection)
                .await
                .unwrap();
            assert!(definition.contains(from), "{}: {function} no longer says {from:?}", self.name);
            sqlx::raw_sql(AssertSqlSafe(definition.replace(from, to)))
                .execute(&mut *connection)
                .await
                .unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mutant_still_fits() {
    let world = World::new().await;
    let mut connection = PgConnection::connect(world.url()).await.unwrap();
    for mutant in MUTANTS {
        let mut undone = connection.begin().await.unwrap();
        mutant.apply(&mut undone).await;
        undone.rollback().await.unwrap();
    }
}
