//! Rollups: what tenants spawned, used and have left to do, counted exactly and without a hot row.

use std::time::Duration;

use adjutant_agent::{FailureKind, SessionId, TaskNumber, WaitMode};
use adjutant_store::{Claim, Dependency, NewTask, Worker};
use serde_json::Value;
use sqlx::AssertSqlSafe;

use crate::support::world::{World, queued, turn};

/// What the rows of tasks, attempts and slots say, without the rollups.
const DIRECT: &str = "select jsonb_build_object(
        'tasks', count(*),
        'completed', count(*) filter (where state = 'completed'),
        'failed', count(*) filter (where state = 'failed'),
        'turns', coalesce(sum(turns_used), 0),
        'input_tokens', coalesce(sum(input_tokens), 0),
        'output_tokens', coalesce(sum(output_tokens), 0),
        'cost_nanousd', coalesce(sum(cost_nanousd), 0),
        'states', jsonb_build_object(
            'queued', count(*) filter (where state = 'queued'),
            'running', count(*) filter (where state = 'running'),
            'waiting', count(*) filter (where state = 'waiting'),
            'completed', count(*) filter (where state = 'completed'),
            'failed', count(*) filter (where state = 'failed'),
            'cancelled', count(*) filter (where state = 'cancelled')
        ),
        'lost', count(*) filter (where failure = 'lost'),
        'dependency', count(*) filter (where failure = 'dependency')
    )
    from task_history";

async fn direct(world: &World) -> Value {
    sqlx::query_scalar(DIRECT).fetch_one(&world.sql).await.unwrap()
}

async fn counted(world: &World) -> Value {
    let stats = world.store.stats("tenant", None).await.unwrap();
    let cost = sqlx::query_scalar::<_, i64>(
        "select sum(cost_nanousd)::bigint from stats_1('tenant', null)",
    );
    let cost = cost.fetch_one(&world.sql).await.unwrap();
    serde_json::json!({
        "tasks": stats.total.tasks,
        "completed": stats.total.completed,
        "failed": stats.total.failed,
        "turns": stats.total.turns,
        "input_tokens": stats.total.input_tokens,
        "output_tokens": stats.total.output_tokens,
        "cost_nanousd": cost,
        "states": stats.states,
        "lost": stats.failures["lost"],
        "dependency": stats.failures["dependency"],
    })
}

async fn assert_exact(world: &World) {
    assert_eq!(counted(world).await, direct(world).await);
    world.assert_sound().await;
}

/// One round of everything that can become of a task, with usage.
async fn live_through_everything(world: &World, worker: &Worker, session: SessionId) {
    world.spawn(session, 7).await;
    let mut claims = worker.claim(5).await.unwrap();
    for (n, claim) in claims.iter_mut().enumerate() {
        for _ in 0..=n {
            claim.lease.checkpoint(&turn("So far.")).await.unwrap();
        }
    }
    assert_exact(world).await;
    let mut claims = claims.into_iter();
    let mut next = || claims.next().unwrap().lease;
    next().complete("done".to_owned(), None).write().await.unwrap();
    next().fail(FailureKind::Tool, "broken".to_owned(), None).write().await.unwrap();
    next().release().write().await.unwrap();
    world.store.cancel(next().task()).await.unwrap();
    world.expire(next().id()).await;
    worker.sweep(Duration::ZERO).await.unwrap();
    assert_exact(world).await;
    // One that waits for a child; the child loses its workers until it fails.
    let parent = world.claim_one(worker).await;
    let child = NewTask { max_failures: 1, ..queued() };
    let children = parent.lease.spawn(&[child], None).await.unwrap();
    let ids = children.iter().map(|child| child.id).collect();
    parent.lease.wait(ids, WaitMode::All).write().await.unwrap();
    assert_exact(world).await;
    loop {
        let claims = worker.claim(100).await.unwrap();
        if claims.is_empty() {
            break;
        }
        for claim in claims {
            end_or_lose(world, worker, claim, children[0].id).await;
        }
    }
    assert_exact(world).await;
}

async fn end_or_lose(
    world: &World,
    worker: &Worker,
    mut claim: Claim,
    child: adjutant_agent::TaskId,
) {
    if claim.lease.task() == child {
        world.expire(claim.lease.id()).await;
        worker.sweep(Duration::ZERO).await.unwrap();
    } else {
        claim.lease.checkpoint(&turn("The end.")).await.unwrap();
        claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rollups_are_exactly_the_sums_of_the_tasks_and_survive_their_session() {
    let world = World::new().await;
    world.store.set_cap(10).await.unwrap();
    let session = world.session_with(|session| session.max_active = Some(10)).await;
    let worker = world.steady_worker().await;
    for _ in 0..3 {
        live_through_everything(&world, &worker, session).await;
        world.store.fold_usage().await.unwrap();
        assert_exact(&world).await;
    }
    // A dependency that fails, with a dependant; and a dependant that is cancelled as it waits.
    let first = world.spawn(session, 1).await.remove(0);
    for _ in 0..2 {
        let depends_on = vec![Dependency::Task(first.number)];
        world.spawn_one(session, NewTask { depends_on, ..queued() }).await;
    }
    assert_exact(&world).await;
    let number = TaskNumber(first.number.0 + 2);
    world.store.cancel_by_number(session, number).await.unwrap();
    assert_exact(&world).await;
    let lease = world.claim_one(&worker).await.lease;
    lease.fail(FailureKind::Model, "down".to_owned(), None).write().await.unwrap();
    assert_exact(&world).await;
    // Three days later.
    sqlx::query("update usage_minute set minute = minute - interval '3 days'")
        .execute(&world.sql)
        .await
        .unwrap();
    world.store.run_maintenance().await.unwrap();
    assert!(world.count("select count(*) from usage_hour").await > 0);
    assert_exact(&world).await;
    // What was spent stays spent.
    let kept = world.session().await;
    world.spawn(session, 2).await;
    let before = counted(&world).await;
    world.delete(session).await;
    let after = counted(&world).await;
    for field in ["tasks", "completed", "failed", "turns", "input_tokens", "cost_nanousd"] {
        assert_eq!(before[field], after[field], "{field}");
    }
    assert_eq!((&before["states"]["queued"], &after["states"]["queued"]), (&2.into(), &0.into()));
    world.spawn(kept, 1).await;
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_and_spawns_of_one_tenant_do_not_wait_for_each_other() {
    let world = World::new().await;
    let worker = world.worker().await;
    let (one, other) = (world.session().await, world.session().await);
    world.spawn(one, 1).await;
    let held = world.claim_one(&worker).await;
    world.spawn(other, 1).await;
    let free = world.claim_one(&worker).await;
    world.store.fold_usage().await.unwrap();
    let open = world.hold_completion(&held.lease).await;
    let rest = async {
        free.lease.complete("done".to_owned(), None).write().await.unwrap();
        world.spawn(other, 1).await;
        world.store.fold_usage().await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(20), rest).await.expect("nothing waits");
    open.commit().await.unwrap();
    let stats = world.store.stats("tenant", None).await.unwrap();
    assert_eq!((stats.total.tasks, stats.total.completed), (3, 2));
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_since_a_time_count_what_was_used_since() {
    let world = World::new().await;
    let (_, _, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("So far.")).await.unwrap();
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    for ago in ["1 hour", "3 days"] {
        world.store.fold_usage().await.unwrap();
        sqlx::query(AssertSqlSafe(format!(
            "update usage_minute set minute = minute - interval '{ago}'"
        )))
        .execute(&world.sql)
        .await
        .unwrap();
        world.store.run_maintenance().await.unwrap();
        for (since, tasks) in [(None, 1), (Some(5), 0), (Some(24 * 5 * 60), 1)] {
            let since =
                since.map(|minutes| chrono::Utc::now() - chrono::TimeDelta::minutes(minutes));
            let total = world.store.stats("tenant", since).await.unwrap().total;
            assert_eq!((total.tasks, total.completed, total.turns), (tasks, tasks, tasks), "{ago}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn minutes_of_one_hour_are_added_to_what_the_hour_has() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    for _ in 0..2 {
        world.spawn(session, 1).await;
        let mut claim = world.claim_one(&worker).await;
        claim.lease.checkpoint(&turn("So far.")).await.unwrap();
        claim.lease.complete("done".to_owned(), None).write().await.unwrap();
        world.store.fold_usage().await.unwrap();
        sqlx::query(
            "update usage_minute set minute = date_trunc('hour', now() - interval '3 days')",
        )
        .execute(&world.sql)
        .await
        .unwrap();
        world.store.run_maintenance().await.unwrap();
    }
    assert_eq!(world.count("select count(*) from usage_minute").await, 0);
    let total = world.store.stats("tenant", None).await.unwrap().total;
    assert_eq!((total.tasks, total.completed, total.turns), (2, 2, 2));
    assert_exact(&world).await;
}
