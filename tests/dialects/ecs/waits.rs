//! `subagent_wait` and its notifications.

use adjutant_agent::FailureKind;
use serde_json::{Value, json};

use crate::dialects::ecs::orchestrator::EcsOrchestrator;
use crate::support::world::{race, until};

/// Waits until a blocking call has polled and sleeps.
async fn until_it_waits(orchestrator: &EcsOrchestrator) {
    until("somebody waits", async || {
        let query = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and query like '%from wait_for_notifications_1(%'";
        orchestrator.world.count(query).await > 0
    })
    .await;
}

fn lines(answer: &Value) -> Vec<&str> {
    let text = answer.as_str().unwrap();
    let rest =
        text.strip_prefix("Background subagent updates:\n").unwrap_or_else(|| panic!("{text}"));
    rest.lines().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_21_a_wait_sleeps_until_a_session_has_ended() {
    for arguments in [json!({}), json!({"session_ids": ["t_01"], "timeout": 30})] {
        let orchestrator = EcsOrchestrator::new().await;
        let session = orchestrator.launch("writer").await;
        orchestrator.launch("writer").await;
        let waiting = orchestrator.start_call("subagent_wait", arguments);
        until_it_waits(&orchestrator).await;
        assert!(!waiting.is_finished());
        orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
        let notified = waiting.await.unwrap();
        assert_eq!(lines(&notified).len(), 1);
        assert!(notified.as_str().unwrap().contains(&session), "{notified}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_2_22_to_2_24_notifications_are_delivered_once_and_cancelled_sessions_have_none() {
    let orchestrator = EcsOrchestrator::new().await;
    let with = orchestrator.completed("Long.", Some("Short.")).await;
    let failed = orchestrator.failed(FailureKind::Model, "Model API error: 400").await;
    let timed_out = orchestrator.failed(FailureKind::Timeout, "It ran for longer").await;
    let cancelled = orchestrator.launch("writer").await;
    orchestrator.call("subagent_cancel", json!({"session_id": cancelled})).await;
    let notified = orchestrator.call("subagent_wait", json!({})).await;
    assert_eq!(
        lines(&notified),
        [
            format!(
                "- {with} succeeded. Call subagent_result(session_id=\"{with}\") for the full result or subagent_result(session_id=\"{with}\", read_method=\"summary\") for the cached summary."
            ),
            format!(
                "- {failed} failed: Model API error: 400. Call subagent_result(session_id=\"{failed}\") for details."
            ),
            format!(
                "- {timed_out} timed_out: Error: Subagent timeout after 20s. Call subagent_result(session_id=\"{timed_out}\") for details."
            ),
        ]
    );
    let again = orchestrator.call("subagent_wait", json!({})).await;
    assert!(again.as_str().unwrap().starts_with("There is nothing to wait for"), "{again}");
    let named = orchestrator.call("subagent_wait", json!({"session_ids": [with, cancelled]})).await;
    assert_eq!(named, json!(format!("There is no news: {with} succeeded, {cancelled} cancelled.")));
    let unread =
        orchestrator.world.count("select count(*) from notification where read_at is null").await;
    assert_eq!(unread, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_23_a_wait_returns_and_marks_only_its_scope() {
    let orchestrator = EcsOrchestrator::new().await;
    let (first, second) =
        (orchestrator.completed("1", None).await, orchestrator.completed("2", None).await);
    let notified = orchestrator.call("subagent_wait", json!({"session_ids": [second]})).await;
    assert!(
        lines(&notified).len() == 1 && notified.as_str().unwrap().contains(&second),
        "{notified}"
    );
    let rest = orchestrator.call("subagent_wait", json!({})).await;
    assert!(lines(&rest).len() == 1 && rest.as_str().unwrap().contains(&first), "{rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_23_one_of_many_waits_gets_the_notification() {
    let orchestrator = EcsOrchestrator::new().await;
    for _ in 0..10 {
        orchestrator.completed("done", None).await;
    }
    orchestrator.launch("writer").await;
    let racers =
        (0..5).map(|_| orchestrator.start_call("subagent_wait", json!({"timeout": 0}))).collect();
    let mut notified: Vec<String> = Vec::new();
    for answer in race(racers).await {
        let answer = answer.unwrap();
        let text = answer.as_str().unwrap();
        notified.extend(
            text.lines().filter(|line| line.starts_with("- ")).map(|line| line[2..6].to_owned()),
        );
    }
    notified.sort();
    assert_eq!(notified, (1..=10).map(|number| format!("t_{number:02}")).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_12_a_cancelled_session_wakes_its_waits() {
    for named in [false, true] {
        let orchestrator = EcsOrchestrator::new().await;
        let session = orchestrator.launch("writer").await;
        orchestrator.launch("writer").await;
        let arguments = if named { json!({"session_ids": [session]}) } else { json!({}) };
        let waiting = orchestrator.start_call("subagent_wait", arguments);
        until_it_waits(&orchestrator).await;
        orchestrator.call("subagent_cancel", json!({"session_id": session})).await;
        let notified = waiting.await.unwrap();
        assert_eq!(
            lines(&notified),
            [format!(
                "- {session} cancelled. Call subagent_result(session_id=\"{session}\") for details."
            )]
        );
        let unread = orchestrator
            .world
            .count("select count(*) from notification where read_at is null")
            .await;
        assert_eq!(unread, 0, "it leaves nothing unread");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_26_a_wait_that_times_out_reports_it_and_changes_nothing() {
    let orchestrator = EcsOrchestrator::with("[dialects]\nlongest_wait_s = 0.3\n").await;
    let session = orchestrator.launch("writer").await;
    let said = orchestrator.call("subagent_wait", json!({"timeout": 0.05})).await;
    assert_eq!(said, json!("Error: subagent_wait_timeout: Subagent wait timeout after 0.05s"));
    // A call may take 45 seconds, here 0.3; a longer wait is a second call.
    for arguments in [json!({}), json!({"timeout": 60.0}), json!({"session_ids": [session]})] {
        let said = orchestrator.call("subagent_wait", arguments).await;
        assert_eq!(said, json!("Still under way: t_01. Call subagent_wait again."));
    }
    assert_eq!(orchestrator.status(&session).await["lifecycle_status"], "queued");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_13_an_old_result_never_answers_a_new_wait() {
    let orchestrator = EcsOrchestrator::new().await;
    let old = orchestrator.completed("old", None).await;
    orchestrator.call("subagent_wait", json!({})).await;
    let new = orchestrator.launch("writer").await;
    let said =
        orchestrator.call("subagent_wait", json!({"session_ids": [old, new], "timeout": 0})).await;
    assert_eq!(said, json!("Error: subagent_wait_timeout: Subagent wait timeout after 0s"));
    orchestrator.claim().await.lease.complete("new".to_owned(), None).write().await.unwrap();
    let notified = orchestrator.call("subagent_wait", json!({"session_ids": [old, new]})).await;
    assert!(lines(&notified).len() == 1 && notified.as_str().unwrap().contains(&new), "{notified}");
}
