//! What workers can run, and the patience for tools.

use super::Mutant;

const CLAIMS_WHAT_IT_HAS: &str =
    "store::requirements::a_worker_claims_only_tasks_whose_model_and_tools_it_has";
const HIDES_NOTHING: &str =
    "store::requirements::tasks_that_this_worker_cannot_run_hide_no_others_and_take_no_share";
const FAILS_WITH_ITS_NAME: &str = "store::requirements::tasks_fail_with_the_name_of_a_tool_that_no_living_worker_had_for_too_long";
const WAITS_FOR_WORKERS: &str =
    "store::requirements::without_a_living_worker_of_its_pool_a_task_waits_for_its_tools";
const IN_BATCHES: &str =
    "store::requirements::tasks_without_tools_fail_in_batches_and_those_of_a_busy_session_later";

const KEPT_WHILE_NEEDED: &str = "store::requirement_ends::requirements_that_no_unfinished_task_has_needed_for_a_day_are_deleted";
const RACE_WITH_A_SPAWN: &str =
    "store::requirement_ends::a_spawn_never_gets_a_requirement_that_is_being_deleted";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "requirements_kept_for_ever",
        caught_by: &[KEPT_WHILE_NEEDED],
        edits: &[("delete_requirements_1", "used_at < p_before", "false")],
    },
    Mutant {
        name: "requirements_deleted_while_needed",
        caught_by: &[KEPT_WHILE_NEEDED],
        edits: &[("keep_requirements_1", "set used_at = now()", "set used_at = r.used_at")],
    },
    Mutant {
        name: "requirements_of_the_first_tasks_kept",
        caught_by: &[
            "store::requirement_ends::a_walk_through_many_tasks_keeps_what_the_last_one_needs",
        ],
        edits: &[("keep_requirements_1", "offset 999", "offset 1000")],
    },
    Mutant {
        name: "requirement_deleted_without_the_lock",
        caught_by: &[RACE_WITH_A_SPAWN],
        edits: &[(
            "delete_requirements_1",
            "perform pg_advisory_xact_lock(hashtext('adjutant requirement'));",
            "",
        )],
    },
    Mutant {
        name: "old_requirement_used_without_the_lock",
        caught_by: &[RACE_WITH_A_SPAWN],
        edits: &[("create_tasks_1", " and r.used_at > now() - interval '1 hour'", "")],
    },
    Mutant {
        name: "use_of_a_requirement_forgotten",
        caught_by: &[KEPT_WHILE_NEEDED],
        edits: &[("add_requirement_1", "set used_at = now() where", "set used_at = used_at where")],
    },
    Mutant {
        name: "requirement_ids_used_twice",
        caught_by: &[KEPT_WHILE_NEEDED],
        edits: &[(
            "add_requirement_1",
            "nextval('requirement_id')",
            "1 + coalesce((select max(id) from requirement), 0)",
        )],
    },
    Mutant {
        name: "claims_what_it_cannot_run",
        caught_by: &[CLAIMS_WHAT_IT_HAS],
        edits: &[(
            "lock_queued_1",
            "tenant = p_tenants[1] and (needs is null or needs = any(p_can))",
            "tenant = p_tenants[1]",
        )],
    },
    Mutant {
        name: "claims_of_tenants_what_it_cannot_run",
        caught_by: &[HIDES_NOTHING],
        edits: &[(
            "lock_queued_1",
            "tenant = e.tenant and (needs is null or needs = any(p_can))",
            "tenant = e.tenant",
        )],
    },
    Mutant {
        name: "claims_first_what_it_cannot_run",
        caught_by: &[HIDES_NOTHING],
        edits: &[
            ("next_tenant_1", " and (q.needs is null or q.needs = any(p_can))", ""),
            ("lock_first_1", " and (needs is null or needs = any(p_can))", ""),
        ],
    },
    Mutant {
        name: "share_for_a_pool_that_cannot",
        caught_by: &[
            "store::requirements::a_pool_whose_workers_cannot_run_its_tasks_leaves_its_share_to_others",
        ],
        edits: &[("pool_share_1", "q.needs = any(c.can)", "true")],
    },
    Mutant {
        name: "woken_for_what_it_cannot_run",
        caught_by: &[CLAIMS_WHAT_IT_HAS],
        edits: &[("poll_1", "q.needs = any(w.can)", "true")],
    },
    Mutant {
        name: "lost_requirement_not_found",
        caught_by: &[
            "store::requirements::a_worker_that_missed_a_requirement_finds_it_at_its_poll",
        ],
        edits: &[("poll_1", "w.can <> requirements_of_1(w)", "false")],
    },
    Mutant {
        name: "requirement_added_twice",
        caught_by: &[
            "store::requirements::the_first_spawns_of_a_combination_share_one_requirement",
        ],
        edits: &[(
            "add_requirement_1",
            "perform pg_advisory_xact_lock(hashtext('adjutant requirement'));",
            "",
        )],
    },
    Mutant {
        name: "abilities_do_not_wait_for_requirements",
        caught_by: &[
            "store::requirements::new_abilities_do_not_miss_a_requirement_that_is_being_added",
        ],
        edits: &[(
            "update_can_1",
            "perform pg_advisory_xact_lock_shared(hashtext('adjutant requirement'));",
            "",
        )],
    },
    Mutant {
        name: "tools_needed_that_are_not_given",
        caught_by: &["store::requirements::only_tools_that_a_task_is_given_are_needed"],
        edits: &[(
            "required_tools_1",
            "and not (coalesce(permissions ? 'deny', false) and is_granted_1(permissions, 'deny', n.name))",
            "",
        )],
    },
    Mutant {
        name: "ignored_tools_needed",
        caught_by: &["store::requirements::only_tools_that_a_task_is_given_are_needed"],
        edits: &[("required_tools_1", "p_config ->> 'missing_tools' = 'ignore'", "false")],
    },
    Mutant {
        name: "new_tasks_have_no_patience",
        caught_by: &[FAILS_WITH_ITS_NAME],
        edits: &[("fail_without_tools_1", "and t.created_at <= now() - p_patience", "")],
    },
    Mutant {
        name: "shortage_has_no_patience",
        caught_by: &[WAITS_FOR_WORKERS],
        edits: &[("lasting_shortages_1", "s.since <= now() - p_patience and ", "")],
    },
    Mutant {
        name: "restarted_workers_have_no_patience",
        caught_by: &[WAITS_FOR_WORKERS],
        edits: &[("lasting_shortages_1", " and l.started_at <= now() - p_patience", "")],
    },
    Mutant {
        name: "shortage_never_over",
        caught_by: &[WAITS_FOR_WORKERS],
        edits: &[("lasting_shortages_1", "s.pool = p_pool and s.needs <> all(lacking)", "false")],
    },
    Mutant {
        name: "busy_session_not_skipped",
        caught_by: &[IN_BATCHES],
        edits: &[("fail_without_tools_1", "q.session = any(sessions) and ", "")],
    },
    Mutant {
        name: "patience_waits_for_claims",
        caught_by: &[IN_BATCHES],
        edits: &[("fail_without_tools_1", "            for update skip locked\n", "")],
    },
    Mutant {
        name: "pool_of_the_agent_ignored",
        caught_by: &[
            "store::pools::a_task_runs_in_the_pool_of_its_agent_unless_its_spawn_names_one",
        ],
        edits: &[("default_pools_1", "t.configs[e.place] ->> 'pool', ", "")],
    },
    Mutant {
        name: "pool_of_the_agent_not_granted",
        caught_by: &["store::pools::a_pool_of_an_agent_has_to_be_granted"],
        edits: &[(
            "configure_1",
            "    t.pools := default_pools_1(t, p_parent.pool);
    if p_grants is not null then
        perform check_grants_1(p_grants, t);
    end if;",
            "    if p_grants is not null then
        perform check_grants_1(p_grants, t);
    end if;
    t.pools := default_pools_1(t, p_parent.pool);",
        )],
    },
];
