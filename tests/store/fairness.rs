//! Tenants share the slots of the fleet.

use std::collections::HashMap;

use adjutant_agent::{ErrorCode, SessionId, TaskId};
use adjutant_store::{Claim, TenantChange, Worker};
use sqlx::AssertSqlSafe;

use crate::support::world::{World, assert_refused, task, until};

/// Queues tasks of a tenant, 100 in a session, without the time that spawns would take.
pub async fn flood(world: &World, tenant: &str, pool: &str, tasks: usize) {
    let load = format!(
        "with sessions as (
             insert into session (tenant, name, max_active, next_number)
             select '{tenant}', gen_random_uuid()::text, 1000, 101 from generate_series(1, ceil({tasks} / 100.0)::integer)
             returning id
         ), tasks as (
             insert into task (id, session, number, root, depth, agent, assignment, state, pool)
             select id, session, k, id, 1, 'tester', '', 'queued', '{pool}'
             from (
                 select s.id as session, k, ordered_uuid() as id, row_number() over () as n
                 from sessions s cross join generate_series(1, 100) k
             ) t
             where n <= {tasks}
             returning id, session, pool, priority
         ), counted as (
             insert into usage_delta (tenant, agent, model, outcome, tasks, roots)
             values ('{tenant}', 'tester', '', 'spawned', {tasks}, {tasks})
         )
         insert into queue (session, task, tenant, pool, priority, entry)
         select session, id, '{tenant}', pool, priority, nextval('queue_entry') from tasks"
    );
    sqlx::raw_sql(AssertSqlSafe(load)).execute(&world.sql).await.unwrap();
}

pub async fn session_of(world: &World, tenant: &str) -> SessionId {
    world.session_with(|session| session.tenant = tenant.to_owned()).await
}

async fn weigh(world: &World, tenant: &str, weight: i32) {
    let change = TenantChange { weight: Some(weight), cap: None };
    world.store.set_tenant(tenant, change).await.unwrap();
}

pub async fn limit(world: &World, tenant: &str, cap: Option<i32>) {
    let change = TenantChange { weight: None, cap: Some(cap) };
    world.store.set_tenant(tenant, change).await.unwrap();
}

/// The running tasks of each tenant.
async fn running(world: &World) -> HashMap<String, i64> {
    let counts = "select tenant, count(*) from slot where task is not null group by tenant";
    let rows: Vec<(String, i64)> = sqlx::query_as(counts).fetch_all(&world.sql).await.unwrap();
    rows.into_iter().collect()
}

async fn tenant_of(world: &World, claim: &Claim) -> String {
    sqlx::query_scalar(
        "select tenant from session where id = (select session from task where id = $1)",
    )
    .bind(claim.lease.task().0)
    .fetch_one(&world.sql)
    .await
    .unwrap()
}

/// Ends a task, and returns what is claimed in its place.
pub async fn replace(worker: &Worker, claim: Claim) -> Vec<Claim> {
    let ending = claim.lease.complete("done".to_owned(), None);
    worker.end_and_claim(&[ending], 0).await.unwrap().claims
}

#[tokio::test(flavor = "multi_thread")]
async fn one_claim_shares_the_free_slots_by_weight_whatever_the_priorities_are() {
    for (weights, expected) in [([1, 1], [25, 25]), ([1, 4], [10, 40])] {
        let world = World::new().await;
        world.store.set_cap(50).await.unwrap();
        flood(&world, "a", "default", 200).await;
        flood(&world, "b", "default", 200).await;
        sqlx::raw_sql("update task set priority = 100 where id in (select task from queue where tenant = 'a');
                       update queue set priority = 100 where tenant = 'a'")
            .execute(&world.sql)
            .await
            .unwrap();
        weigh(&world, "a", weights[0]).await;
        weigh(&world, "b", weights[1]).await;
        assert_eq!(world.worker().await.claim(50).await.unwrap().len(), 50);
        let running = running(&world).await;
        assert_eq!([running["a"], running["b"]], expected, "{weights:?}");
        world.assert_sound().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_claim_of_as_many_tasks_as_tenants_shares_by_weight() {
    let world = World::new().await;
    world.store.set_cap(3).await.unwrap();
    for (tenant, weight) in [("a", 1), ("b", 1), ("c", 4)] {
        flood(&world, tenant, "default", 5).await;
        weigh(&world, tenant, weight).await;
    }
    assert_eq!(world.worker().await.claim(3).await.unwrap().len(), 3);
    assert_eq!(running(&world).await["c"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_tenant_cannot_use_another_gets() {
    let world = World::new().await;
    world.store.set_cap(50).await.unwrap();
    flood(&world, "a", "default", 200).await;
    flood(&world, "b", "default", 3).await;
    flood(&world, "c", "default", 200).await;
    limit(&world, "c", Some(7)).await;
    assert_eq!(world.worker().await.claim(50).await.unwrap().len(), 50, "no slot stays empty");
    let running = running(&world).await;
    assert_eq!((running["a"], running["b"], running["c"]), (40, 3, 7));
    let tasks = world.count("select count(distinct task) from slot").await;
    assert_eq!(tasks, 50, "no task is claimed twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_flood_of_a_hundred_thousand_tasks_the_next_slot_is_another_tenants() {
    for cap in [1, 5] {
        let world = World::new().await;
        world.store.set_cap(cap).await.unwrap();
        flood(&world, "a", "default", if cap == 1 { 100_000 } else { 1000 }).await;
        let worker = world.worker().await;
        let mut running = worker.claim(100).await.unwrap();
        // The flood alone, for a while.
        for _ in 0..3 {
            let first = running.remove(0);
            running.extend(replace(&worker, first).await);
        }
        let other = session_of(&world, "b").await;
        let spawned = world.spawn_one(other, task()).await;
        let first = running.remove(0);
        let next = replace(&worker, first).await;
        let tasks: Vec<TaskId> = next.iter().map(|claim| claim.lease.task()).collect();
        assert_eq!(tasks, [spawned.id], "at cap {cap}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_a_thousand_ends_the_shares_follow_the_weights() {
    for (cap, weights) in [(12, &[1, 2, 3][..]), (1, &[1, 2])] {
        let world = World::new().await;
        world.store.set_cap(cap).await.unwrap();
        for (n, weight) in weights.iter().enumerate() {
            flood(&world, &format!("t{n}"), "default", 1100).await;
            weigh(&world, &format!("t{n}"), *weight).await;
        }
        let worker = world.worker().await;
        let mut running = worker.claim(100).await.unwrap();
        let mut ends: HashMap<String, i32> = HashMap::new();
        for _ in 0..1000 {
            // All tasks take the same time.
            let ended = running.remove(0);
            *ends.entry(tenant_of(&world, &ended).await).or_default() += 1;
            let next = replace(&worker, ended).await;
            assert_eq!(next.len(), 1, "no slot stays empty");
            running.extend(next);
        }
        let total: i32 = weights.iter().sum();
        for (n, weight) in weights.iter().enumerate() {
            let (got, due) = (ends[&format!("t{n}")], 1000 * weight / total);
            assert!(
                (got - due).abs() * 10 <= due,
                "t{n} had {got} of 1000 ends, not {due}: {ends:?}"
            );
        }
        world.assert_sound().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_whose_tasks_take_long_keeps_to_its_share_of_the_slots() {
    let world = World::new().await;
    world.store.set_cap(8).await.unwrap();
    flood(&world, "long", "default", 300).await;
    flood(&world, "short", "default", 300).await;
    let worker = world.worker().await;
    let mut short = Vec::new();
    let mut long = Vec::new();
    let mut found = worker.claim(8).await.unwrap();
    for _ in 0..100 {
        for claim in found.drain(..) {
            match tenant_of(&world, &claim).await.as_str() {
                "long" => long.push(claim),
                _ => short.push(claim),
            }
        }
        assert_eq!((long.len(), short.len()), (4, 4));
        found = replace(&worker, short.remove(0)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_tenants_all_have_their_turn() {
    let world = World::new().await;
    world.store.set_cap(10).await.unwrap();
    let load = "insert into session (tenant, name, next_number) select 't' || n, 's', 4 from generate_series(1, 1000) n;
                insert into task (id, session, number, root, depth, agent, assignment, state)
                select id, session, k, id, 1, 'tester', '', 'queued'
                from (select s.id as session, k, ordered_uuid() as id from session s cross join generate_series(1, 3) k) t;
                insert into queue (session, task, tenant, pool, priority, entry)
                select t.session, t.id, s.tenant, t.pool, t.priority, nextval('queue_entry')
                from task t join session s on s.id = t.session order by s.id, t.number";
    sqlx::raw_sql(load).execute(&world.sql).await.unwrap();
    let worker = world.worker().await;
    let mut running = worker.claim(10).await.unwrap();
    for _ in 0..990 {
        let first = running.remove(0);
        let next = replace(&worker, first).await;
        assert_eq!(next.len(), 1, "no slot stays empty");
        running.extend(next);
    }
    let served = world
        .count(
            "select count(distinct session) from (
                 select session from attempt union select session from slot where task is not null
             ) x",
        )
        .await;
    assert!(served > 990, "1000 claims, but only {served} of 1000 tenants had one");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cap_of_a_tenant_is_never_exceeded() {
    let world = World::with_connections(12).await;
    world.store.set_cap(12).await.unwrap();
    flood(&world, "capped", "default", 2000).await;
    flood(&world, "free", "default", 2000).await;
    limit(&world, "capped", Some(3)).await;
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut working = Vec::new();
    for _ in 0..6 {
        let (worker, stop) = (world.worker().await, stop.clone());
        working.push(tokio::spawn(async move {
            let mut running = Vec::new();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                running.extend(worker.claim(3).await.unwrap());
                if !running.is_empty() {
                    let first: Claim = running.remove(0);
                    running.extend(replace(&worker, first).await);
                }
            }
        }));
    }
    // Each sample has a snapshot of its own.
    let sample = "do $$ begin
        for n in 1..10000 loop
            if (select count(*) from slot where tenant = 'capped' and task is not null) > 3 then
                raise exception 'more than the cap in sample %', n;
            end if;
        end loop;
    end $$";
    let sampled = sqlx::raw_sql(sample).execute(&world.sql).await;
    let ended = "select count(*) from attempt a join session s on s.id = a.session where s.tenant = 'capped'";
    until("the capped tenant goes on", async || world.count(ended).await > 10).await;
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for worker in working {
        worker.await.unwrap();
    }
    sampled.unwrap();
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_passes_over_a_capped_tenant_that_another_claim_counts() {
    let world = World::new().await;
    flood(&world, "capped", "default", 20).await;
    flood(&world, "free", "default", 20).await;
    limit(&world, "capped", Some(2)).await;
    let (one, other) = (world.worker().await, world.worker().await);
    let in_flight = world.hold(&format!("select from claim_1('{}', 3)", one.id())).await;
    let claims = other.claim(2).await.unwrap();
    assert_eq!(claims.len(), 2, "it does not wait, and fills the slots");
    in_flight.commit().await.unwrap();
    let running = running(&world).await;
    assert!(running["capped"] <= 2, "{running:?}");
    assert_eq!(running.values().sum::<i64>(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_at_once_find_the_next_tasks_of_the_same_tenants() {
    let world = World::new().await;
    for tenant in ["a", "b", "c"] {
        flood(&world, tenant, "default", 2).await;
    }
    world.store.set_cap(10).await.unwrap();
    let (one, other) = (world.worker().await, world.worker().await);
    let in_flight = world.hold(&format!("select from claim_1('{}', 3)", one.id())).await;
    assert_eq!(other.claim(3).await.unwrap().len(), 3, "behind the locked ones");
    in_flight.commit().await.unwrap();
    let running = running(&world).await;
    assert_eq!([running["a"], running["b"], running["c"]], [2, 2, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_one_task_of_each_tenant_keeps_to_their_caps() {
    let world = World::new().await;
    flood(&world, "a", "default", 1).await;
    limit(&world, "a", Some(1)).await;
    let (one, other) = (world.worker().await, world.worker().await);
    let in_flight = world.hold_claim(&one).await;
    flood(&world, "a", "default", 1).await;
    flood(&world, "b", "default", 1).await;
    flood(&world, "c", "default", 1).await;
    let first = "update task set priority = 1 where id = (select max(task::text)::uuid from queue where tenant = 'a');
                 update queue q set priority = t.priority from task t where t.id = q.task and t.priority = 1";
    sqlx::raw_sql(first).execute(&world.sql).await.unwrap();
    assert_eq!(other.claim(3).await.unwrap().len(), 2, "the first task of a is not locked");
    in_flight.commit().await.unwrap();
    assert_eq!(running(&world).await["a"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lower_cap_of_a_tenant_only_falls_and_a_removed_one_is_no_limit() {
    let world = World::new().await;
    world.store.set_cap(6).await.unwrap();
    flood(&world, "a", "default", 50).await;
    limit(&world, "a", Some(4)).await;
    let worker = world.worker().await;
    let mut claims = worker.claim(6).await.unwrap();
    assert_eq!(claims.len(), 4, "also of the only tenant");
    limit(&world, "a", Some(3)).await;
    assert_eq!(replace(&worker, claims.remove(0)).await.len(), 0);
    assert_eq!(replace(&worker, claims.remove(0)).await.len(), 1);
    limit(&world, "a", None).await;
    assert_eq!(worker.claim(6).await.unwrap().len(), 3);
    limit(&world, "a", Some(0)).await;
    assert_eq!(replace(&worker, claims.remove(0)).await.len(), 0, "a cap of 0 stops a tenant");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_costs_with_a_thousand_tenants_what_it_costs_with_one() {
    let mut pages = Vec::new();
    for tenants in [1, 1000] {
        let world = World::new().await;
        world.store.set_cap(20).await.unwrap();
        let load = format!(
            "insert into session (tenant, name) select 't' || n, 's' from generate_series(1, {tenants}) n;
             insert into task (id, session, number, root, depth, agent, assignment, state)
             select id, session, k, id, 1, 'tester', '', 'queued'
             from (select s.id as session, k, ordered_uuid() as id from session s cross join generate_series(1, 10000 / {tenants}) k) t;
             insert into queue (session, task, tenant, pool, priority, entry)
             select t.session, t.id, s.tenant, t.pool, t.priority, nextval('queue_entry')
             from task t join session s on s.id = t.session;"
        );
        sqlx::raw_sql(AssertSqlSafe(load)).execute(&world.sql).await.unwrap();
        sqlx::raw_sql("vacuum analyze").execute(&world.sql).await.unwrap();
        let worker = world.worker().await;
        let mut of_claims = Vec::new();
        for want in [1, 5] {
            of_claims.push(pages_of_a_claim(&world, &worker, want).await);
        }
        eprintln!("{tenants} tenants: {of_claims:?} pages for a claim of 1 and of 5 tasks");
        pages.push(of_claims);
    }
    for (one, thousand) in pages[0].iter().zip(&pages[1]) {
        assert!(10 * thousand <= 13 * one, "{thousand} pages with 1000 tenants, {one} with one");
    }
}

/// The pages that a claim reads when its plans are cached.
async fn pages_of_a_claim(world: &World, worker: &Worker, want: u16) -> i64 {
    let mut connection = world.sql.acquire().await.unwrap();
    let mut pages = 0;
    for _ in 0..2 {
        sqlx::raw_sql("begin").execute(&mut *connection).await.unwrap();
        let explain = format!(
            "explain (analyze, buffers, format json) select * from claim_1('{}', {want})",
            worker.id()
        );
        let plan: serde_json::Value =
            sqlx::query_scalar(AssertSqlSafe(explain)).fetch_one(&mut *connection).await.unwrap();
        assert_eq!(plan[0]["Plan"]["Actual Rows"].as_f64(), Some(want.into()));
        let read = |field: &str| plan[0]["Plan"][field].as_i64().unwrap();
        pages = read("Shared Hit Blocks") + read("Shared Read Blocks");
        sqlx::raw_sql("rollback").execute(&mut *connection).await.unwrap();
    }
    pages
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_a_tenant_out_of_range_are_refused() {
    let world = World::new().await;
    for (change, field) in [
        (TenantChange { weight: Some(0), cap: None }, "weight"),
        (TenantChange { weight: Some(1001), cap: None }, "weight"),
        (TenantChange { weight: None, cap: Some(Some(-1)) }, "cap"),
        (TenantChange { weight: None, cap: Some(Some(10_001)) }, "cap"),
    ] {
        let refused = world.store.set_tenant("a", change).await;
        let message = assert_refused(refused, ErrorCode::InvalidArgument);
        assert!(message.starts_with(&format!("{field}: ")), "{message}");
    }
    let change = TenantChange { weight: Some(2), cap: None };
    for name in ["", "a\x1b[2J", "a\0", &"a".repeat(256)] {
        let refused = world.store.set_tenant(name, change).await;
        let message = assert_refused(refused, ErrorCode::InvalidArgument);
        assert!(message.starts_with("tenant: "), "{message}");
    }
    weigh(&world, "a", 7).await;
    limit(&world, "a", Some(2)).await;
    weigh(&world, "b", 3).await;
    let tenants = world.store.tenants("", 10).await.unwrap();
    let settings: Vec<_> =
        tenants.iter().map(|one| (one.name.as_str(), one.weight, one.cap)).collect();
    assert_eq!(settings, [("a", 7, Some(2)), ("b", 3, None)]);
    assert_eq!(world.store.tenant("new").await.unwrap().weight, 1);
}
