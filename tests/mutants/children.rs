//! Trees of tasks: what a parent does with its children.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "children_without_fence",
        caught_by: &["store::children::only_the_holder_of_the_lease_can_spawn_children"],
        edits: &[("spawning_task_1", " and slot.lease = p_by.lease", "")],
    },
    Mutant {
        name: "children_handled_without_fence",
        caught_by: &["store::children::only_the_holder_of_the_lease_handles_children"],
        edits: &[("check_lease_1", " and lease = p_lease", "")],
    },
    Mutant {
        name: "children_delegated_again",
        caught_by: &[
            "store::children::a_call_delegates_once_also_when_its_children_have_ended_and_days_have_passed",
        ],
        edits: &[("children_of_call_1", "c.parent = p_by.task and c.call = p_by.call", "false")],
    },
    Mutant {
        name: "strangers_collected",
        caught_by: &["store::children::a_child_is_collected_once_together_with_the_call_result"],
        edits: &[(
            "collect_child_1",
            "number = p_number and parent = p_task and",
            "number = p_number and",
        )],
    },
    Mutant {
        name: "strangers_said_to_be_collected",
        caught_by: &["store::children::a_child_is_collected_once_together_with_the_call_result"],
        edits: &[("refuse_unknown_task_1", " and (p_parent is null or parent = p_parent)", "")],
    },
    Mutant {
        name: "collected_tasks_not_said_to_be",
        caught_by: &[
            "dialects::spec::collects::service::row_0_19_a_collected_task_is_not_found_again",
        ],
        edits: &[("refuse_unknown_task_1", "at is not null", "false")],
    },
    Mutant {
        name: "timed_waits_never_end",
        caught_by: &[
            "store::children::a_wait_with_a_timeout_ends_with_its_children_or_the_timeout",
        ],
        edits: &[("admit_due_1", "waiting_for in ('all_children', 'any_child')", "false")],
    },
];
