//! Agents, and the checks before a model call.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "config_agents_replaced",
        caught_by: &["store::agents::an_agent_of_the_config_cannot_be_replaced_by_a_session"],
        edits: &[("define_1", "known.session is null or not p_replace", "not p_replace")],
    },
    Mutant {
        name: "agents_published_at_once",
        caught_by: &["store::agents::processes_that_start_together_publish_one_version"],
        edits: &[(
            "publish_agents_1",
            "perform pg_advisory_xact_lock(hashtext('adjutant publish_agents'));",
            "",
        )],
    },
    Mutant {
        name: "gate_opened_early",
        caught_by: &[
            "store::preflight::a_closed_gate_holds_everybody_back_and_is_never_opened_early",
        ],
        edits: &[("close_gate_1", "\n    where g.closed_until < excluded.closed_until", "")],
    },
    Mutant {
        name: "running_tasks_cost_nothing",
        caught_by: &[
            "store::preflight::a_session_has_spent_what_its_ended_attempts_and_its_running_ones_cost",
        ],
        edits: &[("preflight_1", "where x.session = p_session", "where false")],
    },
];
