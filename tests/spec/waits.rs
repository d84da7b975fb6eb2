//! wait: with ids and without, and who is told.

use adjutant_agent::ErrorCode;
use adjutant_server::ToolCall;
use serde_json::{Value, json};

use super::office::{Office, SESSION, assert_has, assert_lacks, ids};
use super::over_every_wire;
use crate::world::{race, until};

over_every_wire! {
    row_g_12_a_cancelled_task_wakes_and_leaves_no_notification,
    row_g_13_with_ids_it_returns_at_once_what_has_ended,
    row_g_13_with_ids_unknown_and_collected_ones_are_not_found,
    row_g_13_without_ids_what_is_returned_becomes_read,
    row_g_13_racers_are_never_told_the_same,
    row_g_13_all_waits_for_every_one,
    row_g_13_it_wakes_when_a_task_ends,
    row_g_wait_nothing_active_and_nothing_unread_returns_at_once,
    row_g_wait_a_collected_task_is_no_news,
    row_g_wait_news_are_told_a_hundred_at_a_time,
}

/// A wait that runs beside the test.
fn waiting(office: &Office, arguments: Value) -> tokio::task::JoinHandle<Value> {
    let wire = office.wire.clone();
    let call = ToolCall { tool: "subagent".to_owned(), arguments, idempotency_key: None, traceparent: None };
    tokio::spawn(async move {
        let (status, answer) = wire(SESSION.to_owned(), call).await;
        assert_eq!(status, 200, "{answer}");
        answer
    })
}

/// Until the waiter has looked at least once: then it has the session's name, and its first look is behind it.
async fn until_it_looks(office: &Office) {
    until("the waiter looks", async || {
        let looks = "select count(*) from pg_stat_activity where datname = current_database() and query like '%wait_1%'
            and query not like '%pg_stat_activity%' and state = 'idle'";
        office.world.count(looks).await > 0
    })
    .await;
}

async fn row_g_12_a_cancelled_task_wakes_and_leaves_no_notification(office: Office) {
    office.spawn("x").await;
    office.spawn("y").await;
    for arguments in [json!({"action": "wait"}), json!({"action": "wait", "task_ids": ["t_01"]})] {
        let task = arguments["task_ids"][0].as_str().unwrap_or("t_02").to_owned();
        let waiter = waiting(&office, arguments);
        until_it_looks(&office).await;
        office.call(json!({"action": "cancel", "task_id": task})).await;
        let answer = waiter.await.unwrap();
        assert_eq!((ids(&answer), &answer["timed_out"]), (vec![task.as_str()], &json!(false)));
        assert_has(&answer["tasks"][0], json!({"status": "failed", "error": "Task cancelled"}));
    }
    assert_eq!(office.wait(json!({})).await, json!({"tasks": [], "timed_out": false}));
}

async fn row_g_13_with_ids_it_returns_at_once_what_has_ended(office: Office) {
    office.completed("done").await;
    office.failed(None).await;
    office.spawn("x").await;
    let any = json!({"task_ids": ["t_03", "t_02", "t_01", "t_01"]});
    for _ in 0..2 {
        let answer = office.wait(any.clone()).await;
        assert_eq!(ids(&answer), ["t_01", "t_02"], "with ids nothing becomes read");
        assert_has(&answer["tasks"][0], json!({"status": "completed", "agent": "writer", "turns_used": 0}));
        assert_lacks(&answer["tasks"][0], &["result"]);
    }
    let all = json!({"task_ids": ["t_01", "t_03"], "mode": "all", "timeout_s": 0});
    let answer = office.wait(all).await;
    assert_eq!((ids(&answer), &answer["timed_out"]), (vec!["t_01"], &json!(true)));
    let none = office.wait(json!({"task_ids": ["t_03"], "timeout_s": 0})).await;
    assert_eq!(none, json!({"tasks": [], "timed_out": true}));
    assert_eq!(ids(&office.wait(json!({})).await), ["t_01", "t_02"], "they were still unread");
}

async fn row_g_13_with_ids_unknown_and_collected_ones_are_not_found(office: Office) {
    office.completed("done").await;
    let ids = |ids: &[&str]| json!({"action": "wait", "task_ids": ids});
    office.refused(ids(&["t_01", "t_02"]), ErrorCode::TaskNotFound).await;
    office.collect("t_01").await;
    office.refused(ids(&["t_01"]), ErrorCode::TaskNotFound).await;
}

async fn row_g_13_without_ids_what_is_returned_becomes_read(office: Office) {
    office.completed("done").await;
    office.spawn("x").await;
    assert_eq!(ids(&office.wait(json!({})).await), ["t_01"]);
    let again = office.wait(json!({"timeout_s": 0})).await;
    assert_eq!(again, json!({"tasks": [], "timed_out": true}), "an old result answers no new wait");
    office.status("t_01").await;
    office.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(ids(&office.wait(json!({})).await), ["t_02"]);
}

async fn row_g_13_racers_are_never_told_the_same(office: Office) {
    for _ in 0..20 {
        office.completed("done").await;
    }
    office.spawn("x").await;
    let racers = (0..6).map(|_| waiting(&office, json!({"action": "wait", "timeout_s": 0})));
    let answers = race(racers.collect()).await;
    let mut told: Vec<String> = Vec::new();
    for answer in &answers {
        told.extend(ids(answer.as_ref().unwrap()).into_iter().map(str::to_owned));
    }
    told.sort_unstable();
    let expected: Vec<String> = (1..=20).map(|number| format!("t_{number:02}")).collect();
    assert_eq!(told, expected);
}

async fn row_g_13_all_waits_for_every_one(office: Office) {
    for _ in 0..3 {
        office.spawn("x").await;
    }
    let named = waiting(&office, json!({"action": "wait", "mode": "all", "task_ids": ["t_01", "t_02"]}));
    let unnamed = waiting(&office, json!({"action": "wait", "mode": "all"}));
    until_it_looks(&office).await;
    office.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(ids(&office.wait(json!({"task_ids": ["t_01", "t_02"]})).await), ["t_01"]);
    assert!(!named.is_finished() && !unnamed.is_finished());
    office.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(ids(&named.await.unwrap()), ["t_01", "t_02"]);
    assert!(!unnamed.is_finished());
    office.call(json!({"action": "cancel", "task_id": "t_03"})).await;
    let answer = unnamed.await.unwrap();
    assert_eq!((ids(&answer), &answer["timed_out"]), (vec!["t_01", "t_02", "t_03"], &json!(false)));
}

async fn row_g_13_it_wakes_when_a_task_ends(office: Office) {
    office.spawn("x").await;
    let waiter = waiting(&office, json!({"action": "wait"}));
    until_it_looks(&office).await;
    assert!(!waiter.is_finished());
    office.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    let answer = waiter.await.unwrap();
    assert_eq!((ids(&answer), &answer["timed_out"]), (vec!["t_01"], &json!(false)));
}

async fn row_g_wait_nothing_active_and_nothing_unread_returns_at_once(office: Office) {
    for mode in ["any", "all"] {
        let answer = office.wait(json!({"mode": mode, "timeout_s": 45})).await;
        assert_eq!(answer, json!({"tasks": [], "timed_out": false}));
    }
}

async fn row_g_wait_a_collected_task_is_no_news(office: Office) {
    let task = office.completed("done").await;
    office.collect(&task).await;
    assert_eq!(office.wait(json!({})).await, json!({"tasks": [], "timed_out": false}));
}

async fn row_g_wait_news_are_told_a_hundred_at_a_time(office: Office) {
    office.world.spawn(office.session_id().await, 101).await;
    office.world.drain(&office.worker).await;
    assert_eq!(ids(&office.wait(json!({})).await).len(), 100);
    assert_eq!(ids(&office.wait(json!({})).await).len(), 1);
    assert_eq!(ids(&office.wait(json!({})).await).len(), 0);
}
