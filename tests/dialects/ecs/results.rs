//! `subagent_status`, `subagent_result`, `subagent_cancel`.

use adjutant_agent::FailureKind;
use serde_json::{Value, json};

use crate::dialects::ecs::orchestrator::EcsOrchestrator;
use crate::support::world::until;

#[tokio::test(flavor = "multi_thread")]
async fn row_2_10_all_sessions_are_listed_with_the_last_changed_first() {
    let orchestrator = EcsOrchestrator::new().await;
    let all = async || orchestrator.call("subagent_status", json!({})).await;
    assert_eq!((&all().await["status"], &all().await["session_count"]), (&json!("ok"), &json!(0)));
    for _ in 0..3 {
        orchestrator.launch("writer").await;
    }
    orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    let answer = orchestrator.call("subagent_status", json!({"session_id": null})).await;
    assert_eq!(answer["session_count"], 3);
    assert_eq!(
        answer["summary_table"],
        "Session ID | Category | Status\nt_01 | writer | succeeded\nt_03 | writer | queued\nt_02 | writer | queued"
    );
    // Of two that changed at the same moment the lower number comes first.
    sqlx::query("update task set created_at = '2026-01-01' where number > 1")
        .execute(&orchestrator.world.sql)
        .await
        .unwrap();
    let table = all().await["summary_table"].as_str().unwrap().to_owned();
    assert!(table.ends_with("t_02 | writer | queued\nt_03 | writer | queued"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_2_11_to_2_13_a_result_can_be_read_repeatedly_and_has_no_times() {
    let orchestrator = EcsOrchestrator::new().await;
    let session = orchestrator.completed("Found it.", None).await;
    let first = orchestrator.result(&session).await;
    assert_eq!(first, orchestrator.result(&session).await);
    let mut fields: Vec<&String> = first.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(
        fields,
        [
            "artifact_id",
            "category",
            "error",
            "inline_content",
            "lifecycle_status",
            "read_method",
            "record_path",
            "session_id",
            "status"
        ]
    );
    assert_eq!(
        (&first["status"], &first["inline_content"], &first["error"]),
        (&json!("success"), &json!("Found it."), &Value::Null)
    );
    let collected =
        orchestrator.world.count("select count(*) from task where collected_at is not null").await;
    assert_eq!(collected, 0, "row_g_9: only our own collect takes it away");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_11_a_result_is_waited_for_until_the_end_or_the_timeout() {
    let orchestrator = EcsOrchestrator::new().await;
    let session = orchestrator.launch("writer").await;
    let early =
        orchestrator.call("subagent_result", json!({"session_id": session, "timeout": 0.05})).await;
    assert_eq!(
        (&early["status"], &early["lifecycle_status"], &early["queue_position"], &early["error"]),
        (
            &json!("error"),
            &json!("queued"),
            &json!(0),
            &json!("Timeout waiting for session result after 0.05s")
        )
    );
    let waiting = orchestrator.start_call("subagent_result", json!({"session_id": session}));
    orchestrator.claim().await.lease.complete("Late.".to_owned(), None).write().await.unwrap();
    assert_eq!(waiting.await.unwrap()["inline_content"], "Late.");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_2_14_and_2_15_a_long_result_is_named_and_its_name_lasts() {
    let orchestrator = EcsOrchestrator::new().await;
    let short = orchestrator.completed(&"é".repeat(4096), None).await;
    assert_eq!(orchestrator.result(&short).await["inline_content"].as_str().unwrap().len(), 8192);
    let long = orchestrator.completed(&format!("{}x", "é".repeat(4096)), None).await;
    let read = orchestrator.result(&long).await;
    let (id, path) = (read["artifact_id"].as_str().unwrap(), read["record_path"].as_str().unwrap());
    assert_eq!(read["inline_content"], format!("Result persisted to {path}"));
    assert_eq!(path, format!("scratchbook/records/subagent/{id}"));
    let digits = id.strip_prefix("subagent_").unwrap();
    assert!(digits.len() == 24 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    assert_ne!(orchestrator.result(&short).await["artifact_id"], id);
    // `read` of `spec` returns the full text.
    let body = json!({"action": "read", "task_id": long, "limit": 20_000}).to_string();
    let page = orchestrator.server.post("/v1/sessions/s/tools/subagent", &body).await.ok(200);
    assert_eq!(page["result_chars"], 4097);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_2_16_to_2_18_a_summary_is_read_where_there_is_one() {
    let orchestrator = EcsOrchestrator::new().await;
    let with = orchestrator.completed("Long.", Some("Short.")).await;
    let read = |session: &str, method: &str| {
        orchestrator.call("subagent_result", json!({"session_id": session, "read_method": method}))
    };
    let summary = read(&with, "summary").await;
    assert_eq!(
        (&summary["inline_content"], &summary["read_method"]),
        (&json!("Short."), &json!("summary"))
    );
    assert_eq!(read(&with, "full").await["inline_content"], "Long.");
    let without = orchestrator.completed("Plain.", None).await;
    let missing = read(&without, "summary").await;
    assert_eq!(missing["status"], "error");
    assert_eq!(
        missing["error"],
        "Summary not available for this session. Retry with read_method=\"full\"."
    );
    let wrong = read(&with, "x").await;
    assert_eq!(wrong["error"], "Invalid read_method 'x'. Expected one of: full, summary");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_12_failed_timed_out_and_cancelled_sessions_say_so() {
    let orchestrator = EcsOrchestrator::new().await;
    let failed = orchestrator.failed(FailureKind::Model, "Model API error: 400").await;
    let timed_out = orchestrator.failed(FailureKind::Timeout, "It ran for longer").await;
    let cancelled = orchestrator.launch("writer").await;
    orchestrator.call("subagent_cancel", json!({"session_id": cancelled})).await;
    for (session, word, error) in [
        (failed, "failed", "Model API error: 400"),
        (timed_out, "timed_out", "Error: Subagent timeout after 20s"),
        (cancelled, "cancelled", "cancelled"),
    ] {
        let read = orchestrator.result(&session).await;
        assert_eq!(
            (&read["status"], &read["lifecycle_status"], &read["error"], &read["artifact_id"]),
            (&json!("error"), &json!(word), &json!(error), &Value::Null)
        );
        assert_eq!(orchestrator.status(&session).await["lifecycle_status"], word);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_2_19_and_g_28_a_cancelled_session_never_runs_and_an_ended_one_stays() {
    let orchestrator = EcsOrchestrator::new().await;
    let queued = orchestrator.launch("writer").await;
    let cancelled = orchestrator.call("subagent_cancel", json!({"session_id": queued})).await;
    assert_eq!(
        cancelled,
        json!({"status": "cancelled", "session_id": queued, "lifecycle_status": "cancelled"})
    );
    assert_eq!(orchestrator.world.count("select count(*) from queue").await, 0);
    let again = orchestrator.call("subagent_cancel", json!({"session_id": queued})).await;
    assert_eq!(
        (&again["error"], &again["lifecycle_status"]),
        (&json!("Session already terminal: cancelled"), &json!("cancelled"))
    );
    let running = orchestrator.launch("writer").await;
    let claim = orchestrator.claim().await;
    orchestrator.call("subagent_cancel", json!({"session_id": running})).await;
    let late = claim.lease.complete("late".to_owned(), None).write().await;
    assert!(late.is_err(), "its worker is fenced off");
    let done = orchestrator.completed("done", None).await;
    let refused = orchestrator.call("subagent_cancel", json!({"session_id": done})).await;
    assert_eq!(refused["error"], "Session already terminal: succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_20_an_unknown_session_is_not_found() {
    let orchestrator = EcsOrchestrator::new().await;
    for id in ["t_01", "session_123", "", "é"] {
        for tool in ["subagent_status", "subagent_result", "subagent_cancel"] {
            if id.is_empty() && tool != "subagent_status" {
                continue;
            }
            let answer = orchestrator.call(tool, json!({"session_id": id})).await;
            assert_eq!(answer["error"], format!("Session not found: {id}"), "{tool}");
        }
    }
    let waited = orchestrator
        .call("subagent_wait", json!({"session_ids": ["session-a", "session-b"], "timeout": 60.0}))
        .await;
    assert_eq!(waited["error"], "Session not found: session-a");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_2_9_and_g_10_queued_sessions_stay_queued_and_those_not_to_be_resumed_fail() {
    let orchestrator = EcsOrchestrator::new().await;
    let careful = orchestrator.launch("careful").await;
    let resumed = orchestrator.launch("writer").await;
    let (first, second) = (orchestrator.claim().await, orchestrator.claim().await);
    orchestrator.world.expire(first.lease.id()).await;
    orchestrator.world.expire(second.lease.id()).await;
    let queued = orchestrator.launch("writer").await;
    let sweeper = orchestrator.world.steady_worker().await;
    until("both were swept", async || {
        sweeper.sweep(std::time::Duration::ZERO).await.unwrap();
        orchestrator.world.count("select count(*) from slot where task is not null").await == 0
    })
    .await;
    let lost = orchestrator.result(&careful).await;
    assert_eq!(
        (&lost["lifecycle_status"], &lost["error"]),
        (&json!("failed"), &json!("restored_without_live_task_handle"))
    );
    assert_eq!(
        orchestrator.status(&resumed).await["lifecycle_status"],
        "running",
        "it goes on elsewhere"
    );
    assert_eq!(orchestrator.status(&queued).await["lifecycle_status"], "queued");
    let order: Vec<String> = [orchestrator.claim().await, orchestrator.claim().await]
        .map(|c| c.assignment.number.to_string())
        .into();
    assert_eq!(order, [resumed, queued]);
}
