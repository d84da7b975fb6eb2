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
        edits: &[
            (
                "close_gate_1",
                "greatest(g.closed_until, excluded.closed_until)",
                "excluded.closed_until",
            ),
            ("close_gate_1", "g.closed_until < excluded.closed_until and (", "("),
        ],
    },
    Mutant {
        name: "everybody_probes_a_circuit",
        caught_by: &["store::failed_calls::one_task_of_the_fleet_makes_the_next_call_of_a_circuit"],
        edits: &[("take_probe_1", " and g.closed_until <= now();", ";")],
    },
    Mutant {
        name: "circuit_forgotten",
        caught_by: &[
            "store::failed_calls::a_circuit_is_closed_until_a_call_succeeds_whatever_else_closes_the_gate",
        ],
        edits: &[(
            "close_gate_1",
            "reason = case when g.reason = 'circuit' then g.reason else excluded.reason end",
            "reason = excluded.reason",
        )],
    },
    Mutant {
        name: "zombies_record_failed_calls",
        caught_by: &[
            "store::failed_calls::failed_tries_count_for_the_call_under_way_and_a_lost_lease_records_none",
        ],
        edits: &[("record_failed_call_1", " and lease = p_lease", "")],
    },
    Mutant {
        name: "running_tasks_cost_nothing",
        caught_by: &[
            "store::preflight::a_session_has_spent_what_its_ended_attempts_and_its_running_ones_cost",
        ],
        edits: &[("preflight_1", "where x.session = p_session", "where false")],
    },
];
