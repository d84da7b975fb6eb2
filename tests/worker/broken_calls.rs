//! What model calls have used that have no stored answer, and what servers do not report.

use std::time::Duration;

use adjutant_agent::{Budget, FailureKind, TaskId, TaskState};
use adjutant_script::{Answer, Fault, Script, Usage, When, status, text};
use adjutant_store::NewDelegation;
use serde_json::json;
use sqlx::Row;

use crate::support::fleet::{CLERK, Fleet, WIRES, model_config, to};
use crate::support::worker_process::WorkerProcess;
use crate::support::world::until;

const PRICES: &str = "prices = { input = 1.0, output = 2.0 }";
const UNFINISHED: &str = "Of this you get the first half, and that is estimated to have a price.";

fn priced(wire: &str) -> String {
    format!("{wire}_priced")
}

async fn fleet(script: Script) -> Fleet {
    Fleet::with(script, |server| {
        WIRES.map(|wire| model_config(&priced(wire), wire, server, PRICES)).concat()
    })
    .await
}

fn halfway(fault: Fault) -> Answer {
    text(UNFINISHED).chunks(4, Duration::ZERO).with_fault(fault)
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_that_a_server_does_not_report_is_estimated_and_marked() {
    let silent = Usage::default();
    let script = Script::new()
        .on(When::any())
        .turn(1, text("A".repeat(400)).and_call("lookup", json!({})).with_usage(silent))
        .answer(text("Done."));
    let fleet = fleet(script).await;
    let _worker = fleet.worker();
    for wire in WIRES {
        let budget = Budget { max_output_tokens: Some(100), ..Budget::default() };
        let session = fleet.session(&priced(wire)).await;
        let new = NewDelegation { budget, ..to(CLERK, &format!("Say little ({wire}).")) };
        let done = fleet.done(fleet.delegate(session, new).await).await;
        assert_eq!(done.failure, Some(FailureKind::Budget), "{done:#?}");
        let usage = done.turns[0].turn.usage;
        assert!(usage.estimated && usage.output_tokens >= 100, "{usage:?}");
        // The prompt and the definitions of the tools.
        assert!((100..10_000).contains(&usage.input_tokens), "{usage:?}");
        assert_eq!(usage.cost_nanousd, 1000 * usage.input_tokens + 2000 * usage.output_tokens);
    }
    let reported = fleet.give("openai", CLERK, "Then say more.").await;
    let done = fleet.done(reported).await;
    assert_eq!(
        done.turns.iter().map(|t| t.turn.usage.estimated).collect::<Vec<_>>(),
        [true, false]
    );
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_agree_over_cancels_retries_a_kill_and_a_drain() {
    let script = Script::new()
        .on(When::assignment("broken"))
        .turn(1, [halfway(Fault::DropHalfway), text("Begun.").and_call("lookup", json!({}))])
        .turn(2, [halfway(Fault::EndHalfway), text("Done.")])
        .on(When::assignment("refused"))
        .turn(1, [status(500), text("Done.")])
        .on(When::assignment("cancelled"))
        .turn(1, text("Begun.").and_call("lookup", json!({})))
        .answer(halfway(Fault::HangHalfway))
        .on(When::assignment("too slow"))
        .answer(halfway(Fault::HangHalfway))
        .on(When::assignment("drained"))
        .turn(1, [halfway(Fault::HangHalfway), text("Done.")])
        .on(When::assignment("killed"))
        .turn(1, [halfway(Fault::HangHalfway), text("Done.")]);
    let fleet = fleet(script).await;
    let of_pool = |pool: &str| {
        WorkerProcess::start(fleet.work().args(["--pool", pool, "--grace-seconds", "1"]))
    };
    // Both leave in the middle of a call.
    let (mut draining, dying) = (of_pool("draining"), of_pool("dying"));
    let give = async |wire: &str, what: &str, pool: Option<&str>, timeout_s| {
        let session = fleet.session(&priced(wire)).await;
        let mut new = NewDelegation { timeout_s, ..to(CLERK, &format!("Be {what} ({wire}).")) };
        new.task.pool = pool.unwrap_or("default").to_owned();
        fleet.delegate(session, new).await
    };
    let mut drained = Vec::new();
    let mut killed = Vec::new();
    for wire in WIRES {
        drained.push(give(wire, "drained", Some("draining"), None).await);
        killed.push(give(wire, "killed", Some("dying"), None).await);
    }
    for task in drained.iter().chain(&killed) {
        until("it hangs", async || fleet.look_at(*task).await.requests.len() == 1).await;
    }
    draining.signal("TERM");
    dying.signal("KILL");
    draining.exited().await;
    let _heirs = (of_pool("draining"), of_pool("dying"));
    let _worker = fleet.worker();
    let mut cancelled = Vec::new();
    for wire in WIRES {
        let broken = fleet.done(give(wire, "broken", None, None).await).await;
        broken.assert_completed("Done.");
        assert_eq!(reasons(&fleet, broken.task).await, ["failed", "failed"]);
        let refused = fleet.done(give(wire, "refused", None, None).await).await;
        refused.assert_completed("Done.");
        assert_eq!(reasons(&fleet, refused.task).await, [""; 0], "a refused call costs nothing");
        let slow = fleet.done(give(wire, "too slow", None, Some(1.0)).await).await;
        assert_eq!(slow.failure, Some(FailureKind::Timeout));
        assert_eq!(reasons(&fleet, slow.task).await, ["stopped"]);
        cancelled.push(give(wire, "cancelled", None, None).await);
    }
    for task in drained {
        fleet.done(task).await.assert_completed("Done.");
        assert_eq!(reasons(&fleet, task).await, ["stopped"]);
    }
    for task in killed {
        fleet.done(task).await.assert_completed("Done.");
        assert_eq!(reasons(&fleet, task).await, [""; 0], "nobody is left to count it");
    }
    for task in cancelled {
        until("it hangs in its second turn", async || {
            fleet.look_at(task).await.requests.len() == 2
        })
        .await;
        fleet.world.store.cancel(task).await.unwrap();
        until("its call is counted", async || reasons(&fleet, task).await == ["stopped"]).await;
        assert_eq!(fleet.look_at(task).await.state, TaskState::Cancelled);
    }
    assert_sums_agree(&fleet).await;
    fleet.close().await;
}

async fn reasons(fleet: &Fleet, task: TaskId) -> Vec<String> {
    let rows = sqlx::query("select * from broken_call where task = $1 order by attempt, number")
        .bind(task.0)
        .fetch_all(&fleet.world.sql)
        .await
        .unwrap();
    for row in &rows {
        let [input, output, cost] =
            ["input_tokens", "output_tokens", "cost_nanousd"].map(|name| row.get::<i64, _>(name));
        assert!(input > 100 && row.get::<bool, _>("usage_estimated"), "{input}");
        assert!(output <= i64::try_from(UNFINISHED.len()).unwrap() / 4, "{output}");
        assert_eq!(cost, 1000 * input + 2000 * output);
    }
    rows.iter().map(|row| row.get("reason")).collect()
}

/// The sums of turns and broken-off calls are those of tasks, of sessions and of the rollups.
async fn assert_sums_agree(fleet: &Fleet) {
    let mut sums: Vec<(String, i64, i64, i64)> = sqlx::query_as(
        "select 'calls', sum(input_tokens)::bigint, sum(output_tokens)::bigint, sum(cost_nanousd)::bigint
         from (
             select input_tokens, output_tokens, cost_nanousd from turn
             union all
             select input_tokens, output_tokens, cost_nanousd from broken_call
         ) c
         union all
         select 'tasks', sum(input_tokens)::bigint, sum(output_tokens)::bigint, sum(cost_nanousd)::bigint from task
         union all
         select 'sessions', sum(input_tokens)::bigint, sum(output_tokens)::bigint, sum(cost_nanousd)::bigint from session
         union all
         select 'rollups', sum(input_tokens)::bigint, sum(output_tokens)::bigint, sum(cost_nanousd)::bigint
         from (
             select input_tokens, output_tokens, cost_nanousd from usage_delta
             union all
             select input_tokens, output_tokens, cost_nanousd from usage_total
         ) u",
    )
    .fetch_all(&fleet.world.sql)
    .await
    .unwrap();
    let (_, input, output, cost) = sums.remove(0);
    assert!(input > 0 && output > 0 && cost > 0);
    for (name, of_input, of_output, of_cost) in sums {
        assert_eq!((of_input, of_output, of_cost), (input, output, cost), "{name}");
    }
}
