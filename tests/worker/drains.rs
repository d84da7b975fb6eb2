//! Workers that drain in the middle of a loop.

use std::time::Duration;

use adjutant_script::{Script, When, status, text, tool_call};
use serde_json::json;

use crate::support::fleet::{CLERK, Fleet, model_config};
use crate::support::worker_process::WorkerProcess;
use crate::support::world::until;

fn script() -> Script {
    let slow = Duration::from_secs(4);
    Script::new()
        .on(When::assignment("in a tool"))
        .then(text("I wait for it.").and_call("held", json!({})))
        .then(text("It came."))
        .on(When::assignment("in a model call"))
        .then(tool_call("pay", json!({"amount": 1})).delay(slow))
        .then(text("It is paid."))
        .on(When::assignment("between two tries"))
        .then([status(503).retry_after(10.0), text("At last.")])
        .on(When::assignment("behind it"))
        .then(text("My turn."))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_worker_finishes_its_call_and_another_continues_within_a_second_on_openai() {
    leaves("openai").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_worker_finishes_its_call_and_another_continues_within_a_second_on_anthropic() {
    leaves("anthropic").await;
}

async fn leaves(wire: &str) {
    let narrow = format!("{wire}_narrow");
    let fleet =
        Fleet::with(script(), |server| model_config(&narrow, wire, server, "max_concurrency = 1"))
            .await;
    let start = || WorkerProcess::start(fleet.work().args(["--lease-seconds", "30"]));
    let mut leaving = start();
    let in_tool = fleet.give(wire, CLERK, "Be in a tool.").await;
    let between = fleet.give(wire, CLERK, "Be between two tries.").await;
    until("the first two are where they should be", async || {
        fleet.tools.calls_of("held").len() == 1 && fleet.model.request_counts().failed == 1
    })
    .await;
    let in_call = fleet.give(&narrow, CLERK, "Be in a model call.").await;
    fleet.model.wait_for_requests(3).await;
    let behind = fleet.give(&narrow, CLERK, "Wait behind it.").await;
    until("all run", async || fleet.world.count("select count(task) from slot").await == 4).await;
    let _staying = start();
    leaving.signal("TERM");
    fleet.done(between).await;
    fleet.tools.let_go();
    assert_eq!(leaving.exited().await.code(), Some(0));

    for (task, result) in [
        (in_tool, "It came."),
        (in_call, "It is paid."),
        (between, "At last."),
        (behind, "My turn."),
    ] {
        let done = fleet.done(task).await;
        done.assert_completed(result);
        assert_eq!(done.attempt, 2);
    }
    for (tool, task) in [("held", in_tool), ("pay", in_call)] {
        assert_eq!(fleet.tools.calls_of(tool).len(), 1);
        let made_by: i32 = sqlx::query_scalar("select attempt from tool_result where task = $1")
            .bind(task.0)
            .fetch_one(&fleet.world.sql)
            .await
            .unwrap();
        assert_eq!(
            made_by, 1,
            "{tool}: tools of a stored answer are finished before it is handed over"
        );
    }
    let sooner: Vec<f64> = sqlx::query_scalar(
        "select extract(epoch from u.at - a.ended_at)::float8
         from turn u, attempt a
         where u.task = $1 and u.number = 1 and a.task = any($2) and a.attempt = 1",
    )
    .bind(in_call.0)
    .bind([between.0, behind.0])
    .fetch_all(&fleet.world.sql)
    .await
    .unwrap();
    assert_eq!(sooner.len(), 2);
    assert!(
        sooner.iter().all(|sooner| *sooner > 0.0),
        "who only waits is handed over at once: {sooner:?}"
    );
    let gaps: Vec<f64> = sqlx::query_scalar(
        "select extract(epoch from b.claimed_at - a.ended_at)::float8
         from attempt a join attempt b on b.task = a.task and b.attempt = a.attempt + 1",
    )
    .fetch_all(&fleet.world.sql)
    .await
    .unwrap();
    assert_eq!(gaps.len(), 4);
    assert!(gaps.iter().all(|gap| *gap < 1.0), "{gaps:?}");
    assert_eq!(fleet.world.count("select count(*) from attempt where outcome = 'lost'").await, 0);
    fleet.close().await;
}
