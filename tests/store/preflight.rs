//! What a task asks before every model call: the gate of its model, and what its session and its
//! tree have spent.

use std::time::Duration;

use adjutant_agent::{Budget, Spent, Turn};
use adjutant_store::{Account, GateCause, GateReason, NewTask, Preflight};
use serde_json::json;

use crate::support::world::{World, queued, race, turn};

const BUDGET: Budget =
    Budget { max_input_tokens: Some(100), max_output_tokens: None, max_cost_nanousd: Some(900) };

const LIMITED: GateCause<'static> =
    GateCause { reason: GateReason::RateLimit, status: None, error: None };

/// What so many of the world's turns cost.
fn turns(count: i64) -> Spent {
    Spent { input_tokens: 10 * count, output_tokens: 2 * count, cost_nanousd: 30 * count }
}

fn with_budget() -> NewTask {
    let config = json!({"model": "main", "budget": BUDGET});
    NewTask { config: config.as_object().unwrap().clone(), ..queued() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_gate_holds_everybody_back_and_is_never_opened_early() {
    let world = World::new().await;
    let (session, _, claim) = world.one_running().await;
    let preflight =
        async |model| world.store.preflight(claim.lease.task(), session, model).await.unwrap();
    assert_eq!(preflight("main").await, Preflight::default());
    let closings = [3, 60, 1, 20].map(|seconds| {
        let store = world.store.clone();
        async move { store.close_gate("main", Duration::from_secs(seconds), LIMITED).await.unwrap() }
    });
    race(closings.into()).await;
    world.store.close_gate("main", Duration::from_secs(2), LIMITED).await.unwrap();
    let closed_for = preflight("main").await.closed_for;
    assert!(
        closed_for > Duration::from_secs(30) && closed_for <= Duration::from_secs(60),
        "{closed_for:?}"
    );
    assert_eq!(
        preflight("other").await,
        Preflight::default(),
        "another model is none of its business"
    );
    sqlx::query("update model_gate set closed_until = now() - interval '1 ms'")
        .execute(&world.sql)
        .await
        .unwrap();
    assert_eq!(preflight("main").await.closed_for, Duration::ZERO);
    world.store.close_gate("main", Duration::from_millis(1500), LIMITED).await.unwrap();
    assert!(preflight("main").await.closed_for > Duration::ZERO, "closed again");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absurd_time_closes_a_gate_for_a_day() {
    let world = World::new().await;
    let (session, _, claim) = world.one_running().await;
    world.store.close_gate("main", Duration::MAX, LIMITED).await.unwrap();
    let preflight = world.store.preflight(claim.lease.task(), session, "main").await.unwrap();
    assert!(preflight.closed_for <= Duration::from_secs(24 * 3600), "{preflight:?}");
    assert!(preflight.closed_for > Duration::from_secs(23 * 3600), "{preflight:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_spent_what_its_ended_attempts_and_its_running_ones_cost() {
    let world = World::new().await;
    let session = world.session_with(|session| session.budget = BUDGET).await;
    let other = world.session().await;
    let worker = world.worker().await;
    world.spawn(session, 3).await;
    world.spawn(other, 1).await;
    let mut claims = worker.claim(4).await.unwrap();
    for (k, claim) in claims.iter_mut().enumerate() {
        for _ in 0..=k {
            claim.lease.checkpoint(&turn("one")).await.unwrap();
        }
    }
    let of_other = claims.pop().unwrap();
    let ended = claims.pop().unwrap();
    ended.lease.complete("done".to_owned(), None).write().await.unwrap();
    let released = claims.pop().unwrap();
    released.lease.release().write().await.unwrap();
    let mut again = world.claim_one(&worker).await;
    again.lease.checkpoint(&turn("more")).await.unwrap();
    let preflight = world.store.preflight(again.lease.task(), session, "main").await.unwrap();
    let spent = turns(3 + 2 + 1 + 1);
    assert_eq!(preflight.session, Some(Account { budget: BUDGET, spent }), "each turn once");
    assert_eq!(preflight.tree, None);
    let unlimited = world.store.preflight(of_other.lease.task(), other, "main").await.unwrap();
    assert_eq!(unlimited, Preflight::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_has_spent_what_all_of_it_cost_and_the_roots_budget_counts() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    world.spawn_one(session, with_budget()).await;
    let mut root = world.claim_one(&worker).await;
    root.lease.checkpoint(&turn("root")).await.unwrap();
    root.lease.spawn(&[queued(), queued()], None).await.unwrap();
    let mut ended = world.claim_one(&worker).await;
    ended.lease.checkpoint(&turn("child")).await.unwrap();
    ended.lease.checkpoint(&turn("child")).await.unwrap();
    ended.lease.complete("done".to_owned(), None).write().await.unwrap();
    let mut child = world.claim_one(&worker).await;
    for _ in 0..4 {
        child.lease.checkpoint(&turn("child")).await.unwrap();
    }
    let mut grandchild = {
        child.lease.spawn(&[queued()], None).await.unwrap();
        world.claim_one(&worker).await
    };
    grandchild.lease.checkpoint(&turn("grandchild")).await.unwrap();
    // Another tree of the same session is another account.
    world.spawn_one(session, with_budget()).await;
    let mut alone = world.claim_one(&worker).await;
    alone.lease.checkpoint(&turn("alone")).await.unwrap();
    for task in [root.lease.task(), child.lease.task(), grandchild.lease.task()] {
        let preflight = world.store.preflight(task, session, "main").await.unwrap();
        assert_eq!(preflight.tree, Some(Account { budget: BUDGET, spent: turns(1 + 2 + 4 + 1) }));
        assert_eq!(preflight.session, None);
    }
    let preflight = world.store.preflight(alone.lease.task(), session, "main").await.unwrap();
    assert_eq!(preflight.tree, Some(Account { budget: BUDGET, spent: turns(1) }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_clears_the_next_call_with_its_own_turn_counted() {
    let world = World::new().await;
    let session = world.session_with(|session| session.budget = BUDGET).await;
    let worker = world.worker().await;
    world.spawn_one(session, with_budget()).await;
    let mut claim = world.claim_one(&worker).await;
    let of_main = Turn { model: Some("main".to_owned()), ..turn("one") };
    for stored in 1..=2 {
        let preflight = claim.lease.checkpoint(&of_main).await.unwrap();
        let account = Some(Account { budget: BUDGET, spent: turns(stored) });
        assert_eq!((preflight.session, preflight.tree), (account, account));
        assert_eq!(preflight.closed_for, Duration::ZERO);
    }
    assert_eq!(world.store.turns(claim.lease.task()).await.unwrap().len(), 2);
    world.store.close_gate("main", Duration::from_secs(60), LIMITED).await.unwrap();
    let preflight = claim.lease.checkpoint(&of_main).await.unwrap();
    assert!(preflight.closed_for > Duration::from_secs(30), "{preflight:?}");
}

/// Whatever the session has behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_preflight_reads_no_task_that_has_ended_outside_its_tree() {
    let world = World::new().await;
    let session = world.session_with(|session| session.budget = BUDGET).await;
    let worker = world.worker().await;
    sqlx::query(
        "insert into task (id, session, number, root, depth, agent, assignment, state, result, finished_at)
         select id, $1, 1000 + n, id, 1, 'a', '', 'completed', '', now()
         from (select gen_random_uuid() as id, n from generate_series(1, 20000) n offset 0) t",
    )
    .bind(session.0)
    .execute(&world.sql)
    .await
    .unwrap();
    world.spawn_one(session, with_budget()).await;
    let root = world.claim_one(&worker).await;
    root.lease.spawn(&[queued()], None).await.unwrap();
    let child = world.claim_one(&worker).await;
    let mut transaction = world.hold("set local track_functions = none").await;
    sqlx::query("select from preflight_1($1, $2, 'main')")
        .bind(child.lease.task().0)
        .bind(session.0)
        .execute(&mut *transaction)
        .await
        .unwrap();
    let (scans, rows): (i64, i64) = sqlx::query_as(
        "select seq_scan, idx_tup_fetch from pg_stat_xact_user_tables where relname = 'task'",
    )
    .fetch_one(&mut *transaction)
    .await
    .unwrap();
    assert_eq!(scans, 0);
    assert!(rows <= 20, "{rows} rows of task were read");
}
