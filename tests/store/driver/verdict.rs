//! What must be true while the random driver runs, and after it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use adjutant_agent::TaskId;
use adjutant_store::Claim;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::store::driver::actor::Ledger;
use crate::support::database::server;
use crate::support::world::{World, until};

/// Looks at the slots again and again. Between two looks with the same cap, use stays within it, or
/// falls. Now and then it looks at every invariant. Answers how many pairs of looks could be
/// compared.
pub async fn sample(world: Arc<World>, ledger: Arc<Ledger>, until: Instant) -> u64 {
    let (mut looks, mut compared) = (0_u64, 0);
    let mut last: Option<(u64, i64)> = None;
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    while Instant::now() < until {
        tick.tick().await;
        let before = ledger.cap_changes();
        let slots = world.store.slots().await.unwrap();
        if let Some((changes, used)) = last
            && ledger.cap_changes() == Some(changes)
        {
            assert!(slots.used <= slots.cap.max(used), "{slots:?} after {used}");
            compared += 1;
        }
        last = before.map(|changes| (changes, slots.used));
        if looks % 1000 == 0 {
            world.assert_sound().await;
        }
        looks += 1;
    }
    compared
}

/// The history says what the actors were told.
pub async fn assert_agrees(world: &World, ledger: &Ledger) {
    world.assert_sound().await;
    let tasks: HashMap<Uuid, (String, bool)> = sqlx::query_as::<_, (Uuid, String, bool)>(
        "select id, state, collected_at is not null from task",
    )
    .fetch_all(&world.sql)
    .await
    .unwrap()
    .into_iter()
    .map(|(id, state, collected)| (id, (state, collected)))
    .collect();
    let spawned: HashSet<_> =
        ledger.spawned.lock().unwrap().iter().map(|(_, _, id)| id.0).collect();
    assert!(spawned.iter().all(|id| tasks.contains_key(id)), "an answered spawn is never lost");
    assert_eq!(spawned.len(), tasks.len(), "and nothing was made that nobody asked for");

    let turns: HashSet<(Uuid, i32, i32)> = sqlx::query_as("select task, number, attempt from turn")
        .fetch_all(&world.sql)
        .await
        .unwrap()
        .into_iter()
        .collect();
    for (task, number, attempt) in ledger.turns.lock().unwrap().iter() {
        assert!(
            turns.contains(&(task.0, *number, *attempt)),
            "turn {number} of {task} is stored as it was answered"
        );
    }
    assert_eq!(turns.len(), ledger.turns.lock().unwrap().len(), "and no other");

    let attempts: HashMap<(Uuid, i32), String> =
        sqlx::query_as::<_, (Uuid, i32, String)>("select task, attempt, outcome from attempt")
            .fetch_all(&world.sql)
            .await
            .unwrap()
            .into_iter()
            .map(|(task, attempt, outcome)| ((task, attempt), outcome))
            .collect();
    let mut ends: HashMap<TaskId, u32> = HashMap::new();
    for (task, attempt, how) in ledger.ended.lock().unwrap().iter() {
        assert_eq!(
            attempts.get(&(task.0, *attempt)).map(String::as_str),
            Some(*how),
            "attempt {attempt} of {task}"
        );
        if matches!(*how, "completed" | "failed") {
            assert_eq!(tasks[&task.0].0, *how);
            *ends.entry(*task).or_default() += 1;
        }
    }
    for task in ledger.cancelled.lock().unwrap().iter() {
        assert_eq!(tasks[&task.0].0, "cancelled");
        *ends.entry(*task).or_default() += 1;
    }
    assert!(ends.values().all(|ends| *ends == 1), "every task ends once");
    let collected = ledger.collected.lock().unwrap();
    assert!(collected.iter().all(|task| tasks[&task.0].1));
    assert_eq!(
        collected.iter().collect::<HashSet<_>>().len(),
        collected.len(),
        "every result is collected once"
    );
}

/// Everything ends by claims and completions alone: no wake-up was lost, nothing needs a sweep.
pub async fn drain(world: &World, leftover: Vec<Claim>) {
    let endings: Vec<_> = leftover.into_iter().map(|claim| claim.lease.release()).collect();
    world.store.end(&endings).await.unwrap();
    assert_eq!(world.store.slots().await.unwrap().used, 0, "every slot's lease was somebody's");
    world.store.set_cap(50).await.unwrap();
    let worker = world.worker().await;
    until("all delayed tasks are due", async || {
        world.store.admit_due().await.unwrap();
        world
            .count("select count(*) from task where not_before is not null and finished_at is null")
            .await
            == 0
    })
    .await;
    loop {
        let claims = worker.claim(50).await.unwrap();
        if claims.is_empty() {
            break;
        }
        let endings: Vec<_> = claims
            .into_iter()
            .map(|claim| claim.lease.complete("drained".to_owned(), None))
            .collect();
        assert!(world.store.end(&endings).await.unwrap().is_empty());
    }
    let stuck: Vec<(Uuid, String)> =
        sqlx::query_as("select id, state from task where finished_at is null limit 10")
            .fetch_all(&world.sql)
            .await
            .unwrap();
    assert!(stuck.is_empty(), "left behind: {stuck:?}");
}

/// What PostgreSQL itself counted. Its backends report when they end, so the pool is closed first.
pub async fn deadlocks(world: &World) -> i64 {
    world.store.close().await;
    let name: String =
        sqlx::query_scalar("select current_database()::text").fetch_one(&world.sql).await.unwrap();
    world.sql.close().await;
    let mut connection = PgConnection::connect(server()).await.unwrap();
    sqlx::query_scalar("select deadlocks from pg_stat_database where datname = $1")
        .bind(name)
        .fetch_one(&mut connection)
        .await
        .unwrap()
}
