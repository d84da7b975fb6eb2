//! Workers that die at each fault point of a delegation.

use adjutant_agent::TaskId;
use adjutant_script::{Script, When, text};
use adjutant_store::{NewDelegation, NewTask};
use serde_json::json;

use crate::support::fleet::{Fleet, pool_of, to};
use crate::support::worker_process::WorkerProcess;
use crate::worker::delegation::agents::{HAND, HEAD, batch, collect, delegate, home, spawn, wait};

/// The fault points at which a worker of a head and its hands dies.
const DEATHS: [&str; 14] = [
    "claimed:kill:1",
    // Before the children are spawned.
    "checkpointed:kill:1",
    "delegating:kill",
    // After they are spawned: before and after the answer is stored.
    "delegated:kill",
    "tool_stored:kill:1",
    // Before and after the parent waits.
    "checkpointed:kill:2",
    "parking:kill",
    "before_end:kill:1",
    "after_end:kill:1",
    // After its children have ended and it was claimed again.
    "claimed:kill:4",
    "tool_stored:kill:2",
    "collecting:kill:1",
    "tool_stored:kill:3",
    "before_end:kill:4",
];

fn script() -> Script {
    Script::new()
        .on(When::system("You are a head.").and(When::assignment("Lead")))
        .then(batch(HAND, &["First of: {assignment}", "Second of: {assignment}"]))
        .then(wait("all"))
        .then(delegate(collect(0)).and_call("subagent", collect(1)))
        .then(text("{results/0/result} {results/1/result}"))
        .on(When::system("You are a head.").and(When::assignment("Stop")))
        .then(spawn(HAND, "Hang: {assignment}"))
        .then(delegate(json!({"action": "cancel", "task_id": "{results/0/task_id}"})))
        .then(text("{results/0/cancelled}, {results/0/error}"))
        .on(When::assignment("First of"))
        .then(text("One."))
        .on(When::assignment("Second of"))
        .then(text("Two."))
        .on(When::assignment("Hang"))
        .then(text("Too late.").delay(std::time::Duration::from_secs(600)))
}

async fn in_pool(fleet: &Fleet, pool: &str, assignment: &str) -> TaskId {
    let task = NewTask { pool: pool.to_owned(), ..to(HEAD, assignment).task };
    let session = fleet.session("openai").await;
    fleet.delegate(session, NewDelegation { task, ..NewDelegation::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_delegates_once_wherever_its_worker_dies() {
    let fleet = home(script(), 2).await;
    let mut heads = Vec::new();
    let mut doomed: Vec<WorkerProcess> = Vec::new();
    for fault in DEATHS {
        doomed.push(fleet.doomed(&pool_of(fault), fault));
        heads.push((fault, in_pool(&fleet, &pool_of(fault), &format!("Lead ({fault}).")).await));
    }
    for worker in &mut doomed {
        worker.killed_itself().await;
    }
    all_to_the_default_pool(&fleet).await;
    let _rescuer = fleet.worker();
    for (fault, head) in heads {
        let done = fleet.done(head).await;
        assert_eq!(done.result.as_deref(), Some("One. Two."), "{fault}: {done:#?}");
        assert_eq!((lost_attempts(&fleet, head).await, done.turns.len()), (1, 4), "{fault}");
        assert_eq!(fleet.children(head).await.len(), 2, "{fault}: each was spawned once");
        let ids = |turn: usize| -> Vec<String> {
            let result = super::agents::results(&done, turn).remove(0);
            let tasks = result["tasks"].as_array().unwrap().iter();
            tasks.map(|task| task["task_id"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(ids(1), ["t_02", "t_03"], "{fault}: what it was told is what there is");
        assert_eq!(ids(2), ids(1), "{fault}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_answers_the_same_if_the_parents_worker_dies() {
    let fleet = home(script(), 2).await;
    let mut doomed = fleet.doomed("cancels", "cancelled:kill");
    let head = in_pool(&fleet, "cancels", "Stop it.").await;
    doomed.killed_itself().await;
    all_to_the_default_pool(&fleet).await;
    let _rescuer = fleet.worker();
    fleet.done(head).await.assert_completed("true, Task cancelled");
    fleet.world.assert_ended_once().await;
}

/// A worker that ends an attempt claims the next task in the same call.
async fn lost_attempts(fleet: &Fleet, head: TaskId) -> i64 {
    let lost = "select count(*) from attempt a join task t on t.id = a.task where t.root = $1 and a.outcome = 'lost'";
    sqlx::query_scalar(lost).bind(head.0).fetch_one(&fleet.world.sql).await.unwrap()
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
