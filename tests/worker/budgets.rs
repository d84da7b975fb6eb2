//! Costs and budgets. Budgets are checked before each call, so at most one call exceeds them.

use adjutant_agent::{Budget, FailureKind, TaskId, WaitMode};
use adjutant_script::{Answer, Script, Usage, When, text, tool_call};
use adjutant_store::{NewDelegation, NewWorker, Operator};
use serde_json::json;

use crate::support::fleet::{CLERK, Done, Fleet, WIRES, model_config, to};

/// Input tokens of each call: 100 uncached, 700 read from the cache, 200 written to it.
const USED: Usage = Usage {
    input_tokens: 1000,
    output_tokens: 10,
    cache_read_tokens: 700,
    cache_write_tokens: 200,
};
const PRICES: &str =
    "prices = { input = 3.0, output = 15.0, cache_read = 0.3, cache_write = 3.75 }";

/// In billionths of a US dollar.
const COST: i64 = 100 * 3_000 + 700 * 300 + 200 * 3_750 + 10 * 15_000;

/// The OpenAI wire has no field for cache writes, but some servers report them.
fn cost_on(wire: &str) -> i64 {
    match wire {
        "openai" => 300 * 3_000 + 700 * 300 + 10 * 15_000,
        _ => COST,
    }
}

fn step() -> Answer {
    text("Step {turn}.").and_call("lookup", json!({})).with_usage(USED)
}

async fn workplace() -> Fleet {
    let script = Script::new()
        .on(When::assignment("three steps"))
        .turn(3, text("Done.").with_usage(USED))
        .answer(step())
        .on(When::assignment("without end"))
        .answer(step());
    Fleet::with(script, |server| {
        WIRES.map(|wire| model_config(&priced(wire), wire, server, PRICES)).concat()
    })
    .await
}

fn priced(wire: &str) -> String {
    format!("{wire}_priced")
}

fn with_budget(assignment: &str, budget: Budget) -> NewDelegation {
    NewDelegation { budget, ..to(CLERK, assignment) }
}

#[track_caller]
fn assert_over_budget(done: &Done, calls: usize, limit: &str) {
    done.assert_failed(FailureKind::Budget, &format!("Budget exceeded: {limit} are used"));
    assert_eq!((done.requests.len(), done.turns.len()), (calls, calls), "{}", done.assignment);
    assert_eq!(done.partial_result, Some(format!("Step {calls}.")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_stops_at_its_budget_with_at_most_one_call_beyond_it_and_keeps_its_text() {
    let fleet = workplace().await;
    let _worker = fleet.worker();
    let none = Budget::default();
    let mut tasks: Vec<(TaskId, usize, String)> = Vec::new();
    for wire in WIRES {
        let cost = cost_on(wire);
        let usd = |nanos: i64| format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
        let usd = |nanos: i64| usd(nanos).trim_end_matches('0').to_owned();
        for (budget, calls, limit) in [
            (
                Budget { max_input_tokens: Some(1001), ..none },
                2,
                "max_input_tokens of the task is 1001, and 2000".to_owned(),
            ),
            (
                Budget { max_output_tokens: Some(30), ..none },
                3,
                "max_output_tokens of the task is 30, and 30".to_owned(),
            ),
            (
                Budget { max_cost_nanousd: Some(cost + 1), ..none },
                2,
                format!("max_cost_usd of the task is {}, and {}", usd(cost + 1), usd(2 * cost)),
            ),
        ] {
            let session = fleet.session(&priced(wire)).await;
            let assignment = format!("Go on without end ({limit}, {wire}).");
            tasks.push((
                fleet.delegate(session, with_budget(&assignment, budget)).await,
                calls,
                limit,
            ));
        }
        let session = fleet.session(&priced(wire)).await;
        let nothing = Budget { max_output_tokens: Some(0), ..none };
        let task = fleet
            .delegate(session, with_budget(&format!("Begin without end ({wire})."), nothing))
            .await;
        let done = fleet.done(task).await;
        done.assert_failed(
            FailureKind::Budget,
            "Budget exceeded: max_output_tokens of the task is 0, and 0 are used",
        );
        assert_eq!((done.requests.len(), done.partial_result), (0, None), "not even one call");
    }
    for (task, calls, limit) in tasks {
        assert_over_budget(&fleet.done(task).await, calls, &limit);
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_stops_at_its_budget_across_all_of_its_tasks() {
    let fleet = workplace().await;
    let _worker = fleet.worker();
    for wire in WIRES {
        let session = fleet
            .world
            .session_with(|session| {
                session.model = Some(priced(wire));
                session.budget = Budget { max_output_tokens: Some(45), ..Budget::default() };
            })
            .await;
        let frugal =
            fleet.delegate(session, to(CLERK, &format!("Take three steps ({wire})."))).await;
        fleet.done(frugal).await.assert_completed("Done.");
        let greedy =
            fleet.delegate(session, to(CLERK, &format!("Go on without end ({wire})."))).await;
        assert_over_budget(
            &fleet.done(greedy).await,
            2,
            "max_output_tokens of the session is 45, and 50",
        );
        let late = fleet
            .delegate(session, to(CLERK, &format!("Come too late, without end ({wire}).")))
            .await;
        let late = fleet.done(late).await;
        assert_eq!((late.failure, late.requests.len()), (Some(FailureKind::Budget), 0));
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_stops_at_the_budget_of_its_root() {
    let fleet = workplace().await;
    let _worker = fleet.worker();
    // The test runs the root, and the worker its child.
    let ours =
        NewWorker { name: "ours".to_owned(), pool: "ours".to_owned(), ..NewWorker::default() };
    let ours = fleet.world.store.register(&ours).await.unwrap();
    let session = fleet.session(&priced("anthropic")).await;
    let mut root =
        with_budget("Delegate.", Budget { max_input_tokens: Some(2500), ..Budget::default() });
    root.task.pool = "ours".to_owned();
    fleet.delegate(session, root).await;
    let claim = fleet.world.claim_one(&ours).await;
    let mut child = to(CLERK, "Go on without end.");
    child.task.pool = "default".to_owned();
    let children = claim.lease.delegate("call", &[child], &Operator::default()).await.unwrap();
    let child = children[0].id;
    claim.lease.wait(vec![child], WaitMode::All).write().await.unwrap();
    assert_over_budget(
        &fleet.done(child).await,
        3,
        "max_input_tokens of the tree is 2500, and 3000",
    );
    fleet
        .world
        .claim_one(&ours)
        .await
        .lease
        .complete("Told.".to_owned(), None)
        .write()
        .await
        .unwrap();
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cost_of_a_turn_uses_the_configured_prices_and_the_cache_counts_of_each_wire() {
    let fleet = workplace().await;
    let _worker = fleet.worker();
    for wire in WIRES {
        let task = fleet.give(&priced(wire), CLERK, &format!("Take three steps ({wire}).")).await;
        let done = fleet.done(task).await;
        done.assert_completed("Done.");
        for turn in &done.turns {
            let usage = &turn.turn.usage;
            assert_eq!(
                (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens),
                (1000, 10, 700)
            );
            assert_eq!(usage.cost_nanousd, cost_on(wire), "{wire}: {usage:?}");
            assert_eq!(turn.turn.model, Some(priced(wire)));
        }
        let spent: (i64, i64, i64) = sqlx::query_as(
            "select input_tokens, output_tokens, cost_nanousd from task where id = $1",
        )
        .bind(task.0)
        .fetch_one(&fleet.world.sql)
        .await
        .unwrap();
        assert_eq!(spent, (3000, 30, 3 * cost_on(wire)));
    }
    let unpriced = fleet.run_on_both(CLERK, "Take three steps for nothing").await;
    assert!(
        unpriced.iter().all(|done| done.turns.iter().all(|turn| turn.turn.usage.cost_nanousd == 0))
    );
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_has_answered_loses_only_its_summary_to_a_spent_budget() {
    let script = Script::new()
        .on(When::any())
        .then(text("The answer.").with_usage(USED))
        .then(tool_call("lookup", json!({})));
    let fleet = Fleet::with(script, |_| {
        "[agents.summarist]\ndescription = \"Sums up\"\nsystem_prompt = \"You sum up.\"\nsummary_prompt = \"Sum up.\"\nmax_output_tokens = 10\n".to_owned()
    })
    .await;
    let _worker = fleet.worker();
    for done in fleet.run_on_both("summarist", "Answer and sum up").await {
        done.assert_completed("The answer.");
        assert_eq!((done.summary, done.requests.len()), (None, 1));
    }
    fleet.close().await;
}
