use adjutant_script::{Script, When, text, tool_call};
use adjutant_store::{NewDelegation, NewTask, TaskContext};
use serde_json::{Value, json};

use crate::store::shared_context::{list_keys, write};
use crate::store::snapshots::overlay_rows;
use crate::support::fleet::{CLERK, Done, Fleet, pool_of, to};

/// Fault points around each step that uses the overlay: the claim, a tool call before and after its
/// result is stored, and the end.
const FAULTS: [&str; 6] = [
    "claimed:kill",
    "checkpointed:kill:2",
    "tool_stored:kill:2",
    "tool_stored:kill:3",
    "before_end:kill",
    "after_end:kill",
];

fn context_call(action: &str, value: Option<&str>) -> Value {
    json!({"action": action, "key": "plan", "value": value})
}

fn script() -> Script {
    Script::new()
        .on(When::any())
        .then(tool_call("shared_context", context_call("read", None)))
        .then(tool_call("shared_context", context_call("write", Some("first"))))
        .then(tool_call("shared_context", context_call("write", Some("second"))))
        .then(tool_call("shared_context", context_call("read", None)))
        .then(text("It is done."))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overlay_is_written_once_whenever_its_worker_is_killed_and_ends_with_its_task() {
    let fleet = Fleet::new(script()).await;
    let (mut doomed, mut tasks) = (Vec::new(), Vec::new());
    for fault in FAULTS {
        doomed.push(fleet.doomed(&pool_of(fault), fault));
        let session = fleet.session("openai").await;
        write(&fleet.world, session, "plan", "before").await.unwrap();
        let task = NewTask {
            pool: pool_of(fault),
            context: TaskContext::Snapshot,
            ..to(CLERK, &format!("Note it ({fault}).")).task
        };
        let new = NewDelegation { task, ..NewDelegation::default() };
        tasks.push((fault, session, fleet.delegate(session, new).await));
        write(&fleet.world, session, "plan", "after").await.unwrap();
    }
    for worker in &mut doomed {
        worker.killed_itself().await;
    }
    for table in
        ["task set pool = 'default' where finished_at is null", "queue set pool = 'default'"]
    {
        let update = format!("update {table}");
        sqlx::query(sqlx::AssertSqlSafe(update)).execute(&fleet.world.sql).await.unwrap();
    }
    let _rescuer = fleet.worker();
    for (fault, session, task) in tasks {
        let done = fleet.done(task).await;
        done.assert_completed("It is done.");
        assert_eq!(
            seen(&done),
            [("before", 1), ("", 2), ("", 3), ("second", 3)].map(entry),
            "{fault}"
        );
        let keys = list_keys(&fleet.world, session).await;
        assert_eq!(
            keys["keys"][0]["version"], 2,
            "{fault}: only the two writes of the orchestrator"
        );
    }
    assert_eq!(overlay_rows(&fleet.world).await, 0);
    fleet.world.assert_ended_once().await;
    fleet.model.finish();
}

fn entry((value, version): (&str, i64)) -> (String, i64) {
    (value.to_owned(), version)
}

/// The value and the version in the answer of each call, in order.
fn seen(done: &Done) -> Vec<(String, i64)> {
    let results = (1..=4).flat_map(|turn| done.results_of(turn));
    let entries = results.map(|result| serde_json::from_str::<Value>(&result).unwrap());
    entries
        .map(|entry| {
            let value = entry["value"].as_str().unwrap_or_default().to_owned();
            (value, entry["version"].as_i64().unwrap())
        })
        .collect()
}
