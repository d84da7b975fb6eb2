//! Ends of attempts, and what they wake.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "slot_locked_before_session",
        caught_by: &["store::lock_order::an_end_waits_for_its_session_before_it_takes_its_slot"],
        edits: &[(
            "end_1",
            "    if p_wait then",
            "    perform from slot x where x.lease = any(p_leases) order by x.n for update;
             if p_wait then",
        )],
    },
    Mutant {
        name: "let_in_only_if_someone_was_seen",
        caught_by: &["store::claim::an_end_that_waits_for_a_spawn_in_flight_admits_its_task"],
        edits: &[
            ("end_1", "    places integer[];", "    places integer[]; seen boolean;"),
            (
                "end_1",
                "    if p_wait then",
                "    seen := exists (
                     select from task t where t.session = any(sessions) and t.finished_at is null
                     and not exists (select from slot x where x.task = t.id)
                 );
                 if p_wait then",
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
        caught_by: &[
            "store::dependencies::two_dependencies_that_end_together_wake_their_dependant",
        ],
        edits: &[
            ("end_1", "    places integer[];", "    places integer[]; last boolean;"),
            (
                "end_1",
                "    if p_wait then",
                "    last := not exists (
                     select from unnest(p_tasks) e (task)
                     join awaited a on a.on_task = e.task
                     join awaited b on b.task = a.task and b.on_task <> a.on_task
                     join task d on d.id = b.on_task and d.finished_at is null
                 );
                 if p_wait then",
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
        name: "failure_not_passed_on",
        caught_by: &[
            "store::dependencies::a_dependency_that_does_not_complete_fails_its_dependants_transitively",
        ],
        edits: &[(
            "settle_1",
            "waiting := array(select distinct task from awaited where on_task = any(doomed));",
            "exit;",
        )],
    },
    Mutant {
        name: "end_not_idempotent",
        caught_by: &["store::lease::ending_twice_is_ending_once"],
        edits: &[(
            "unwritten_ends_1",
            " and a.lease = e.lease and a.outcome = e.outcome",
            " and false",
        )],
    },
    Mutant {
        name: "ends_before_it_started",
        caught_by: &["store::sweep::a_task_that_started_in_the_future_can_be_swept"],
        edits: &[(
            "write_ends_1",
            "t.created_at, t.started_at, g.claimed_at",
            "t.created_at, g.claimed_at",
        )],
    },
    Mutant {
        name: "lost_task_ends_silently",
        caught_by: &[
            "store::sweep::a_task_that_loses_three_workers_in_a_row_without_progress_fails",
        ],
        edits: &[(
            "write_ends_1",
            "select 'failed' where g.outcome = 'lost' and g.state = 'failed'",
            "select 'failed' where false",
        )],
    },
    Mutant {
        name: "busy_sessions_not_left",
        caught_by: &[
            "store::end_and_claim::a_session_locked_by_another_end_is_skipped_and_its_slot_not_filled",
        ],
        edits: &[("end_1", "        where x.session = any(sessions)\n", "")],
    },
];
