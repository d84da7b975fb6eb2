//! The lease is the right to write: whoever lost it writes nothing, whoever has it can ask twice.

use std::time::Duration;

use adjutant_agent::{FailureKind, Outcome, TaskNumber, TaskState, ToolResult, WaitMode};
use adjutant_store::{Claim, Renewal};

use crate::support::world::{World, assert_lost, turn};

fn tool_result(call: &str) -> ToolResult {
    ToolResult { call: call.to_owned(), content: "42".to_owned(), ..ToolResult::default() }
}

/// Two leases on one task: one that a sweep took away, and the one that follows.
async fn stale_and_current(world: &World) -> (Claim, Claim) {
    let session = world.session().await;
    let worker = world.steady_worker().await;
    world.spawn(session, 1).await;
    let stale = world.claim_one(&worker).await;
    world.expire(stale.lease.id()).await;
    assert_eq!(worker.sweep(Duration::ZERO).await.unwrap().len(), 1);
    let current = world.claim_one(&worker).await;
    assert_eq!(current.lease.task(), stale.lease.task());
    assert_eq!(current.lease.attempt(), stale.lease.attempt() + 1);
    (stale, current)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_lease_cannot_store_a_turn_or_a_tool_result() {
    let world = World::new().await;
    let (mut stale, mut current) = stale_and_current(&world).await;
    current.lease.checkpoint(&turn("mine")).await.unwrap();
    assert_lost(stale.lease.checkpoint(&turn("stale")).await);
    assert_lost(stale.lease.tool_result(Some("tool"), &tool_result("call")).await);
    let turns = world.store.turns(current.lease.task()).await.unwrap();
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].turn.answer.text().as_deref(), Some("mine"));
    assert!(turns[0].tool_results.is_empty());
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_lease_cannot_complete_fail_release_or_wait() {
    let world = World::new().await;
    for way in 0..4 {
        let (stale, current) = stale_and_current(&world).await;
        let ending = match way {
            0 => stale.lease.complete("stale".to_owned(), None),
            1 => stale.lease.fail(FailureKind::Internal, "stale".to_owned(), None),
            2 => stale.lease.release(),
            _ => stale.lease.wait(Vec::new(), WaitMode::All),
        };
        assert_lost(ending.write().await);
        assert_eq!(world.state(current.lease.session(), TaskNumber(1)).await, TaskState::Running);
        let session = current.lease.session();
        current.lease.complete("current".to_owned(), None).write().await.unwrap();
        let collected = world.store.collect(session, TaskNumber(1), None).await.unwrap();
        assert_eq!(
            collected.outcome,
            Outcome::Completed { result: "current".to_owned(), summary: None }
        );
        world.assert_sound().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_lease_is_not_renewed() {
    let world = World::new().await;
    let (stale, current) = stale_and_current(&world).await;
    let worker = world.worker().await;
    assert_eq!(worker.renew(&[stale.lease.id()]).await.unwrap().lost, [stale.lease.id()]);
    let held: i64 = world.count("select count(*) from slot where task is not null").await;
    assert_eq!(held, 1);
    drop(current);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_waited_for_a_sweep_writes_nothing() {
    let world = World::new().await;
    let (_, worker, mut claim) = world.one_running().await;
    world.expire(claim.lease.id()).await;
    let sweep = world.hold(&format!("select sweep_1('{}', '0 s')", worker.id())).await;
    let checkpoint = tokio::spawn(async move { claim.lease.checkpoint(&turn("late")).await });
    world.until_blocked(1).await;
    sweep.commit().await.unwrap();
    assert_lost(checkpoint.await.unwrap());
    assert_eq!(world.count("select count(*) from turn").await, 0);
    world.drain(&worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_waited_for_a_sweep_writes_nothing() {
    let world = World::new().await;
    let (_, worker, claim) = world.one_running().await;
    world.expire(claim.lease.id()).await;
    let sweep = world.hold(&format!("select sweep_1('{}', '0 s')", worker.id())).await;
    let end =
        tokio::spawn(async move { claim.lease.complete("late".to_owned(), None).write().await });
    world.until_blocked(1).await;
    sweep.commit().await.unwrap();
    assert_lost(end.await.unwrap());
    world.drain(&worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_renews_the_lease_and_is_visible_at_once() {
    let world = World::new().await;
    let (session, worker, mut claim) = world.one_running().await;
    world.expire(claim.lease.id()).await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    assert!(worker.sweep(Duration::ZERO).await.unwrap().is_empty(), "renewed");
    world.expire(claim.lease.id()).await;
    claim.lease.tool_result(Some("tool"), &tool_result("call")).await.unwrap();
    assert!(worker.sweep(Duration::ZERO).await.unwrap().is_empty(), "renewed");
    let status = world.store.status(session, TaskNumber(1)).await.unwrap();
    assert_eq!(
        (status.state, status.turns_used, status.spent().cost_nanousd),
        (TaskState::Running, 1, 30)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_models_answer_is_stored_whatever_it_contains() {
    let world = World::new().await;
    let (session, _, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("nul \0 inside")).await.unwrap();
    claim
        .lease
        .tool_result(Some("tool"), &ToolResult { content: "\0".to_owned(), ..tool_result("c\0") })
        .await
        .unwrap();
    let turns = world.store.turns(claim.lease.task()).await.unwrap();
    assert_eq!(turns[0].turn.answer.text().as_deref(), Some("nul \u{fffd} inside"));
    claim.lease.complete("res\0ult".to_owned(), None).write().await.unwrap();
    let collected = world.store.collect(session, TaskNumber(1), None).await.unwrap();
    assert_eq!(
        collected.outcome,
        Outcome::Completed { result: "res\u{fffd}ult".to_owned(), summary: None }
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_twice_is_ending_once() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    world.spawn(session, 1).await;
    let ending = world.claim_one(&worker).await.lease.complete("done".to_owned(), None);
    ending.write().await.unwrap();
    ending.write().await.unwrap();
    assert_eq!(world.count("select count(*) from event where kind = 'completed'").await, 1);
    world.spawn(session, 1).await;
    let ending = world.claim_one(&worker).await.lease.release();
    ending.write().await.unwrap();
    ending.write().await.unwrap();
    let again = world.claim_one(&worker).await;
    ending.write().await.unwrap();
    assert_eq!(
        world.state(session, again.assignment.number).await,
        TaskState::Running,
        "the next attempt is untouched"
    );
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_or_tool_result_stored_twice_is_stored_once() {
    let world = World::new().await;
    let (session, _, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    // What a worker does that never heard the answer: the same turn, under the same lease.
    sqlx::query("select checkpoint_1($5, $1, $2, $3, 1, $4)")
        .bind(claim.lease.slot())
        .bind(claim.lease.task().0)
        .bind(claim.lease.id().0)
        .bind(serde_json::json!({
            "kind": "turn", "message": {}, "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0,
            "cache_write_tokens": 0, "cost_nanousd": 0, "duration_ms": 0
        }))
        .bind(session.0)
        .execute(&world.sql)
        .await
        .unwrap();
    claim.lease.tool_result(Some("tool"), &tool_result("call")).await.unwrap();
    claim
        .lease
        .tool_result(Some("tool"), &ToolResult { content: "43".to_owned(), ..tool_result("call") })
        .await
        .unwrap();
    let turns = world.store.turns(claim.lease.task()).await.unwrap();
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].tool_results, [tool_result("call")], "the first result stays");
    claim.lease.checkpoint(&turn("two")).await.unwrap();
    assert_eq!(world.store.turns(claim.lease.task()).await.unwrap().len(), 2);
    let status = world.store.status(session, TaskNumber(1)).await.unwrap();
    assert_eq!(status.spent().input_tokens, 20, "counted once");
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_ends_in_one_call_report_the_lost_leases() {
    let world = World::new().await;
    let (stale, current) = stale_and_current(&world).await;
    let (stale_task, store) = (stale.lease.task(), world.store.clone());
    world.store.set_cap(20).await.unwrap();
    let session = world.session().await;
    world.spawn(session, 4).await;
    let mut endings = vec![stale.lease.complete("stale".to_owned(), None)];
    for claim in world.worker().await.claim(4).await.unwrap() {
        endings.push(claim.lease.complete("done".to_owned(), None));
    }
    assert_eq!(store.end(&endings).await.unwrap(), [stale_task]);
    assert_eq!(world.count("select count(*) from task where state = 'completed'").await, 4);
    current.lease.release_for(Duration::from_secs(3600)).write().await.unwrap();
    assert!(world.worker().await.claim(1).await.unwrap().is_empty(), "released with a delay");
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_task_keeps_its_last_text_and_its_costs() {
    let world = World::new().await;
    let (session, _, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("half way")).await.unwrap();
    let error = "Max turns exceeded without producing a final response";
    claim.lease.fail(FailureKind::MaxTurns, error.to_owned(), None).write().await.unwrap();
    let collected = world.store.collect(session, TaskNumber(1), None).await.unwrap();
    assert_eq!(
        collected.outcome,
        Outcome::Failed {
            failure: FailureKind::MaxTurns,
            error: error.to_owned(),
            partial_result: Some("half way".to_owned())
        }
    );
    assert_eq!(world.count("select cost_nanousd from session").await, 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_task_never_changes() {
    let world = World::new().await;
    let (_, _, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    for rewrite in [
        "update task set result = 'other'",
        "update task set state = 'queued', result = null, finished_at = null",
        "update turn set text = 'other'",
        "update event set kind = 'failed'",
        "update attempt set outcome = 'failed'",
    ] {
        let refused = sqlx::query(rewrite).execute(&world.sql).await.unwrap_err();
        assert!(refused.to_string().contains("never changes"), "{rewrite}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_reports_the_leases_it_could_not_renew() {
    let world = World::new().await;
    let (_, worker, claim) = world.one_running().await;
    let busy = world.hold("select from slot for update").await;
    let renewal = worker.renew(&[claim.lease.id()]).await.unwrap();
    assert_eq!(renewal, Renewal::default(), "neither renewed nor lost");
    busy.rollback().await.unwrap();
    let renewal = worker.renew(&[claim.lease.id()]).await.unwrap();
    assert_eq!(renewal, Renewal { renewed: vec![claim.lease.id()], lost: Vec::new() });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_delay_or_call_id_loses_no_lease() {
    let world = World::new().await;
    let (_, _, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    claim.lease.tool_result(Some("tool"), &tool_result(&"x".repeat(100_000))).await.unwrap();
    claim.lease.release_for(Duration::MAX).write().await.unwrap();
    world.assert_sound().await;
}
