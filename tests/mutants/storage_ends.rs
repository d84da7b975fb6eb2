//! What does not stay for ever.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "context_history_kept",
        caught_by: &[
            "store::storage_ends::the_history_of_a_key_keeps_its_newest_changes_and_says_so",
        ],
        edits: &[("context_forget_1", "offset p_keep", "offset 1000000")],
    },
    Mutant {
        name: "history_of_other_keys_forgotten",
        caught_by: &[
            "store::storage_ends::the_history_of_a_key_keeps_its_newest_changes_and_says_so",
        ],
        edits: &[(
            "context_forget_1",
            "session = p_session and key = p_key",
            "session = p_session",
        )],
    },
    Mutant {
        name: "history_of_living_keys_forgotten",
        caught_by: &["store::storage_ends::the_history_of_a_key_ends_30_days_after_the_key"],
        edits: &[("forget_deleted_keys_1", " and o.id <= deletion.id", "")],
    },
    Mutant {
        name: "history_of_recent_keys_forgotten",
        caught_by: &["store::storage_ends::the_history_of_a_key_ends_30_days_after_the_key"],
        edits: &[("forget_deleted_keys_1", " and h.written_at < now() - p_age", "")],
    },
    Mutant {
        name: "agents_of_others_forgotten",
        caught_by: &["store::storage_ends::the_newest_20_versions_of_an_agent_are_kept"],
        edits: &[("forget_versions_1", "name = p_name and version between", "version between")],
    },
    Mutant {
        name: "workers_with_slots_forgotten",
        caught_by: &["store::storage_ends::a_worker_is_forgotten_a_week_after_it_stopped"],
        edits: &[(
            "delete_stopped_workers_1",
            " and not exists (select from slot x where x.worker = w.id)",
            "",
        )],
    },
    Mutant {
        name: "used_mcp_sessions_deleted",
        caught_by: &["store::storage_ends::an_empty_session_that_is_just_used_is_not_deleted"],
        edits: &[("end_mcp_sessions_1", "        for update skip locked\n", "")],
    },
    Mutant {
        name: "mcp_sessions_with_entries_deleted",
        caught_by: &["store::storage_ends::sessions_that_mcp_connections_left_behind_end"],
        edits: &[("end_mcp_sessions_1", "h.session = s.id", "false")],
    },
    Mutant {
        name: "mcp_sessions_with_agents_deleted",
        caught_by: &["store::storage_ends::sessions_that_mcp_connections_left_behind_end"],
        edits: &[("end_mcp_sessions_1", "a.session = s.id", "false")],
    },
    Mutant {
        name: "lately_used_mcp_sessions_archived",
        caught_by: &["store::storage_ends::sessions_that_mcp_connections_left_behind_end"],
        edits: &[("end_mcp_sessions_1", "and e.at > now() - interval '30 days'", "and false")],
    },
    Mutant {
        name: "running_mcp_sessions_archived",
        caught_by: &["store::storage_ends::sessions_that_mcp_connections_left_behind_end"],
        edits: &[("end_mcp_sessions_1", "t.finished_at is null", "false")],
    },
];
