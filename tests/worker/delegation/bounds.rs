//! The limits of a tree: its depth, one budget, one cancel, one window.

use std::time::{Duration, Instant};

use adjutant_agent::{Budget, FailureKind, TaskState};
use adjutant_script::{Fault, Script, Usage, When, fault, text, tool_call};
use adjutant_store::NewDelegation;
use serde_json::json;

use crate::support::fleet::to;
use crate::support::worker_process::WorkerProcess;
use crate::support::world::{assert_refused, until};
use crate::worker::delegation::agents::{
    HAND, HEAD, batch, collect, delegate, home, home_with, home_with_limits, spawn, wait,
};

/// Heads that delegate to a head, down to the depth limit.
fn deeper() -> Script {
    Script::new()
        .on(When::last("recursion depth"))
        .answer(text("As deep as I can."))
        .on(When::any())
        .then(spawn(HEAD, "{assignment}."))
        .then(wait("all"))
        .then(delegate(collect(0)))
        .then(text("{results/0/result}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn row_3_7_the_last_level_has_a_note_and_no_tool_to_delegate() {
    for (max_depth, levels) in [(1, 1), (3, 3)] {
        let fleet = home(deeper(), max_depth).await;
        let _worker = fleet.worker();
        let head = fleet.head("openai", "Lead").await;
        fleet.done(head).await.assert_completed("As deep as I can.");
        assert_eq!(fleet.world.count("select count(*) from task").await, levels);
        let last: uuid::Uuid =
            sqlx::query_scalar("select id from task order by number desc limit 1")
                .fetch_one(&fleet.world.sql)
                .await
                .unwrap();
        let last = fleet.look_at(adjutant_agent::TaskId(last)).await;
        let result = format!(
            "error: Maximum subagent recursion depth ({max_depth}) exceeded. Current depth: {max_depth}. Cannot spawn nested subagent."
        );
        assert_eq!(last.results_of(1), [result]);
        let tools = last.requests[0].body.as_ref().unwrap()["tools"].to_string();
        assert!(tools.contains("shared_context") && !tools.contains("list_agents"), "{tools}");
        fleet.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_may_not_delegate_has_no_delegation_tool_at_any_depth() {
    let script = Script::new().on(When::any()).then(spawn(HAND, "Help me.")).then(text("Alone."));
    let fleet = home(script, 10).await;
    let _worker = fleet.worker();
    let done = fleet.done(fleet.give("openai", HAND, "Work.").await).await;
    done.assert_completed("Alone.");
    assert_eq!(
        done.results_of(1),
        ["error: There is no tool \"subagent\"; your tools are: held, lookup."]
    );
    fleet.close().await;
}

const USED: Usage =
    Usage { input_tokens: 100, output_tokens: 10, cache_read_tokens: 0, cache_write_tokens: 0 };

#[tokio::test(flavor = "multi_thread")]
async fn row_g_33_the_costs_of_children_count_for_the_budget_of_their_root() {
    let script = Script::new()
        .on(When::system("You are a head."))
        .then(batch(HAND, &["Go on without end (1).", "Go on without end (2)."]).with_usage(USED))
        .then(wait("all").with_usage(USED))
        .then(text("I would go on."))
        .on(When::assignment("without end"))
        .answer(text("Step {turn}.").and_call("lookup", json!({})).with_usage(USED));
    let fleet = home(script, 2).await;
    let _worker = fleet.worker();
    let session = fleet.session("openai").await;
    let budget = Budget { max_output_tokens: Some(65), ..Budget::default() };
    let head = fleet.head_with(session, |new| new.budget = budget).await;
    let done = fleet.done(head).await;
    // Two calls of the head, and those of its children: 70 with the last, or 80 if both began one
    // below the limit.
    assert_eq!(done.failure, Some(FailureKind::Budget), "{done:#?}");
    let spent = done.error.clone().unwrap();
    let expected = ["70", "80"].map(|spent| {
        format!("Budget exceeded: max_output_tokens of the tree is 65, and {spent} are used")
    });
    assert!(expected.contains(&spent), "{spent}");
    for child in fleet.children(head).await {
        let child = fleet.look_at(child).await;
        assert_eq!(child.failure, Some(FailureKind::Budget), "{child:#?}");
        assert!(child.error.as_ref().unwrap().contains("of the tree is 65"), "{child:#?}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_28_a_cancel_takes_the_whole_tree_with_it_within_a_second() {
    let script = Script::new()
        .on(When::assignment("Lead."))
        .then(batch(HEAD, &["Lead on, left.", "Lead on, right."]))
        .then(wait("all"))
        .on(When::assignment("Hang"))
        .then(fault(Fault::HangBeforeHeaders))
        .on(When::assignment("Lead on"))
        .then(batch(HAND, &["Hang, one: {assignment}", "Hang, two: {assignment}"]))
        .then(wait("all"));
    let fleet = home(script, 3).await;
    let _workers = [fleet.worker(), fleet.worker()];
    let root = fleet.head("openai", "Lead.").await;
    until("all hands hang", async || {
        fleet.world.count("select count(task) from slot").await == 4
            && fleet.world.count("select count(*) from task where state = 'waiting'").await == 3
            && fleet.model.request_counts().requests == 3 * 2 + 4
    })
    .await;
    let began = Instant::now();
    let cancelled = fleet.world.store.cancel(root).await.unwrap();
    assert_eq!((cancelled.changed, cancelled.leases.len()), (true, 4));
    until("the model has seen all hang up", async || fleet.model.request_counts().hung_up == 4)
        .await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(fleet.world.count("select count(*) from task where state = 'cancelled'").await, 7);
    fleet.world.assert_ended_once().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_3_a_full_window_refuses_an_orchestrator_and_no_child() {
    let script = Script::new()
        .on(When::system("You are a head."))
        .then(batch(
            HAND,
            &[
                "Be slow (1): {assignment}",
                "Be slow (2): {assignment}",
                "Be slow (3): {assignment}",
            ],
        ))
        .then(wait("all"))
        .then(text("All three."))
        .on(When::assignment("Be slow"))
        .then(tool_call("held", json!({})))
        .then(text("Slow."));
    let fleet = home(script, 2).await;
    // Its agents are published now. All heads are spawned before a worker starts, because hands
    // would fill the window otherwise.
    drop(WorkerProcess::start(fleet.work().args(["--pool", "of-nobody"])));
    let session = fleet.session("openai").await;
    let mut heads = Vec::new();
    for head in 1..=5 {
        heads.push(
            fleet.head_with(session, |new| new.task.assignment = format!("Lead ({head}).")).await,
        );
    }
    let _worker = fleet.worker();
    until("all heads wait, and the window is full of hands", async || {
        fleet.world.count("select count(*) from task where state = 'waiting'").await == 5
            && fleet.world.count("select count(task) from slot").await == 5
    })
    .await;
    let sixth = to(HEAD, "Lead (6).");
    let refused = fleet
        .world
        .store
        .delegate(session, &sixth, &adjutant_store::Operator::default(), None)
        .await;
    assert_refused(refused, adjutant_agent::ErrorCode::MaxTasksExceeded);
    fleet.tools.let_go();
    for head in heads {
        fleet.done(head).await.assert_completed("All three.");
    }
    assert_eq!(fleet.world.count("select count(*) from task").await, 5 + 15);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_one_trace_and_its_children_run_where_their_root_does() {
    let script = Script::new()
        .on(When::system("You are a head."))
        .then(batch(HAND, &["One.", "Two."]))
        .then(wait("all"))
        .then(text("Both."))
        .on(When::system("You are a hand."))
        .then(text("Here."));
    let fleet = home(script, 2).await;
    let mut work = fleet.work();
    let _worker = WorkerProcess::start(work.args(["--pool", "special"]));
    let session = fleet.session("openai").await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let head = fleet
        .head_with(session, |new| {
            new.task.traceparent = Some(format!("00-{trace}-b7ad6b7169203331-01"));
            new.task.pool = "special".to_owned();
            new.task.priority = 7;
        })
        .await;
    fleet.done(head).await.assert_completed("Both.");
    let rows: Vec<(Option<String>, String, i16, i16)> =
        sqlx::query_as("select traceparent, pool, priority, depth from task order by number")
            .fetch_all(&fleet.world.sql)
            .await
            .unwrap();
    assert_eq!(rows.len(), 3);
    for (traceparent, pool, priority, _) in &rows {
        assert!(
            traceparent.as_ref().is_some_and(|parent| parent.contains(trace)),
            "{traceparent:?}"
        );
        assert_eq!((pool.as_str(), *priority), ("special", 7));
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_a_session_is_a_child_like_any_other_and_a_budget_of_its_own_bounds_it_alone() {
    let frugal = "[agents.frugal]\ndescription = \"Saves\"\nsystem_prompt = \"You save.\"\ntools = [\"lookup\"]\nmax_output_tokens = 15\n";
    let script = Script::new()
        .on(When::system("You are a head."))
        .then(spawn("frugal", "Save."))
        .then(wait("all"))
        .then(delegate(collect(0)))
        .then(text("{results/0/failure}, {results/0/partial_result}"))
        .on(When::system("You save."))
        .answer(text("Step {turn}.").and_call("lookup", json!({})).with_usage(USED));
    let fleet = home_with(script, 2, frugal).await;
    let _worker = fleet.worker();
    let session = fleet.session("openai").await;
    let head = fleet.delegate(session, NewDelegation { ..to(HEAD, "Lead.") }).await;
    fleet.done(head).await.assert_completed("budget, Step 2.");
    assert_eq!(fleet.state(head).await, TaskState::Completed);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_is_large_enough_gets_no_more_tasks_and_its_agent_is_told() {
    let script = Script::new()
        .on(When::system("You are a hand."))
        .answer(text("Done."))
        .on(When::any())
        .then(batch(HAND, &["One.", "Two.", "Three."]))
        .then(spawn(HAND, "Four."))
        .then(wait("all"))
        .then(text("With three."));
    let fleet = home_with_limits(script, 2, "max_tree_tasks = 4").await;
    let _worker = fleet.worker();
    let head = fleet.head("openai", "Lead.").await;
    let done = fleet.done(head).await;
    done.assert_completed("With three.");
    assert_eq!(
        done.results_of(2),
        [
            "error: {\"error\":\"MAX_TASKS_EXCEEDED\",\"message\":\"The tree has 4 tasks, and with 1 more it would have over 4, which is all it may have; go on without further subagents\"}"
        ]
    );
    assert_eq!(fleet.world.count("select count(*) from task").await, 4);
    fleet.close().await;
}
