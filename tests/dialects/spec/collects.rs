//! collect and read.

use adjutant_agent::ErrorCode;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use crate::dialects::spec::over_every_wire;
use crate::support::orchestrator::{Orchestrator, SESSION, assert_has, assert_lacks};
use crate::support::world::race;

over_every_wire! {
    row_0_17_a_result_or_an_error_and_never_both,
    row_0_18_a_task_that_runs_is_not_ready,
    row_0_19_a_collected_task_is_not_found_again,
    row_0_20_a_result_is_cut_from_4004_characters_on,
    row_g_7_a_failed_task_keeps_its_text,
    row_g_8_a_long_result_is_read_in_pages_after_collect_too,
    row_g_9_of_collects_at_the_same_instant_one_wins,
    row_g_9_a_retry_with_the_same_key_gets_the_same_body,
    row_g_29_a_summary_is_shown_beside_the_result,
}

async fn row_0_17_a_result_or_an_error_and_never_both(orchestrator: Orchestrator) {
    let done = orchestrator.completed("The result.").await;
    let answer = orchestrator.collect(&done).await;
    assert_has(
        &answer,
        json!({"task_id": "t_01", "agent": "writer", "status": "completed", "result": "The result.", "turns_used": 0}),
    );
    assert_lacks(&answer, &["error", "failure", "partial_result", "truncated", "summary", "phase"]);
    let failed = orchestrator.failed(None).await;
    let answer = orchestrator.collect(&failed).await;
    assert_has(
        &answer,
        json!({"task_id": "t_02", "agent": "writer", "status": "failed", "turns_used": 0, "failure": "max_turns",
            "error": "Max turns exceeded without producing a final response"}),
    );
    assert_lacks(&answer, &["result", "partial_result"]);
}

async fn row_0_18_a_task_that_runs_is_not_ready(orchestrator: Orchestrator) {
    orchestrator.spawn("x").await;
    for action in ["collect", "read"] {
        let call = json!({"action": action, "task_id": "t_01"});
        orchestrator.refused(call.clone(), ErrorCode::TaskNotReady).await;
    }
    let claim = orchestrator.claim().await;
    orchestrator
        .refused(json!({"action": "collect", "task_id": "t_01"}), ErrorCode::TaskNotReady)
        .await;
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    orchestrator.collect("t_01").await;
}

async fn row_0_19_a_collected_task_is_not_found_again(orchestrator: Orchestrator) {
    let task = orchestrator.completed("done").await;
    let before = Utc::now();
    orchestrator.collect(&task).await;
    for arguments in [
        json!({"action": "collect", "task_id": task}),
        json!({"action": "collect", "task_id": task, "idempotency_key": "another"}),
        json!({"action": "status", "task_id": task}),
        json!({"action": "cancel", "task_id": task}),
        json!({"action": "raise", "task_id": task, "max_cost_usd": 1}),
        json!({"action": "wait", "task_ids": [task]}),
    ] {
        let message = orchestrator.refused(arguments, ErrorCode::TaskNotFound).await;
        let at = message.strip_prefix("Task t_01 was already collected at ");
        let at = at.and_then(|rest| rest.strip_suffix("; use read to see its result again"));
        let at: DateTime<Utc> = at.expect(&message).parse().expect(&message);
        assert!((at - before).abs() < TimeDelta::minutes(1), "{message}");
    }
    let read = orchestrator.call(json!({"action": "read", "task_id": task})).await;
    assert_eq!(read["text"], "done");
    let unknown = json!({"action": "collect", "task_id": "t_99"});
    let message = orchestrator.refused(unknown, ErrorCode::TaskNotFound).await;
    assert_eq!(message, "Task not found: t_99");
}

async fn row_0_20_a_result_is_cut_from_4004_characters_on(orchestrator: Orchestrator) {
    let notice = "\n[truncated — full response exceeded 1000 token limit]";
    for letter in ["x", "é", "\u{1f980}"] {
        let whole = letter.repeat(4_003);
        let task = orchestrator.completed(&whole).await;
        let answer = orchestrator.collect(&task).await;
        assert_eq!(answer["result"], whole);
        assert_lacks(&answer, &["truncated", "result_chars"]);
        let task = orchestrator.completed(&letter.repeat(4_004)).await;
        let answer = orchestrator.collect(&task).await;
        assert_has(
            &answer,
            json!({"status": "completed", "truncated": true, "result_chars": 4_004}),
        );
        assert_eq!(answer["result"], letter.repeat(4_000) + notice);
    }
}

async fn row_g_7_a_failed_task_keeps_its_text(orchestrator: Orchestrator) {
    let task = orchestrator.failed(Some(&"é".repeat(5_000))).await;
    let answer = orchestrator.collect(&task).await;
    assert_has(&answer, json!({"status": "failed", "truncated": true, "result_chars": 5_000}));
    assert!(answer["partial_result"].as_str().unwrap().starts_with("éé"));
    assert_lacks(&answer, &["result"]);
    let page = orchestrator.call(json!({"action": "read", "task_id": task, "offset": 4_999})).await;
    assert_has(&page, json!({"text": "é", "next_offset": null, "result_chars": 5_000}));
}

async fn row_g_8_a_long_result_is_read_in_pages_after_collect_too(orchestrator: Orchestrator) {
    let whole: String = "aé\u{1f980}d".chars().cycle().take(45_000).collect();
    let task = orchestrator.completed(&whole).await;
    for _ in 0..2 {
        let (mut offset, mut text) = (json!(0), String::new());
        while !offset.is_null() {
            let page = orchestrator
                .call(json!({"action": "read", "task_id": task, "offset": offset, "limit": 1_000_000}))
                .await;
            assert_has(&page, json!({"task_id": task, "offset": offset, "result_chars": 45_000}));
            assert!(page["text"].as_str().unwrap().chars().count() <= 20_000);
            text.push_str(page["text"].as_str().unwrap());
            offset = page["next_offset"].clone();
        }
        assert_eq!(text, whole);
        let plain = orchestrator.call(json!({"action": "read", "task_id": task})).await;
        assert_has(&plain, json!({"offset": 0, "next_offset": 4_000}));
        let beyond =
            orchestrator.call(json!({"action": "read", "task_id": task, "offset": i64::MAX})).await;
        assert_has(&beyond, json!({"text": "", "next_offset": null}));
        // Once before it was collected, and once after.
        orchestrator.raw(SESSION, "subagent", json!({"action": "collect", "task_id": task})).await;
    }
}

async fn row_g_9_of_collects_at_the_same_instant_one_wins(orchestrator: Orchestrator) {
    orchestrator.completed("done").await;
    let racers =
        (0..8).map(|_| collect(&orchestrator, json!({"action": "collect", "task_id": "t_01"})));
    let answers = race(racers.collect()).await;
    assert_eq!(answers.iter().filter(|(status, _)| *status == 200).count(), 1);
    assert_eq!(answers.iter().filter(|(_, answer)| answer["error"] == "TASK_NOT_FOUND").count(), 7);
}

async fn row_g_9_a_retry_with_the_same_key_gets_the_same_body(orchestrator: Orchestrator) {
    let keyed = |task: &str| json!({"action": "collect", "task_id": task, "idempotency_key": "k"});
    orchestrator.spawn("x").await;
    orchestrator.refused(keyed("t_01"), ErrorCode::TaskNotReady).await;
    orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    let first = orchestrator.call(keyed("t_01")).await;
    assert_eq!(orchestrator.call(keyed("t_01")).await, first);
    assert_eq!(first["result"], "done");
    orchestrator
        .refused(json!({"action": "collect", "task_id": "t_01"}), ErrorCode::TaskNotFound)
        .await;
    orchestrator.completed("another").await;
    orchestrator.refused(keyed("t_02"), ErrorCode::IdempotencyConflict).await;
}

async fn row_g_29_a_summary_is_shown_beside_the_result(orchestrator: Orchestrator) {
    orchestrator.spawn("x").await;
    let claim = orchestrator.claim().await;
    claim
        .lease
        .complete("At length.".to_owned(), Some("In short.".to_owned()))
        .write()
        .await
        .unwrap();
    assert_lacks(&orchestrator.status("t_01").await, &["summary", "result"]);
    assert_has(
        &orchestrator.collect("t_01").await,
        json!({"result": "At length.", "summary": "In short."}),
    );
}

fn collect(
    orchestrator: &Orchestrator,
    arguments: Value,
) -> impl Future<Output = (u16, Value)> + Send + use<> {
    let client = orchestrator.client.clone();
    async move {
        let reply = client.call("subagent", arguments).await;
        (reply.status, reply.value)
    }
}
