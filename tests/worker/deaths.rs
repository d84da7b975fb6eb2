//! Workers that die at each fault point of the loop.

use adjutant_agent::{FailureKind, SessionId, StoredTurn, TaskId, prompts};
use adjutant_script::{Answer, Script, When, text, tool_call};
use adjutant_store::{NewDelegation, NewTask};
use serde_json::{Value, json};

use crate::support::fleet::{CLERK, Done, Fleet, pool_of, to};
use crate::support::worker_process::WorkerProcess;

/// The fault point at which a worker dies, and the repeated work.
struct Death {
    fault: &'static str,
    /// The turn whose answer was received but not stored: the only model call that is repeated.
    paid_again: Option<u32>,
    /// The number of calls of the repeatable tool.
    lookups: usize,
    payment: Payment,
    attempts: i32,
}

/// The state of the call that must not be repeated.
#[derive(Debug, PartialEq, Eq)]
enum Payment {
    Made,
    /// It was made, and the model got an unknown outcome.
    MadeUnknown,
    /// It was not made, and the model got an unknown outcome.
    UnmadeUnknown,
}

const USUAL: Death =
    Death { fault: "", paid_again: None, lookups: 1, payment: Payment::Made, attempts: 2 };

const DEATHS: [Death; 12] = [
    Death { fault: "claimed:kill", ..USUAL },
    Death { fault: "calling:kill:2", ..USUAL },
    Death { fault: "answered:kill:2", paid_again: Some(2), ..USUAL },
    Death { fault: "checkpointed:kill:2", payment: Payment::UnmadeUnknown, ..USUAL },
    Death { fault: "tool_calling:kill:1", ..USUAL },
    Death { fault: "tool_calling:kill:2", payment: Payment::UnmadeUnknown, ..USUAL },
    Death { fault: "tool_answered:kill:1", lookups: 2, ..USUAL },
    Death { fault: "tool_answered:kill:2", payment: Payment::MadeUnknown, ..USUAL },
    Death { fault: "tool_stored:kill:1", ..USUAL },
    // The second write of the shared context, whose result is stored in the same transaction.
    Death { fault: "tool_stored:kill:4", ..USUAL },
    Death { fault: "before_end:kill", ..USUAL },
    Death { fault: "after_end:kill", attempts: 1, ..USUAL },
];

fn write(value: &str) -> Value {
    json!({"action": "write", "key": "findings", "value": value})
}

fn script() -> Script {
    Script::new()
        .on(When::any())
        .then(text("I look it up.").and_call("lookup", json!({"word": "ledger"})))
        .then(paid().and_call("shared_context", write("first")))
        .then(tool_call("shared_context", write("second")))
        .then(text("It is done."))
}

fn paid() -> Answer {
    tool_call("pay", json!({"amount": 1}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_ends_the_same_wherever_its_worker_dies_on_openai() {
    dies_anywhere("openai").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_ends_the_same_wherever_its_worker_dies_on_anthropic() {
    dies_anywhere("anthropic").await;
}

async fn dies_anywhere(wire: &str) {
    let fleet = Fleet::new(script()).await;
    let mut tasks = Vec::new();
    let mut doomed: Vec<WorkerProcess> = Vec::new();
    for death in &DEATHS {
        // A pool for each worker, so that it dies in its own task.
        doomed.push(fleet.doomed(&pool_of(death.fault), death.fault));
        let session = fleet.session(wire).await;
        let assignment = format!("Pay it once ({}).", death.fault);
        let new = NewDelegation {
            task: NewTask { pool: pool_of(death.fault), ..to(CLERK, &assignment).task },
            ..NewDelegation::default()
        };
        tasks.push((session, fleet.delegate(session, new).await));
    }
    for worker in &mut doomed {
        worker.killed_itself().await;
    }
    all_to_the_default_pool(&fleet).await;
    let _rescuer = fleet.worker();
    let undisturbed = fleet.give(wire, CLERK, "Pay it undisturbed.").await;
    let usual = story(&fleet.done(undisturbed).await.turns);
    for (death, (session, task)) in DEATHS.iter().zip(tasks) {
        let done = fleet.done(task).await;
        assert_as_without_it(&fleet, death, &done, &usual).await;
        assert_eq!(
            writes(&fleet, session).await,
            [(1, "first".to_owned()), (2, "second".to_owned())]
        );
    }
    fleet.world.assert_ended_once().await;
    fleet.model.finish();
}

async fn assert_as_without_it(fleet: &Fleet, death: &Death, done: &Done, usual: &[String]) {
    let fault = death.fault;
    done.assert_completed("It is done.");
    assert_eq!(done.attempt, death.attempts, "{fault}");
    let expected: Vec<String> = match death.payment {
        Payment::Made => usual.to_vec(),
        Payment::MadeUnknown | Payment::UnmadeUnknown => {
            let unknown = format!("error: {}", prompts::OUTCOME_UNKNOWN);
            usual.iter().map(|turn| turn.replace("pay says {\"amount\":1}", &unknown)).collect()
        }
    };
    assert_eq!(story(&done.turns), expected, "{fault}");
    for counted in
        fleet.model.turns().iter().filter(|turn| turn.conversation.assignment == done.assignment)
    {
        let times = if Some(counted.turn) == death.paid_again { 2 } else { 1 };
        assert_eq!(
            (counted.requested, counted.answered),
            (times, times),
            "{fault}: turn {}",
            counted.turn
        );
    }
    let keys = |tool| -> Vec<String> {
        fleet.tools.calls_by(done.task, tool).into_iter().map(|call| call.key).collect()
    };
    assert_eq!(keys("lookup"), vec![key(done, 1); death.lookups], "{fault}");
    let paid = usize::from(death.payment != Payment::UnmadeUnknown);
    assert_eq!(keys("pay"), vec![key(done, 2); paid], "{fault}");
}

/// The key of the first call of a turn.
fn key(done: &Done, turn: usize) -> String {
    let call = done.turns[turn - 1].turn.answer.tool_uses().next().unwrap();
    format!("{}:{turn}:{}", done.task, call.id)
}

/// The conversation and the outcome, without ids and times.
fn story(turns: &[StoredTurn]) -> Vec<String> {
    turns.iter().map(result).collect()
}

fn result(stored: &StoredTurn) -> String {
    let mut result = format!("{} {:?}", stored.number, stored.turn.answer.text());
    for call in stored.turn.answer.tool_uses() {
        let results: Vec<_> =
            stored.tool_results.iter().filter(|result| result.call == call.id).collect();
        assert_eq!(results.len(), 1, "{call:?}");
        let content = match call.name.as_str() {
            "shared_context" => {
                let entry: Value = serde_json::from_str(&results[0].content).unwrap();
                format!("version {} of {}", entry["version"], entry["key"])
            }
            _ => results[0].content.clone(),
        };
        let mark = if results[0].is_error { "error: " } else { "" };
        result += &format!("\n  {} {:?}: {mark}{content}", call.name, call.arguments);
    }
    result
}

/// Every write of the session's shared context.
async fn writes(fleet: &Fleet, session: SessionId) -> Vec<(i32, String)> {
    sqlx::query_as("select version, value from context_history where session = $1 order by id")
        .bind(session.0)
        .fetch_all(&fleet.world.sql)
        .await
        .unwrap()
}

/// A worker that died later may have swept the task of another one.
async fn all_to_the_default_pool(fleet: &Fleet) {
    for table in
        ["task set pool = 'default' where finished_at is null", "queue set pool = 'default'"]
    {
        let update = format!("update {table}");
        sqlx::query(sqlx::AssertSqlSafe(update)).execute(&fleet.world.sql).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_fails_with_its_worker_if_its_agent_is_configured_so_or_after_too_many_losses() {
    let script = Script::new().on(When::assignment("lost")).answer(text("Here I am."));
    let frail = "[agents.frail]\ndescription = \"Not to be resumed\"\nsystem_prompt = \"You are frail.\"\non_worker_loss = \"fail\"\n";
    let fleet = Fleet::with(script, |_| frail.to_owned()).await;
    let spawn = async |pool: &str, agent: &str, max_failures: i16| -> TaskId {
        let task = NewTask {
            pool: pool.to_owned(),
            max_failures,
            ..to(agent, &format!("Do not get lost, {agent}.")).task
        };
        let session = fleet.session("anthropic").await;
        fleet.delegate(session, NewDelegation { task, ..NewDelegation::default() }).await
    };
    let mut first =
        [fleet.doomed("frail", "calling:kill"), fleet.doomed("unlucky", "calling:kill")];
    let frail = spawn("frail", "frail", 3).await;
    let unlucky = spawn("unlucky", CLERK, 2).await;
    for worker in &mut first {
        worker.killed_itself().await;
    }
    let mut second = fleet.doomed("unlucky", "calling:kill");
    second.killed_itself().await;
    let _sweeper = fleet.worker();
    let lost = fleet.done(frail).await;
    lost.assert_failed(
        FailureKind::Lost,
        "The worker was lost, and the agent is not to be resumed",
    );
    assert_eq!(lost.attempt, 1);
    let lost = fleet.done(unlucky).await;
    lost.assert_failed(FailureKind::Lost, "The worker was lost 2 times in a row without progress");
    assert_eq!(lost.attempt, 2);
    assert_eq!(fleet.model.request_counts().requests, 0, "all died before their first request");
    fleet.close().await;
}
