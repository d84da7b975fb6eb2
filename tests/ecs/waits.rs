//! `subagent_wait` and its notifications.

use adjutant_agent::FailureKind;
use serde_json::{Value, json};

use super::place::Place;
use crate::world::{race, until};

/// Until a call that waits has looked, and sleeps.
async fn until_it_waits(place: &Place) {
    until("somebody waits", async || {
        let query = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and query like '%from wake_1(%'";
        place.world.count(query).await > 0
    })
    .await;
}

fn lines(answer: &Value) -> Vec<&str> {
    let text = answer.as_str().unwrap();
    let rest = text.strip_prefix("Background subagent updates:\n").unwrap_or_else(|| panic!("{text}"));
    rest.lines().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_21_a_wait_sleeps_until_a_session_has_ended() {
    for arguments in [json!({}), json!({"session_ids": ["t_01"], "timeout": 30})] {
        let place = Place::new().await;
        let session = place.launch("writer").await;
        place.launch("writer").await;
        let waiting = place.calling("subagent_wait", arguments);
        until_it_waits(&place).await;
        assert!(!waiting.is_finished());
        place.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
        let told = waiting.await.unwrap();
        assert_eq!(lines(&told).len(), 1);
        assert!(told.as_str().unwrap().contains(&session), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_2_22_to_2_24_news_are_told_once_in_one_message_and_cancelled_ones_leave_none() {
    let place = Place::new().await;
    let with = place.completed("Long.", Some("Short.")).await;
    let failed = place.failed(FailureKind::Model, "Model API error: 400").await;
    let timed_out = place.failed(FailureKind::Timeout, "It ran for longer").await;
    let cancelled = place.launch("writer").await;
    place.call("subagent_cancel", json!({"session_id": cancelled})).await;
    let told = place.call("subagent_wait", json!({})).await;
    assert_eq!(
        lines(&told),
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
    let again = place.call("subagent_wait", json!({})).await;
    assert!(again.as_str().unwrap().starts_with("There is nothing to wait for"), "{again}");
    let named = place.call("subagent_wait", json!({"session_ids": [with, cancelled]})).await;
    assert_eq!(named, json!(format!("There is no news: {with} succeeded, {cancelled} cancelled.")));
    let unread = place.world.count("select count(*) from notification where read_at is null").await;
    assert_eq!(unread, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_23_only_what_is_in_the_scope_of_a_wait_is_told_and_read() {
    let place = Place::new().await;
    let (first, second) = (place.completed("1", None).await, place.completed("2", None).await);
    let told = place.call("subagent_wait", json!({"session_ids": [second]})).await;
    assert!(lines(&told).len() == 1 && told.as_str().unwrap().contains(&second), "{told}");
    let rest = place.call("subagent_wait", json!({})).await;
    assert!(lines(&rest).len() == 1 && rest.as_str().unwrap().contains(&first), "{rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_23_of_many_that_wait_one_is_told() {
    let place = Place::new().await;
    for _ in 0..10 {
        place.completed("done", None).await;
    }
    place.launch("writer").await;
    let racers = (0..5).map(|_| place.calling("subagent_wait", json!({"timeout": 0}))).collect();
    let mut told: Vec<String> = Vec::new();
    for answer in race(racers).await {
        let answer = answer.unwrap();
        let text = answer.as_str().unwrap();
        told.extend(text.lines().filter(|line| line.starts_with("- ")).map(|line| line[2..6].to_owned()));
    }
    told.sort();
    assert_eq!(told, (1..=10).map(|number| format!("t_{number:02}")).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_12_a_session_that_is_cancelled_wakes_who_waits_for_it() {
    for named in [false, true] {
        let place = Place::new().await;
        let session = place.launch("writer").await;
        place.launch("writer").await;
        let arguments = if named { json!({"session_ids": [session]}) } else { json!({}) };
        let waiting = place.calling("subagent_wait", arguments);
        until_it_waits(&place).await;
        place.call("subagent_cancel", json!({"session_id": session})).await;
        let told = waiting.await.unwrap();
        assert_eq!(
            lines(&told),
            [format!("- {session} cancelled. Call subagent_result(session_id=\"{session}\") for details.")]
        );
        let unread = place.world.count("select count(*) from notification where read_at is null").await;
        assert_eq!(unread, 0, "it leaves nothing unread");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_26_a_wait_that_takes_too_long_says_so_and_changes_nothing() {
    let place = Place::with("[dialects]\nlongest_wait_s = 0.3\n").await;
    let session = place.launch("writer").await;
    let said = place.call("subagent_wait", json!({"timeout": 0.05})).await;
    assert_eq!(said, json!("Error: subagent_wait_timeout: Subagent wait timeout after 0.05s"));
    // A call may take 45 seconds, here 0.3: who would wait for longer calls again.
    for arguments in [json!({}), json!({"timeout": 60.0}), json!({"session_ids": [session]})] {
        let said = place.call("subagent_wait", arguments).await;
        assert_eq!(said, json!("Still under way: t_01. Call subagent_wait again."));
    }
    assert_eq!(place.status(&session).await["lifecycle_status"], "queued");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_13_an_old_result_never_answers_a_new_wait() {
    let place = Place::new().await;
    let old = place.completed("old", None).await;
    place.call("subagent_wait", json!({})).await;
    let new = place.launch("writer").await;
    let said = place.call("subagent_wait", json!({"session_ids": [old, new], "timeout": 0})).await;
    assert_eq!(said, json!("Error: subagent_wait_timeout: Subagent wait timeout after 0s"));
    place.claim().await.lease.complete("new".to_owned(), None).write().await.unwrap();
    let told = place.call("subagent_wait", json!({"session_ids": [old, new]})).await;
    assert!(lines(&told).len() == 1 && told.as_str().unwrap().contains(&new), "{told}");
}
