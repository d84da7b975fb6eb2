//! wait, with ids and without.

use adjutant_agent::ErrorCode;
use serde_json::{Value, json};

use crate::dialects::spec::over_every_wire;
use crate::support::orchestrator::{Orchestrator, assert_has, assert_lacks, ids};
use crate::support::world::race;

over_every_wire! {
    row_g_12_a_cancelled_task_wakes_and_leaves_no_notification,
    row_g_13_with_ids_ended_tasks_are_returned_at_once,
    row_g_13_with_ids_unknown_and_collected_ones_are_not_found,
    row_g_13_without_ids_returned_tasks_are_marked_read,
    row_g_13_concurrent_waits_never_get_the_same_task,
    row_g_13_all_waits_for_every_one,
    row_g_13_it_wakes_when_a_task_ends,
    row_g_wait_nothing_active_and_nothing_unread_returns_at_once,
    row_g_wait_a_collected_task_is_not_unread,
    row_g_wait_at_most_a_hundred_unread_tasks_are_returned,
    row_h_why_a_status_and_a_wait_that_times_out_say_it,
}

/// A wait that runs concurrently with the test.
fn waiting(orchestrator: &Orchestrator, arguments: Value) -> tokio::task::JoinHandle<Value> {
    let client = orchestrator.client.clone();
    tokio::spawn(async move {
        let reply = client.call("subagent", arguments).await;
        let (status, answer) = (reply.status, reply.value);
        assert_eq!(status, 200, "{answer}");
        answer
    })
}

async fn row_g_12_a_cancelled_task_wakes_and_leaves_no_notification(orchestrator: Orchestrator) {
    orchestrator.spawn("x").await;
    orchestrator.spawn("y").await;
    for arguments in [json!({"action": "wait"}), json!({"action": "wait", "task_ids": ["t_01"]})] {
        let task = arguments["task_ids"][0].as_str().unwrap_or("t_02").to_owned();
        let start = async || waiting(&orchestrator, arguments);
        let waiter = orchestrator.world.until_polling(1, start).await;
        orchestrator.call(json!({"action": "cancel", "task_id": task})).await;
        let answer = waiter.await.unwrap();
        assert_eq!((ids(&answer), &answer["timed_out"]), (vec![task.as_str()], &json!(false)));
        assert_has(&answer["tasks"][0], json!({"status": "failed", "error": "Task cancelled"}));
    }
    assert_eq!(orchestrator.wait(json!({})).await, json!({"tasks": [], "timed_out": false}));
}

async fn row_g_13_with_ids_ended_tasks_are_returned_at_once(orchestrator: Orchestrator) {
    orchestrator.completed("done").await;
    orchestrator.failed(None).await;
    orchestrator.spawn("x").await;
    let any = json!({"task_ids": ["t_03", "t_02", "t_01", "t_01"]});
    for _ in 0..2 {
        let answer = orchestrator.wait(any.clone()).await;
        assert_eq!(ids(&answer), ["t_01", "t_02"], "with ids nothing becomes read");
        assert_has(
            &answer["tasks"][0],
            json!({"status": "completed", "agent": "writer", "turns_used": 0}),
        );
        assert_lacks(&answer["tasks"][0], &["result"]);
    }
    let all = json!({"task_ids": ["t_01", "t_03"], "mode": "all", "timeout_s": 0});
    let answer = orchestrator.wait(all).await;
    assert_eq!((ids(&answer), &answer["timed_out"]), (vec!["t_01"], &json!(true)));
    let none = orchestrator.wait(json!({"task_ids": ["t_03"], "timeout_s": 0})).await;
    assert_has(&none, json!({"tasks": [], "timed_out": true}));
    assert_eq!(
        ids(&orchestrator.wait(json!({})).await),
        ["t_01", "t_02"],
        "they were still unread"
    );
}

async fn row_g_13_with_ids_unknown_and_collected_ones_are_not_found(orchestrator: Orchestrator) {
    orchestrator.completed("done").await;
    let ids = |ids: &[&str]| json!({"action": "wait", "task_ids": ids});
    orchestrator.refused(ids(&["t_01", "t_02"]), ErrorCode::TaskNotFound).await;
    orchestrator.collect("t_01").await;
    orchestrator.refused(ids(&["t_01"]), ErrorCode::TaskNotFound).await;
}

async fn row_g_13_without_ids_returned_tasks_are_marked_read(orchestrator: Orchestrator) {
    orchestrator.completed("done").await;
    orchestrator.spawn("x").await;
    assert_eq!(ids(&orchestrator.wait(json!({})).await), ["t_01"]);
    let again = orchestrator.wait(json!({"timeout_s": 0})).await;
    assert_has(&again, json!({"tasks": [], "timed_out": true}));
    orchestrator.status("t_01").await;
    orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(ids(&orchestrator.wait(json!({})).await), ["t_02"]);
}

async fn row_g_13_concurrent_waits_never_get_the_same_task(orchestrator: Orchestrator) {
    for _ in 0..20 {
        orchestrator.completed("done").await;
    }
    orchestrator.spawn("x").await;
    let racers = (0..6).map(|_| waiting(&orchestrator, json!({"action": "wait", "timeout_s": 0})));
    let answers = race(racers.collect()).await;
    let mut notified: Vec<String> = Vec::new();
    for answer in &answers {
        notified.extend(ids(answer.as_ref().unwrap()).into_iter().map(str::to_owned));
    }
    notified.sort_unstable();
    let expected: Vec<String> = (1..=20).map(|number| format!("t_{number:02}")).collect();
    assert_eq!(notified, expected);
}

async fn row_g_13_all_waits_for_every_one(orchestrator: Orchestrator) {
    for _ in 0..3 {
        orchestrator.spawn("x").await;
    }
    let start = async || {
        let named = json!({"action": "wait", "mode": "all", "task_ids": ["t_01", "t_02"]});
        let unnamed = json!({"action": "wait", "mode": "all"});
        (waiting(&orchestrator, named), waiting(&orchestrator, unnamed))
    };
    let (named, unnamed) = orchestrator.world.until_polling(2, start).await;
    orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(ids(&orchestrator.wait(json!({"task_ids": ["t_01", "t_02"]})).await), ["t_01"]);
    assert!(!named.is_finished() && !unnamed.is_finished());
    orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(ids(&named.await.unwrap()), ["t_01", "t_02"]);
    assert!(!unnamed.is_finished());
    orchestrator.call(json!({"action": "cancel", "task_id": "t_03"})).await;
    let answer = unnamed.await.unwrap();
    assert_eq!((ids(&answer), &answer["timed_out"]), (vec!["t_01", "t_02", "t_03"], &json!(false)));
}

async fn row_g_13_it_wakes_when_a_task_ends(orchestrator: Orchestrator) {
    orchestrator.spawn("x").await;
    let start = async || waiting(&orchestrator, json!({"action": "wait"}));
    let waiter = orchestrator.world.until_polling(1, start).await;
    assert!(!waiter.is_finished());
    orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    let answer = waiter.await.unwrap();
    assert_eq!((ids(&answer), &answer["timed_out"]), (vec!["t_01"], &json!(false)));
}

async fn row_g_wait_nothing_active_and_nothing_unread_returns_at_once(orchestrator: Orchestrator) {
    for mode in ["any", "all"] {
        let answer = orchestrator.wait(json!({"mode": mode, "timeout_s": 45})).await;
        assert_eq!(answer, json!({"tasks": [], "timed_out": false}));
    }
}

async fn row_g_wait_a_collected_task_is_not_unread(orchestrator: Orchestrator) {
    let task = orchestrator.completed("done").await;
    orchestrator.collect(&task).await;
    assert_eq!(orchestrator.wait(json!({})).await, json!({"tasks": [], "timed_out": false}));
}

async fn row_g_wait_at_most_a_hundred_unread_tasks_are_returned(orchestrator: Orchestrator) {
    orchestrator.world.spawn(orchestrator.session_id().await, 101).await;
    orchestrator.world.drain(&orchestrator.worker).await;
    assert_eq!(ids(&orchestrator.wait(json!({})).await).len(), 100);
    assert_eq!(ids(&orchestrator.wait(json!({})).await).len(), 1);
    assert_eq!(ids(&orchestrator.wait(json!({})).await).len(), 0);
}

async fn row_h_why_a_status_and_a_wait_that_times_out_say_it(orchestrator: Orchestrator) {
    orchestrator.spawn("x").await;
    orchestrator.world.store.set_cap(0).await.unwrap();
    orchestrator.world.worker().await;
    let why = json!({"code": "cap", "text": "The cap is 0, so no task starts"});
    assert_eq!(orchestrator.status("t_01").await["why"], why);
    for arguments in [json!({"task_ids": ["t_01"], "timeout_s": 0}), json!({"timeout_s": 0})] {
        let answer = orchestrator.wait(arguments.clone()).await;
        // Without ids, the first check notes which tasks are active.
        let task = &answer["unfinished"][0];
        assert_has(task, json!({"task_id": "t_01", "phase": "queued", "why": why}));
    }
    orchestrator.world.store.set_cap(5).await.unwrap();
    orchestrator.claim().await.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_lacks(&orchestrator.status("t_01").await, &["why"]);
    assert_lacks(&orchestrator.wait(json!({"task_ids": ["t_01"]})).await, &["unfinished"]);
}
