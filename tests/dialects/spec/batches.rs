//! batch: many spawns, all or none.

use adjutant_agent::ErrorCode;
use serde_json::json;

use crate::dialects::spec::over_every_wire;
use crate::support::orchestrator::{Orchestrator, assert_has, ids};

over_every_wire! {
    row_g_31_tasks_of_a_batch_wait_for_each_other,
    row_g_31_a_circle_in_a_batch_is_refused,
    row_g_3_a_batch_is_spawned_as_a_whole_or_not_at_all,
    row_g_32_a_batch_with_the_same_key_is_spawned_once,
    row_g_32_a_key_of_one_action_says_nothing_about_another,
}

async fn row_g_31_tasks_of_a_batch_wait_for_each_other(orchestrator: Orchestrator) {
    orchestrator.spawn("earlier").await;
    let answer = orchestrator
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
    assert_has(
        &answer["tasks"][1],
        json!({"agent": "researcher", "phase": "queued", "name": "look"}),
    );
    for expected in ["earlier", "Look.", "Write."] {
        let claim = orchestrator.claim().await;
        assert_eq!(claim.assignment.text, expected);
        claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    }
}

async fn row_g_31_a_circle_in_a_batch_is_refused(orchestrator: Orchestrator) {
    let item = |name: &str, on: &str| json!({"name": name, "agent": "writer", "task": "x", "depends_on": [on]});
    let batch = |items: &[serde_json::Value]| json!({"action": "batch", "tasks": items});
    orchestrator
        .refused(batch(&[item("a", "b"), item("b", "a")]), ErrorCode::InvalidArgument)
        .await;
    orchestrator.refused(batch(&[item("a", "a")]), ErrorCode::InvalidArgument).await;
    orchestrator.refused(batch(&[item("a", "c")]), ErrorCode::TaskNotFound).await;
    orchestrator.refused(batch(&[item("a", "t_01")]), ErrorCode::TaskNotFound).await;
    assert_eq!(orchestrator.world.count("select count(*) from task").await, 0);
}

async fn row_g_3_a_batch_is_spawned_as_a_whole_or_not_at_all(orchestrator: Orchestrator) {
    let item = |agent: &str| json!({"agent": agent, "task": "x"});
    let batch = |agents: &[&str]| json!({"action": "batch", "tasks": agents.iter().map(|agent| item(agent)).collect::<Vec<_>>()});
    orchestrator.refused(batch(&["writer"; 6]), ErrorCode::MaxTasksExceeded).await;
    let message =
        orchestrator.refused(batch(&["writer", "nobody"]), ErrorCode::AgentNotFound).await;
    assert!(message.contains("nobody"), "{message}");
    assert_eq!(orchestrator.world.count("select count(*) from task").await, 0);
    let mut queued = batch(&["writer"; 6]);
    queued["queue"] = json!(true);
    assert_eq!(
        ids(&orchestrator.call(queued).await),
        ["t_01", "t_02", "t_03", "t_04", "t_05", "t_06"]
    );
}

async fn row_g_32_a_batch_with_the_same_key_is_spawned_once(orchestrator: Orchestrator) {
    let batch = json!({"action": "batch", "idempotency_key": "k", "tasks": [{"agent": "writer", "task": "x"}]});
    let first = orchestrator.call(batch.clone()).await;
    assert_eq!(orchestrator.call(batch).await, first);
    let other = json!({"action": "batch", "idempotency_key": "k", "tasks": [{"agent": "writer", "task": "y"}]});
    orchestrator.refused(other, ErrorCode::IdempotencyConflict).await;
    assert_eq!(orchestrator.world.count("select count(*) from task").await, 1);
}

async fn row_g_32_a_key_of_one_action_says_nothing_about_another(orchestrator: Orchestrator) {
    let tasks = json!([{"agent": "writer", "task": "x"}]);
    let mut made = Vec::new();
    for arguments in [
        json!({"action": "batch", "idempotency_key": "k", "tasks": tasks}),
        json!({"action": "spawn", "idempotency_key": "k", "agent": "writer", "task": "x"}),
    ] {
        orchestrator.call(arguments.clone()).await;
        made.push(arguments);
        orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    }
    made.push(
        json!({"action": "continue", "idempotency_key": "k", "task_id": "t_02", "task": "x"}),
    );
    made.push(json!({"action": "collect", "idempotency_key": "k", "task_id": "t_01"}));
    for arguments in made {
        let first = orchestrator.call(arguments.clone()).await;
        assert_eq!(orchestrator.call(arguments).await, first);
    }
    assert_eq!(orchestrator.world.count("select count(*) from task").await, 3);
    assert_eq!(orchestrator.world.count("select count(*) from idempotency").await, 4);
}
