//! batch: many spawns, all or none.

use adjutant_agent::ErrorCode;
use serde_json::json;

use super::office::{Office, assert_has, ids};
use super::over_every_wire;

over_every_wire! {
    row_g_31_tasks_of_a_batch_wait_for_each_other,
    row_g_31_a_circle_in_a_batch_is_refused,
    row_g_3_a_batch_is_made_as_a_whole_or_not_at_all,
    row_g_32_a_batch_with_the_same_key_is_made_once,
}

async fn row_g_31_tasks_of_a_batch_wait_for_each_other(office: Office) {
    office.spawn("earlier").await;
    let answer = office
        .call(json!({"action": "batch", "tasks": [
            {"agent": "writer", "task": "Write.", "depends_on": ["look", "t_01"], "label": "last"},
            {"name": "look", "agent": "researcher", "task": "Look."},
        ]}))
        .await;
    assert_eq!(ids(&answer), ["t_02", "t_03"]);
    assert_has(
        &answer["tasks"][0],
        json!({"agent": "writer", "status": "running", "phase": "waiting", "label": "last"}),
    );
    assert_has(&answer["tasks"][1], json!({"agent": "researcher", "phase": "queued", "name": "look"}));
    for expected in ["earlier", "Look.", "Write."] {
        let claim = office.claim().await;
        assert_eq!(claim.assignment.text, expected);
        claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    }
}

async fn row_g_31_a_circle_in_a_batch_is_refused(office: Office) {
    let item =
        |name: &str, on: &str| json!({"name": name, "agent": "writer", "task": "x", "depends_on": [on]});
    let batch = |items: &[serde_json::Value]| json!({"action": "batch", "tasks": items});
    office.refused(batch(&[item("a", "b"), item("b", "a")]), ErrorCode::InvalidArgument).await;
    office.refused(batch(&[item("a", "a")]), ErrorCode::InvalidArgument).await;
    office.refused(batch(&[item("a", "c")]), ErrorCode::TaskNotFound).await;
    office.refused(batch(&[item("a", "t_01")]), ErrorCode::TaskNotFound).await;
    assert_eq!(office.world.count("select count(*) from task").await, 0);
}

async fn row_g_3_a_batch_is_made_as_a_whole_or_not_at_all(office: Office) {
    let item = |agent: &str| json!({"agent": agent, "task": "x"});
    let batch = |agents: &[&str]| json!({"action": "batch", "tasks": agents.iter().map(|agent| item(agent)).collect::<Vec<_>>()});
    office.refused(batch(&["writer"; 6]), ErrorCode::MaxTasksExceeded).await;
    let message = office.refused(batch(&["writer", "nobody"]), ErrorCode::AgentNotFound).await;
    assert!(message.contains("nobody"), "{message}");
    assert_eq!(office.world.count("select count(*) from task").await, 0);
    let mut queued = batch(&["writer"; 6]);
    queued["queue"] = json!(true);
    assert_eq!(ids(&office.call(queued).await), ["t_01", "t_02", "t_03", "t_04", "t_05", "t_06"]);
}

async fn row_g_32_a_batch_with_the_same_key_is_made_once(office: Office) {
    let batch =
        json!({"action": "batch", "idempotency_key": "k", "tasks": [{"agent": "writer", "task": "x"}]});
    let first = office.call(batch.clone()).await;
    assert_eq!(office.call(batch).await, first);
    let spawn = json!({"action": "spawn", "idempotency_key": "k", "agent": "writer", "task": "x"});
    office.refused(spawn, ErrorCode::IdempotencyConflict).await;
    assert_eq!(office.world.count("select count(*) from task").await, 1);
}
