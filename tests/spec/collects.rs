//! collect and read.

use adjutant_agent::ErrorCode;
use serde_json::{Value, json};

use super::office::{Office, SESSION, assert_has, assert_lacks};
use super::over_every_wire;
use crate::world::race;

over_every_wire! {
    row_0_17_a_result_or_an_error_and_never_both,
    row_0_18_a_task_that_runs_is_not_ready,
    row_0_19_a_collected_task_is_not_found_again,
    row_0_20_a_result_is_cut_from_4004_characters_on,
    row_g_7_what_a_failed_task_had_said_is_kept,
    row_g_8_a_long_result_is_read_in_pages_after_collect_too,
    row_g_9_of_collects_at_the_same_instant_one_wins,
    row_g_9_a_retry_with_the_same_key_gets_the_same_body,
    row_g_29_a_summary_is_shown_beside_the_result,
}

async fn row_0_17_a_result_or_an_error_and_never_both(office: Office) {
    let done = office.completed("The result.").await;
    let answer = office.collect(&done).await;
    assert_has(
        &answer,
        json!({"task_id": "t_01", "agent": "writer", "status": "completed", "result": "The result.", "turns_used": 0}),
    );
    assert_lacks(&answer, &["error", "failure", "partial_result", "truncated", "summary", "phase"]);
    let failed = office.failed(None).await;
    let answer = office.collect(&failed).await;
    assert_has(
        &answer,
        json!({"task_id": "t_02", "agent": "writer", "status": "failed", "turns_used": 0, "failure": "max_turns",
            "error": "Max turns exceeded without producing a final response"}),
    );
    assert_lacks(&answer, &["result", "partial_result"]);
}

async fn row_0_18_a_task_that_runs_is_not_ready(office: Office) {
    office.spawn("x").await;
    for action in ["collect", "read"] {
        let call = json!({"action": action, "task_id": "t_01"});
        office.refused(call.clone(), ErrorCode::TaskNotReady).await;
    }
    let claim = office.claim().await;
    office.refused(json!({"action": "collect", "task_id": "t_01"}), ErrorCode::TaskNotReady).await;
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    office.collect("t_01").await;
}

async fn row_0_19_a_collected_task_is_not_found_again(office: Office) {
    let task = office.completed("done").await;
    office.collect(&task).await;
    for action in ["status", "collect", "cancel"] {
        office.refused(json!({"action": action, "task_id": task}), ErrorCode::TaskNotFound).await;
    }
    office.refused(json!({"action": "wait", "task_ids": [task]}), ErrorCode::TaskNotFound).await;
}

async fn row_0_20_a_result_is_cut_from_4004_characters_on(office: Office) {
    let notice = "\n[truncated — full response exceeded 1000 token limit]";
    for letter in ["x", "é", "\u{1f980}"] {
        let whole = letter.repeat(4_003);
        let task = office.completed(&whole).await;
        let answer = office.collect(&task).await;
        assert_eq!(answer["result"], whole);
        assert_lacks(&answer, &["truncated", "result_chars"]);
        let task = office.completed(&letter.repeat(4_004)).await;
        let answer = office.collect(&task).await;
        assert_has(&answer, json!({"status": "completed", "truncated": true, "result_chars": 4_004}));
        assert_eq!(answer["result"], letter.repeat(4_000) + notice);
    }
}

async fn row_g_7_what_a_failed_task_had_said_is_kept(office: Office) {
    let task = office.failed(Some(&"é".repeat(5_000))).await;
    let answer = office.collect(&task).await;
    assert_has(&answer, json!({"status": "failed", "truncated": true, "result_chars": 5_000}));
    assert!(answer["partial_result"].as_str().unwrap().starts_with("éé"));
    assert_lacks(&answer, &["result"]);
    let page = office.call(json!({"action": "read", "task_id": task, "offset": 4_999})).await;
    assert_has(&page, json!({"text": "é", "next_offset": null, "result_chars": 5_000}));
}

async fn row_g_8_a_long_result_is_read_in_pages_after_collect_too(office: Office) {
    let whole: String = "aé\u{1f980}d".chars().cycle().take(45_000).collect();
    let task = office.completed(&whole).await;
    for _ in 0..2 {
        let (mut offset, mut text) = (json!(0), String::new());
        while !offset.is_null() {
            let page = office
                .call(json!({"action": "read", "task_id": task, "offset": offset, "limit": 1_000_000}))
                .await;
            assert_has(&page, json!({"task_id": task, "offset": offset, "result_chars": 45_000}));
            assert!(page["text"].as_str().unwrap().chars().count() <= 20_000);
            text.push_str(page["text"].as_str().unwrap());
            offset = page["next_offset"].clone();
        }
        assert_eq!(text, whole);
        let plain = office.call(json!({"action": "read", "task_id": task})).await;
        assert_has(&plain, json!({"offset": 0, "next_offset": 4_000}));
        let beyond = office.call(json!({"action": "read", "task_id": task, "offset": i64::MAX})).await;
        assert_has(&beyond, json!({"text": "", "next_offset": null}));
        // Once before it was collected, and once after.
        office.raw(SESSION, "subagent", json!({"action": "collect", "task_id": task})).await;
    }
}

async fn row_g_9_of_collects_at_the_same_instant_one_wins(office: Office) {
    office.completed("done").await;
    let racers = (0..8).map(|_| collect(&office, json!({"action": "collect", "task_id": "t_01"})));
    let answers = race(racers.collect()).await;
    assert_eq!(answers.iter().filter(|(status, _)| *status == 200).count(), 1);
    assert_eq!(answers.iter().filter(|(_, answer)| answer["error"] == "TASK_NOT_FOUND").count(), 7);
}

async fn row_g_9_a_retry_with_the_same_key_gets_the_same_body(office: Office) {
    let keyed = |task: &str| json!({"action": "collect", "task_id": task, "idempotency_key": "k"});
    office.spawn("x").await;
    office.refused(keyed("t_01"), ErrorCode::TaskNotReady).await;
    office.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    let first = office.call(keyed("t_01")).await;
    assert_eq!(office.call(keyed("t_01")).await, first);
    assert_eq!(first["result"], "done");
    office.refused(json!({"action": "collect", "task_id": "t_01"}), ErrorCode::TaskNotFound).await;
    office.completed("another").await;
    office.refused(keyed("t_02"), ErrorCode::IdempotencyConflict).await;
}

async fn row_g_29_a_summary_is_shown_beside_the_result(office: Office) {
    office.spawn("x").await;
    let claim = office.claim().await;
    claim.lease.complete("At length.".to_owned(), Some("In short.".to_owned())).write().await.unwrap();
    assert_lacks(&office.status("t_01").await, &["summary", "result"]);
    assert_has(&office.collect("t_01").await, json!({"result": "At length.", "summary": "In short."}));
}

fn collect(office: &Office, arguments: Value) -> impl Future<Output = (u16, Value)> + Send + use<> {
    let wire = office.wire.clone();
    let call = adjutant_server::ToolCall {
        tool: "subagent".to_owned(),
        arguments,
        idempotency_key: None,
        traceparent: None,
    };
    async move { wire(SESSION.to_owned(), call).await }
}
