//! cancel.

use serde_json::{Value, json};

use crate::dialects::spec::over_every_wire;
use crate::support::orchestrator::{Orchestrator, assert_has, assert_lacks};
use crate::support::world::{assert_lost, turn};

over_every_wire! {
    row_g_28_a_queued_task_is_cancelled_and_never_runs,
    row_g_28_a_running_task_is_cancelled_and_keeps_its_text,
    row_g_28_a_task_that_has_ended_stays_as_it_is,
    row_g_map_a_cancelled_task_is_collected_like_a_failed_one,
}

async fn cancel(orchestrator: &Orchestrator, task: &str) -> Value {
    orchestrator.call(json!({"action": "cancel", "task_id": task})).await
}

async fn row_g_28_a_queued_task_is_cancelled_and_never_runs(orchestrator: Orchestrator) {
    let task = orchestrator.spawn("x").await;
    let answer = cancel(&orchestrator, &task).await;
    assert_has(
        &answer,
        json!({"task_id": "t_01", "agent": "writer", "status": "failed", "error": "Task cancelled", "cancelled": true,
            "partial_result": null, "turns_used": 0}),
    );
    assert!(answer.as_object().unwrap().contains_key("partial_result"));
    assert!(orchestrator.worker.claim(1).await.unwrap().is_empty());
}

async fn row_g_28_a_running_task_is_cancelled_and_keeps_its_text(orchestrator: Orchestrator) {
    let task = orchestrator.spawn("x").await;
    let mut claim = orchestrator.claim().await;
    claim.lease.checkpoint(&turn("Half of it.")).await.unwrap();
    let answer = cancel(&orchestrator, &task).await;
    assert_has(
        &answer,
        json!({"status": "failed", "partial_result": "Half of it.", "turns_used": 1}),
    );
    assert_lacks(&answer, &["phase", "result", "failure"]);
    assert_lost(claim.lease.complete("too late".to_owned(), None).write().await);
}

async fn row_g_28_a_task_that_has_ended_stays_as_it_is(orchestrator: Orchestrator) {
    let done = orchestrator.completed("done").await;
    let answer = cancel(&orchestrator, &done).await;
    assert_has(&answer, json!({"status": "completed", "cancelled": false, "partial_result": null}));
    assert_lacks(&answer, &["error", "result"]);
    assert_has(
        &orchestrator.collect(&done).await,
        json!({"status": "completed", "result": "done"}),
    );
}

async fn row_g_map_a_cancelled_task_is_collected_like_a_failed_one(orchestrator: Orchestrator) {
    let task = orchestrator.spawn("x").await;
    cancel(&orchestrator, &task).await;
    for answer in [orchestrator.status(&task).await, orchestrator.collect(&task).await] {
        assert_has(&answer, json!({"status": "failed", "error": "Task cancelled"}));
        assert_lacks(&answer, &["result", "phase"]);
    }
}
