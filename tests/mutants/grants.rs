//! What keys and tenants may use.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "grants_not_checked",
        caught_by: &[
            "store::grants::agents_models_and_pools_that_are_not_granted_are_refused_at_the_spawn",
        ],
        edits: &[("configure_1", "perform check_grants_1(p_grants, t);", "null;")],
    },
    Mutant {
        name: "models_not_granted",
        caught_by: &[
            "store::grants::agents_models_and_pools_that_are_not_granted_are_refused_at_the_spawn",
        ],
        edits: &[(
            "check_grants_1",
            "and is_granted_1(p_grants, 'models', e.config ->> 'model')",
            "",
        )],
    },
    Mutant {
        name: "pools_not_granted",
        caught_by: &[
            "store::grants::agents_models_and_pools_that_are_not_granted_are_refused_at_the_spawn",
        ],
        edits: &[("check_grants_1", "and is_granted_1(p_grants, 'pools', e.pool)", "")],
    },
    Mutant {
        name: "grants_not_inherited",
        caught_by: &[
            "store::grants::the_children_of_a_task_are_bound_by_the_key_that_spawned_its_tree",
        ],
        edits: &[("spawn_1", "p_grants := above.config -> 'grants';", "p_grants := null;")],
    },
    Mutant {
        name: "grants_not_carried",
        caught_by: &[
            "store::grants::agents_models_and_pools_that_are_not_granted_are_refused_at_the_spawn",
        ],
        edits: &[("create_tasks_1", "g.permissions, p_grants)", "g.permissions, null)")],
    },
    Mutant {
        name: "grants_brought_by_a_configuration",
        caught_by: &["store::grants::a_configuration_cannot_bring_grants"],
        edits: &[(
            "add_session_settings_1",
            "array['parent', 'permissions', 'grants']",
            "array['parent', 'permissions']",
        )],
    },
    Mutant {
        name: "grants_match_any_letter",
        caught_by: &["store::grants::patterns_match_in_the_database_as_they_do_in_the_program"],
        edits: &[("is_granted_1", "'\\_'", "'_'")],
    },
    Mutant {
        name: "agents_of_all_tenants_spawned",
        caught_by: &["store::grants::an_agent_of_other_tenants_does_not_exist"],
        edits: &[("resolve_agents_1", " and is_for_tenant_1(listed.definition, c.tenant)", "")],
    },
    Mutant {
        name: "agents_of_all_tenants_listed",
        caught_by: &["store::grants::an_agent_of_other_tenants_does_not_exist"],
        edits: &[("agents_1", " and is_for_tenant_1(known.definition, owner)", "")],
    },
    Mutant {
        name: "agents_of_all_tenants_found",
        caught_by: &["store::grants::an_agent_of_other_tenants_does_not_exist"],
        edits: &[(
            "agent_1",
            " and is_for_tenant_1(a.definition, (select tenant from session where id = p_session))",
            "",
        )],
    },
    Mutant {
        name: "tools_of_all_tenants",
        caught_by: &["store::grants::a_tool_of_other_tenants_does_not_exist"],
        edits: &[("is_tool_for_1", "or p_tenant = any(p_tenants)", "or true")],
    },
];
