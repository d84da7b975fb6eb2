//! Row 3.18: quotas of executions, time and tokens.

use adjutant_agent::TurnKind;
use adjutant_server::Dialect;
use serde_json::{Value, json};

use crate::dialects::over_both_wires;
use crate::dialects::xzatoma::{arguments, turn};
use crate::support::blocking_orchestrator::BlockingOrchestrator;
use crate::support::tool_client::Transport;

/// The answer of a call over a quota, without the task.
fn over(answer: &Value, sentence: &str) {
    assert_eq!(answer["success"], false, "{answer}");
    assert_eq!(answer["error"], format!("Resource quota exceeded: {sentence}"));
    assert_eq!(answer["output"], "");
}

async fn row_3_18_executions_and_time_are_checked_before_a_subagent_starts(transport: Transport) {
    let orchestrator = BlockingOrchestrator::with(
        Dialect::Xzatoma,
        transport,
        "[dialects.xzatoma]\nmax_executions = 2\n",
    )
    .await;
    for _ in 0..2 {
        assert_eq!(orchestrator.call_with_result(arguments(), "done").await["success"], true);
    }
    over(&orchestrator.call(arguments()).await, "2 executions used, and there are 2");
    assert_eq!(orchestrator.tasks().await, 2);
    assert!(orchestrator.server.stderr().contains("\"subagent.event\":\"quota_exceeded\""));
    orchestrator.server.post("/v1/sessions", r#"{"session_id": "another"}"#).await.ok(201);
    let orchestrator =
        BlockingOrchestrator { client: orchestrator.client.in_session("another"), ..orchestrator };
    assert_eq!(
        orchestrator.call_with_result(arguments(), "done").await["success"],
        true,
        "another session has a quota of its own"
    );

    let orchestrator = BlockingOrchestrator::with(
        Dialect::Xzatoma,
        transport,
        "[dialects.xzatoma]\nmax_total_time = 60\n",
    )
    .await;
    assert_eq!(orchestrator.call_with_result(arguments(), "done").await["success"], true);
    sqlx::query("alter table task disable trigger user")
        .execute(&orchestrator.world.sql)
        .await
        .unwrap();
    sqlx::query("update task set running_ms = 59900")
        .execute(&orchestrator.world.sql)
        .await
        .unwrap();
    assert_eq!(orchestrator.call_with_result(arguments(), "done").await["success"], true);
    sqlx::query("update task set running_ms = 30000")
        .execute(&orchestrator.world.sql)
        .await
        .unwrap();
    over(&orchestrator.call(arguments()).await, "60.0 s of execution used, and there are 60");
}

async fn row_3_18_concurrent_calls_never_exceed_the_quota_and_a_key_counts_once(
    transport: Transport,
) {
    let more = "[dialects]\nlongest_wait_s = 0.2\n[dialects.xzatoma]\nmax_executions = 3\n";
    let orchestrator = BlockingOrchestrator::with(Dialect::Xzatoma, transport, more).await;
    let keyed = orchestrator.client.with_key("k");
    assert_eq!(keyed.delegate(arguments()).await["metadata"]["task_id"], "t_01");
    let calls: Vec<_> = (0..6).map(|_| orchestrator.start_call(arguments())).collect();
    let mut begun = 0;
    for call in calls {
        begun += i32::from(call.await.unwrap()["success"] == true);
    }
    assert_eq!((begun, orchestrator.tasks().await), (2, 3));
    assert_eq!(
        keyed.delegate(arguments()).await["metadata"]["task_id"],
        "t_01",
        "it is one of the three"
    );
}

async fn row_3_18_tokens_are_checked_after_a_subagent_and_by_g_33_before_the_next(
    transport: Transport,
) {
    let orchestrator = BlockingOrchestrator::with(
        Dialect::Xzatoma,
        transport,
        "[dialects.xzatoma]\nmax_total_tokens = 24\n",
    )
    .await;
    let used = async |turns: i32| {
        let begun = orchestrator.start_call(arguments());
        let mut claim = orchestrator.claim().await;
        for _ in 0..turns {
            claim.lease.checkpoint(&turn(TurnKind::Turn, "x")).await.unwrap();
        }
        claim.lease.complete("x".to_owned(), None).write().await.unwrap();
        begun.await.unwrap()
    };
    assert_eq!(used(2).await["success"], true, "24 are all that there are");
    over(&used(1).await, "36 tokens used, and there are 24");
    over(&orchestrator.call(arguments()).await, "36 tokens used, and there are 24");
    assert_eq!(
        orchestrator.call(json!({"task_id": "t_01"})).await["success"],
        true,
        "what was fine stays so"
    );
    over(&orchestrator.call(json!({"task_id": "t_02"})).await, "36 tokens used, and there are 24");
    assert_eq!(orchestrator.tasks().await, 2);
}

over_both_wires!(
    row_3_18_executions_and_time_are_checked_before_a_subagent_starts,
    row_3_18_concurrent_calls_never_exceed_the_quota_and_a_key_counts_once,
    row_3_18_tokens_are_checked_after_a_subagent_and_by_g_33_before_the_next,
);
