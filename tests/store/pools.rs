//! Pools share the slots of the fleet.

use std::sync::Arc;

use adjutant_agent::{AgentConfig, AgentDefinition, ErrorCode, Grants, OnWorkerLoss};
use adjutant_store::{
    Actor, Claim, NewDelegation, NewTask, NewWorker, Operator, Redefinition, Worker,
};
use sqlx::postgres::PgListener;

use crate::store::fairness::{flood, limit, replace, session_of};
use crate::support::world::{World, assert_refused, queued, turn};

async fn worker_of(world: &World, pool: &str, concurrency: i32) -> Worker {
    let new = NewWorker { pool: pool.to_owned(), concurrency, ..NewWorker::default() };
    world.store.register(&new).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_pool_leaves_another_its_share_of_the_slots() {
    for (cap, share) in [(1, 1), (4, 2)] {
        let world = World::new().await;
        world.store.set_cap(cap).await.unwrap();
        flood(&world, "a", "default", 200).await;
        let busy = worker_of(&world, "default", 10).await;
        let mut running = busy.claim(10).await.unwrap();
        let first = running.remove(0);
        running.extend(replace(&busy, first).await);
        assert_eq!(i32::try_from(running.len()).unwrap(), cap, "alone it fills all slots");

        flood(&world, "a", "gpu", 200).await;
        let first = running.remove(0);
        let next = replace(&busy, first).await;
        assert_eq!(next.len(), 1, "nobody works in the other pool");
        running.extend(next);

        let other = worker_of(&world, "gpu", 10).await;
        let mut others = Vec::new();
        for _ in 0..share {
            let ended = running.remove(0);
            assert_eq!(replace(&busy, ended).await.len(), 0, "the slot is the other pool's");
            assert_eq!(busy.claim(10).await.unwrap().len(), 0, "and stays so");
            let found = other.claim(10).await.unwrap();
            assert_eq!(found.len(), 1);
            others.extend(found);
        }
        // From now on they take turns, or keep their halves.
        for _ in 0..10 {
            let ended = others.remove(0);
            others.extend(replace(&other, ended).await);
            running.extend(busy.claim(10).await.unwrap());
            assert_eq!(i32::try_from(running.len() + others.len()).unwrap(), cap);
            if !running.is_empty() {
                let ended = running.remove(0);
                running.extend(replace(&busy, ended).await);
                others.extend(other.claim(10).await.unwrap());
            }
            assert_eq!(i32::try_from(running.len() + others.len()).unwrap(), cap);
            assert_eq!(i32::try_from(others.len()).unwrap(), share);
        }
        world.assert_sound().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_another_pool_cannot_fill_are_not_left_to_it() {
    let world = World::new().await;
    world.store.set_cap(6).await.unwrap();
    flood(&world, "a", "default", 50).await;
    flood(&world, "a", "gpu", 50).await;
    let busy = worker_of(&world, "default", 10).await;
    let other = worker_of(&world, "gpu", 1).await;
    assert_eq!(busy.claim(10).await.unwrap().len(), 5, "its worker has one place");
    assert_eq!(other.claim(1).await.unwrap().len(), 1);
    other.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_task_of_many_tenants_and_pools_runs_and_no_slot_idles() {
    let world = World::new().await;
    world.store.set_cap(7).await.unwrap();
    for n in 0..40 {
        let session = session_of(&world, &format!("tenant {n}")).await;
        let pool = if n % 3 == 0 { "gpu" } else { "default" };
        let priority = if n % 2 == 0 { 3 } else { 0 };
        let new = NewTask { pool: pool.to_owned(), priority, ..queued() };
        world.store.spawn(session, &vec![new; 1 + n % 7], None).await.unwrap();
        if n % 5 == 0 {
            limit(&world, &format!("tenant {n}"), Some(1)).await;
        }
    }
    let workers = [worker_of(&world, "default", 10).await, worker_of(&world, "gpu", 10).await];
    let mut running: Vec<(usize, Claim)> = Vec::new();
    loop {
        for (n, worker) in workers.iter().enumerate() {
            running.extend(worker.claim(10).await.unwrap().into_iter().map(|claim| (n, claim)));
        }
        let queued = world.count("select count(*) from queue").await;
        assert!(running.len() == 7 || queued < 40, "{} running, {queued} queued", running.len());
        if running.is_empty() {
            break;
        }
        let (n, ended) = running.remove(0);
        let next = replace(&workers[n], ended).await;
        running.extend(next.into_iter().map(|claim| (n, claim)));
    }
    assert_eq!(world.count("select count(*) from task where finished_at is null").await, 0);
    world.assert_sound().await;
}

/// An agent whose tasks run in this pool.
fn agent(name: &str, pool: Option<&str>) -> AgentDefinition {
    let config = AgentConfig {
        system_prompt: "You work.".to_owned(),
        pool: pool.map(str::to_owned),
        ..AgentConfig::default()
    };
    let (name, description) = (name.to_owned(), "Works".to_owned());
    AgentDefinition {
        name,
        description,
        on_worker_loss: OnWorkerLoss::Resume,
        tenants: None,
        config,
    }
}

fn to(agent: &str, pool: &str) -> NewDelegation {
    let task = NewTask { agent: agent.to_owned(), pool: pool.to_owned(), ..queued() };
    NewDelegation { task, ..NewDelegation::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_runs_in_the_pool_of_its_agent_unless_its_spawn_names_one() {
    let world = World::new().await;
    let session = session_of(&world, "a").await;
    for agent in [agent("painter", Some("gpu")), agent("clerk", None)] {
        world.store.define(session, &agent, Redefinition::Refuse).await.unwrap();
    }
    let operator = Operator::default();
    let mut notices = PgListener::connect(world.url()).await.unwrap();
    notices.listen("adjutant_queue").await.unwrap();
    let painted = world.store.delegate(session, &to("painter", ""), &operator, None).await.unwrap();
    assert_eq!(painted.queue_position, Some(0));
    while notices.recv().await.unwrap().payload() != "=gpu" {}
    let batch = [to("clerk", ""), to("painter", "default"), to("painter", ""), to("clerk", "gpu")];
    world.store.delegate_all(session, &batch, &operator, None).await.unwrap();
    let pools: Vec<String> = sqlx::query_scalar("select pool from task order by number")
        .fetch_all(&world.sql)
        .await
        .unwrap();
    assert_eq!(pools, ["gpu", "default", "default", "gpu", "gpu"]);

    // Children run in the pool of their agent, or else in that of their parent.
    let worker = worker_of(&world, "gpu", 1).await;
    let mut parent = world.claim_one(&worker).await.lease;
    parent.checkpoint(&turn("I delegate.")).await.unwrap();
    world.store.define(session, &agent("filer", Some("disk")), Redefinition::Refuse).await.unwrap();
    parent.delegate("call", &[to("clerk", ""), to("filer", "")], &operator).await.unwrap();
    let pools: Vec<String> =
        sqlx::query_scalar("select pool from task where parent is not null order by number")
            .fetch_all(&world.sql)
            .await
            .unwrap();
    assert_eq!(pools, ["gpu", "disk"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_of_an_agent_has_to_be_granted() {
    let world = World::new().await;
    let session = session_of(&world, "a").await;
    world
        .store
        .define(session, &agent("painter", Some("gpu")), Redefinition::Refuse)
        .await
        .unwrap();
    let grants = Grants { pools: Some(vec!["default".to_owned()]), ..Grants::default() };
    let actor = Actor { grants: Arc::new(grants), ..Actor::default() };
    let store = world.store.acting_for(Arc::new(actor));
    let operator = Operator::default();
    let refused = store.delegate(session, &to("painter", ""), &operator, None).await;
    let message = assert_refused(refused, ErrorCode::InvalidArgument);
    assert_eq!(message, "pool: there is no pool \"gpu\" for this caller");
    store.delegate(session, &to("painter", "default"), &operator, None).await.unwrap();
}
