//! cancel.

use serde_json::{Value, json};

use super::office::{Office, assert_has, assert_lacks};
use super::over_every_wire;
use crate::world::{assert_lost, turn};

over_every_wire! {
    row_g_28_a_queued_task_is_cancelled_and_never_runs,
    row_g_28_a_running_task_is_cancelled_with_what_it_had_said,
    row_g_28_a_task_that_has_ended_stays_as_it_is,
    row_g_map_a_cancelled_task_is_collected_like_a_failed_one,
}

async fn cancel(office: &Office, task: &str) -> Value {
    office.call(json!({"action": "cancel", "task_id": task})).await
}

async fn row_g_28_a_queued_task_is_cancelled_and_never_runs(office: Office) {
    let task = office.spawn("x").await;
    let answer = cancel(&office, &task).await;
    assert_has(
        &answer,
        json!({"task_id": "t_01", "agent": "writer", "status": "failed", "error": "Task cancelled", "cancelled": true,
            "partial_result": null, "turns_used": 0}),
    );
    assert!(answer.as_object().unwrap().contains_key("partial_result"));
    assert!(office.worker.claim(1).await.unwrap().is_empty());
}

async fn row_g_28_a_running_task_is_cancelled_with_what_it_had_said(office: Office) {
    let task = office.spawn("x").await;
    let mut claim = office.claim().await;
    claim.lease.checkpoint(&turn("Half of it.")).await.unwrap();
    let answer = cancel(&office, &task).await;
    assert_has(&answer, json!({"status": "failed", "partial_result": "Half of it.", "turns_used": 1}));
    assert_lacks(&answer, &["phase", "result", "failure"]);
    assert_lost(claim.lease.complete("too late".to_owned(), None).write().await);
}

async fn row_g_28_a_task_that_has_ended_stays_as_it_is(office: Office) {
    let done = office.completed("done").await;
    let answer = cancel(&office, &done).await;
    assert_has(&answer, json!({"status": "completed", "cancelled": false, "partial_result": null}));
    assert_lacks(&answer, &["error", "result"]);
    assert_has(&office.collect(&done).await, json!({"status": "completed", "result": "done"}));
}

async fn row_g_map_a_cancelled_task_is_collected_like_a_failed_one(office: Office) {
    let task = office.spawn("x").await;
    cancel(&office, &task).await;
    for answer in [office.status(&task).await, office.collect(&task).await] {
        assert_has(&answer, json!({"status": "failed", "error": "Task cancelled"}));
        assert_lacks(&answer, &["result", "phase"]);
    }
}
