//! Agents, and the checks before a model call.

use super::Mutant;

const TRIES: &str =
    "store::failed_calls::failed_tries_count_for_the_call_under_way_and_a_lost_lease_records_none";

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
        name: "agents_of_other_configs_removed",
        caught_by: &[
            "store::publishers::a_process_takes_away_only_the_agents_that_it_published_itself",
        ],
        edits: &[("settle_agents_1", "and publisher = p_config and name", "and name")],
    },
    Mutant {
        name: "agents_of_other_processes_removed",
        caught_by: &[
            "store::publishers::a_process_takes_away_only_the_agents_that_it_published_itself",
        ],
        edits: &[(
            "current_agents_1",
            "where p.config = p_config",
            "where p.seen_at = (select max(x.seen_at) from publisher x) and p.config = p_config",
        )],
    },
    Mutant {
        name: "restart_of_a_release_is_a_change",
        caught_by: &[
            "store::publishers::two_releases_of_a_config_run_side_by_side_and_the_newer_list_is_in_effect",
        ],
        edits: &[("publish_agents_1", "x.digest = wanted_digest)", "false)")],
    },
    Mutant {
        name: "agent_names_of_other_configs_taken",
        caught_by: &[
            "store::publishers::two_configs_cannot_have_an_agent_of_one_name_while_both_run",
        ],
        edits: &[("publish_agents_1", "if found then", "if false then")],
    },
    Mutant {
        name: "agent_names_taken_back",
        caught_by: &[
            "store::publishers::two_configs_cannot_have_an_agent_of_one_name_while_both_run",
        ],
        edits: &[(
            "settle_agents_1",
            "or not exists (select from published_elsewhere_1(p_config, array[n.name]))",
            "or true",
        )],
    },
    Mutant {
        name: "agents_lost_in_an_outage",
        caught_by: &[
            "store::publishers::a_process_that_died_loses_its_agents_to_those_that_report_but_not_after_an_outage",
        ],
        edits: &[("keep_published_1", "is_publishing_1(mine.seen_at, null) and (", "(")],
    },
    Mutant {
        name: "cap_of_two_configs_adopted",
        caught_by: &["store::cap::of_two_configs_that_start_together_the_first_one_sets_the_cap"],
        edits: &[(
            "adopt_cap_1",
            "adopted := not exists (select from cap_choice);",
            "adopted := true;",
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
        name: "tries_forgotten",
        caught_by: &[TRIES],
        edits: &[("record_failed_call_1", "tries = excluded.tries", "tries = f.tries")],
    },
    Mutant {
        name: "tries_of_the_last_call_counted",
        caught_by: &[TRIES],
        edits: &[("waiting_facts_1", " and c.answers = coalesce(x.answers, t.answers)", "")],
    },
    Mutant {
        name: "patience_begins_with_every_try",
        caught_by: &[TRIES],
        edits: &[(
            "record_failed_call_1",
            "coalesce(f.waits_since, excluded.waits_since)",
            "excluded.waits_since",
        )],
    },
    Mutant {
        name: "running_tasks_cost_nothing",
        caught_by: &[
            "store::preflight::a_session_has_spent_what_its_ended_attempts_and_its_running_ones_cost",
        ],
        edits: &[("preflight_1", "where x.session = p_session", "where false")],
    },
];
