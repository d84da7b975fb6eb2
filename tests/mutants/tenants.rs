//! Keys, limits of tenants, and what one tenant sees of another.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "tenant_counted_without_its_lock",
        caught_by: &["store::keys::a_spawn_that_waits_for_another_of_its_tenant_counts_its_task"],
        edits: &[("lock_tenant_1", "perform pg_advisory_xact_lock(hashtext('adjutant tenant'), hashtext(p_tenant));", "")],
    },
    Mutant {
        name: "answers_refused_to_full_tenants",
        caught_by: &["store::keys::an_idempotent_answer_is_repeated_to_a_full_tenant"],
        edits: &[(
            "spawn_1",
            "    if own_key is not null then\n        answer",
            "    if p_limits is not null then perform check_tenant_tasks_1(s.tenant, p_limits[1] - 1, p_limits[2] - 1, false); end if;
             if own_key is not null then\n        answer",
        )],
    },
    Mutant {
        name: "revoked_keys_accepted",
        caught_by: &["store::keys::a_revoked_or_expired_key_is_refused"],
        edits: &[("use_key_1", " and revoked_at is null", "")],
    },
    Mutant {
        name: "expired_keys_accepted",
        caught_by: &["store::keys::a_revoked_or_expired_key_is_refused"],
        edits: &[("use_key_1", " and (expires_at is null or expires_at > now())", "")],
    },
    Mutant {
        name: "archived_tenants_accepted",
        caught_by: &["server::http::open_keys::an_archived_tenant_is_refused_and_its_tasks_continue"],
        edits: &[("use_key_1", "and archived_at is not null", "and false")],
    },
    Mutant {
        name: "archived_tenants_stay_open",
        caught_by: &["server::http::open_keys::an_archived_tenant_is_refused_and_its_tasks_continue"],
        edits: &[("ended_keys_1", " or t.name is not null", "")],
    },
    Mutant {
        name: "revoked_keys_stay_open",
        caught_by: &["server::http::open_keys::streams_and_waits_of_a_revoked_or_expired_key_end"],
        edits: &[("ended_keys_1", " and k.revoked_at is null", "")],
    },
    Mutant {
        name: "expired_keys_stay_open",
        caught_by: &["server::http::open_keys::streams_and_waits_of_a_revoked_or_expired_key_end"],
        edits: &[("ended_keys_1", " and (k.expires_at is null or k.expires_at > now())", "")],
    },
    Mutant {
        name: "positions_count_other_tenants",
        caught_by: &["store::spawn::the_queue_position_counts_the_tenants_own_tasks_only"],
        edits: &[("queue_length_1", " and b.tenant = p_tenant", "")],
    },
    Mutant {
        name: "history_of_all_tenants",
        caught_by: &["store::history::another_tenants_task_is_unknown"],
        edits: &[("tasks_1", "s.tenant = p_tenant", "true")],
    },
    Mutant {
        name: "stats_of_all_tenants",
        caught_by: &["store::history::stats_are_the_sums_of_one_tenants_tasks"],
        edits: &[("stats_1", "d.tenant = p_tenant", "true")],
    },
];
