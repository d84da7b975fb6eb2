//! Shares of tenants and pools in the cap.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "task_claimed_twice",
        caught_by: &["store::fairness::what_one_tenant_cannot_use_another_gets"],
        edits: &[("lock_queued_1", " and task <> all(p_taken)", "")],
    },
    Mutant {
        name: "tenants_share_nothing",
        caught_by: &[
            "store::fairness::a_tenant_whose_tasks_take_long_keeps_to_its_share_of_the_slots",
        ],
        edits: &[(
            "choose_1",
            "filter (where x.task is not null and x.n <> all(p_kept))",
            "filter (where false)",
        )],
    },
    Mutant {
        name: "weights_ignored",
        caught_by: &[
            "store::fairness::one_claim_shares_the_free_slots_by_weight_whatever_the_priorities_are",
        ],
        edits: &[("due_tenants_1", "coalesce(t.weight, 1)", "1")],
    },
    Mutant {
        name: "same_tenants_first_each_time",
        caught_by: &["store::fairness::a_thousand_tenants_all_have_their_turn"],
        edits: &[(
            "choose_1",
            "(array_agg(u.tenant order by u.own_turn desc nulls last, u.turn desc nulls last))[1]",
            "null::text",
        )],
    },
    Mutant {
        name: "tenant_cap_counted_without_its_lock",
        caught_by: &[
            "store::fairness::a_claim_passes_over_a_capped_tenant_that_another_claim_counts",
        ],
        edits: &[(
            "within_cap_1",
            "not pg_try_advisory_xact_lock(hashtext('adjutant tenant cap'), hashtext(p_tenant))",
            "false",
        )],
    },
    Mutant {
        name: "tenant_cap_waited_for",
        caught_by: &[
            "store::fairness::a_claim_passes_over_a_capped_tenant_that_another_claim_counts",
        ],
        edits: &[(
            "within_cap_1",
            "not pg_try_advisory_xact_lock(hashtext('adjutant tenant cap'), hashtext(p_tenant))",
            "pg_advisory_xact_lock(hashtext('adjutant tenant cap'), hashtext(p_tenant)) is null",
        )],
    },
    Mutant {
        name: "tenant_cap_counts_ended_tasks",
        caught_by: &[
            "store::fairness::a_lower_cap_of_a_tenant_only_falls_and_a_removed_one_is_no_limit",
        ],
        edits: &[("within_cap_1", " and x.n <> all(p_kept)", "")],
    },
    Mutant {
        name: "left_over_slots_stay_empty",
        caught_by: &["store::fairness::what_one_tenant_cannot_use_another_gets"],
        edits: &[("choose_tasks_1", "want := want - cardinality(taken.tasks);", "want := 0;")],
    },
    Mutant {
        name: "tenants_with_locked_first_tasks_passed_over",
        caught_by: &["store::fairness::claims_at_once_find_the_next_tasks_of_the_same_tenants"],
        edits: &[("choose_tasks_1", "not is_one_each and given < counts[i]", "given < 1")],
    },
    Mutant {
        name: "first_tasks_taken_despite_caps",
        caught_by: &["store::fairness::a_claim_of_one_task_of_each_tenant_keeps_to_their_caps"],
        edits: &[("due_tenants_1", " and bool_and(v.is_uncapped)", "")],
    },
    Mutant {
        name: "first_tasks_taken_despite_weights",
        caught_by: &["store::fairness::one_claim_of_as_many_tasks_as_tenants_shares_by_weight"],
        edits: &[("due_tenants_1", " and min(v.weight) = max(v.weight)", "")],
    },
    Mutant {
        name: "pools_share_nothing",
        caught_by: &["store::pools::a_busy_pool_leaves_another_its_share_of_the_slots"],
        edits: &[(
            "choose_1",
            "if want > 0 and ends.first_pool <> ends.last_pool then",
            "if false then",
        )],
    },
    Mutant {
        name: "slots_left_to_pools_without_places",
        caught_by: &["store::pools::slots_that_another_pool_cannot_fill_are_not_left_to_it"],
        edits: &[("pool_share_1", "least(w.places - h.held, (", "least(10000, (")],
    },
    Mutant {
        name: "pools_take_no_turns",
        caught_by: &["store::pools::a_busy_pool_leaves_another_its_share_of_the_slots"],
        edits: &[("pool_share_1", "p.pool <= newest, p.pool", "p.pool")],
    },
    Mutant {
        name: "children_outrank_their_root",
        caught_by: &["store::trees::children_never_outrank_their_root"],
        edits: &[(
            "child_priorities_1",
            "least(coalesce(nullif(e.priority, 0), p_parent.priority), highest)",
            "coalesce(nullif(e.priority, 0), p_parent.priority)",
        )],
    },
];
