//! Tasks that wait for more budget instead of failing.

use adjutant_agent::{Budget, FailureKind, OnBudget, TaskId, TaskNumber, TaskState};
use adjutant_script::{Answer, Script, Usage, When, text};
use adjutant_store::{NewDelegation, NewSession};
use serde_json::json;

use crate::support::fleet::{CLERK, Fleet, WIRES, model_config, to};
use crate::support::world::until;

/// Of each call.
const USED: Usage =
    Usage { input_tokens: 100, output_tokens: 10, cache_read_tokens: 0, cache_write_tokens: 0 };

fn step() -> Answer {
    text("Step {turn}.").and_call("lookup", json!({})).with_usage(USED)
}

fn script() -> Script {
    Script::new()
        .on(When::assignment("four steps"))
        .turn(4, text("Done.").with_usage(USED))
        .answer(step())
        .on(When::assignment("one step"))
        .answer(text("Done.").with_usage(USED))
}

fn output(max: i64) -> Budget {
    Budget { max_output_tokens: Some(max), ..Budget::default() }
}

fn pausing(assignment: &str, budget: Budget) -> NewDelegation {
    NewDelegation { budget, on_budget: Some(OnBudget::Pause), ..to(CLERK, assignment) }
}

async fn until_paused(fleet: &Fleet, task: TaskId, calls: usize) {
    until("it is paused", async || fleet.state(task).await == TaskState::Waiting).await;
    let paused = fleet.look_at(task).await;
    assert_eq!((paused.requests.len(), paused.turns.len()), (calls, calls));
    assert_eq!(fleet.world.count("select count(task) from slot").await, 0, "it holds no slot");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_over_budget_waits_for_a_raise_across_a_kill_and_then_makes_the_next_call_once() {
    let fleet = Fleet::new(script()).await;
    let mut worker = fleet.worker();
    for wire in WIRES {
        let session = fleet.session(wire).await;
        let assignment = format!("Take four steps ({wire}).");
        let task = fleet.delegate(session, pausing(&assignment, output(20))).await;
        until_paused(&fleet, task, 2).await;
        worker.signal("KILL");
        worker.exited().await;
        let raise = async |max| fleet.world.store.raise(session, TaskNumber(1), &output(max)).await;
        assert!(raise(20).await.is_ok_and(|task| task.state == TaskState::Waiting));
        raise(30).await.unwrap();
        worker = fleet.worker();
        until_paused(&fleet, task, 3).await;
        raise(100).await.unwrap();
        let done = fleet.done(task).await;
        done.assert_completed("Done.");
        assert_eq!((done.requests.len(), done.attempt), (4, 3), "no call is made again");
    }
    let warnings = "select count(*) from event where kind = 'budget_warning'";
    // Of 30 tokens 20 are less than four fifths, of 20 it was 10, and of 100 it was 40.
    assert_eq!(fleet.world.count(warnings).await, 0);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_raised_while_it_runs_does_not_pause_and_four_fifths_are_warned_of() {
    let fleet = Fleet::new(script()).await;
    let session = fleet.session("openai").await;
    // The worker claims it with the lower budget, and asks when that is used up.
    sqlx::raw_sql(
        "create function raise_now() returns trigger language plpgsql as $$
         begin
             if new.turn = 2 then
                 update task set config = jsonb_set(config, '{budget,max_output_tokens}', '37');
             end if;
             return null;
         end $$;
         create trigger raised after insert on tool_result for each row execute function raise_now()",
    )
    .execute(&fleet.world.sql)
    .await
    .unwrap();
    let _worker = fleet.worker();
    let task = fleet.delegate(session, pausing("Take four steps.", output(24))).await;
    let done = fleet.done(task).await;
    done.assert_completed("Done.");
    assert_eq!((done.requests.len(), done.attempt), (4, 1));
    let warned: Vec<String> = sqlx::query_scalar(
        "select (budget ->> 'allowed') || ':' || (budget ->> 'spent') from event where kind = 'budget_warning'",
    )
    .fetch_all(&fleet.world.sql)
    .await
    .unwrap();
    assert_eq!(warned, ["24:20", "37:30"], "once for each limit");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_a_session_and_children_of_a_tree_pause_too_and_continue_together() {
    let fleet = Fleet::new(script()).await;
    let _worker = fleet.worker();
    let new = |session: &mut NewSession| {
        session.name = "frugal".to_owned();
        session.model = Some("anthropic".to_owned());
        session.budget = output(10);
        session.on_budget = Some(OnBudget::Pause);
    };
    let session = fleet.world.session_with(new).await;
    let first = fleet.delegate(session, to(CLERK, "Take one step.")).await;
    fleet.done(first).await.assert_completed("Done.");
    let mut tasks = Vec::new();
    for n in 0..8 {
        let mut new = to(CLERK, &format!("Take one step (no. {n})."));
        new.task.queue = true;
        tasks.push(fleet.delegate(session, new).await);
    }
    until("all are paused, though the window has room for five only", async || {
        fleet.world.count("select count(*) from task where waiting_for = 'budget'").await == 8
    })
    .await;
    let (server, key) = (fleet.server(), fleet.world.api_key("tenant", "delegate").await);
    let key = format!("authorization: Bearer {key}");
    let raise = async |path: &str, body: &str| {
        let headers = [key.as_str(), "Content-Type: application/json"];
        server.request("POST", path, &headers, body).await
    };
    let path = "/v1/sessions/frugal/raise";
    raise("/v1/sessions/other/raise", r#"{"max_cost_usd": 1}"#)
        .await
        .refused(404, "SESSION_NOT_FOUND");
    raise(path, "{}").await.refused(400, "INVALID_ARGUMENT");
    let used = raise(path, r#"{"max_output_tokens": 9}"#).await.refused(400, "INVALID_ARGUMENT");
    assert!(used.contains("of the session frugal is 10 already"), "{used}");
    let raised = raise(path, r#"{"max_output_tokens": 1000}"#).await.ok(200);
    assert_eq!(
        (&raised["max_output_tokens"], &raised["on_budget"]),
        (&json!(1000), &json!("pause"))
    );
    for task in tasks {
        fleet.done(task).await.assert_completed("Done.");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_the_cost_stops_a_model_without_prices_before_it_is_called() {
    let script = Script::new().on(When::any()).answer(text("Done.").with_usage(USED));
    let fleet = Fleet::with(script, |server| {
        let failing = "[models.failing]\nwire = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\nprices = {}\nfallback = [\"unpriced\", \"priced\"]\nfallback_after_s = 0.1\n";
        [
            failing.to_owned(),
            model_config("unpriced", "openai", server, ""),
            model_config("priced", "openai", server, "prices = {}"),
        ]
        .concat()
    })
    .await;
    let cost = Budget { max_cost_nanousd: Some(1_000), ..Budget::default() };
    // Before a worker has published its models, nobody knows that this one has no prices.
    let unpriced = fleet.session("unpriced").await;
    let with_limit = |assignment: &str| NewDelegation { budget: cost, ..to(CLERK, assignment) };
    publish_clerk(&fleet).await;
    let early = fleet.delegate(unpriced, with_limit("Be early.")).await;
    let _worker = fleet.worker();
    let done = fleet.done(early).await;
    done.assert_failed(
        FailureKind::Budget,
        "max_cost_usd of the task needs the prices of the model \"unpriced\"; set models.unpriced.prices",
    );
    assert_eq!(done.requests.len(), 0);
    let late = fleet
        .world
        .store
        .delegate(unpriced, &with_limit("Be late."), &Default::default(), None)
        .await;
    assert!(late.unwrap_err().to_string().contains("models.unpriced.prices"));
    let session = fleet.session("failing").await;
    let task = fleet.delegate(session, with_limit("Fall back.")).await;
    let done = fleet.done(task).await;
    done.assert_completed("Done.");
    assert_eq!(done.turns[0].turn.model.as_deref(), Some("priced"), "the other one has no prices");
    fleet.close().await;
}

/// The agents of a worker's config, published by one that runs nothing of these tests.
async fn publish_clerk(fleet: &Fleet) {
    let mut work = fleet.work();
    let mut other =
        crate::support::worker_process::WorkerProcess::start(work.args(["--pool", "other"]));
    until("the agents are published", async || {
        fleet.world.count("select count(*) from agent").await > 0
    })
    .await;
    other.signal("TERM");
    other.exited().await;
    sqlx::raw_sql("delete from model").execute(&fleet.world.sql).await.unwrap();
}
