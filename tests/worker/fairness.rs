//! Worker processes of a fleet that one tenant floods.

use adjutant_store::NewTask;
use serde_json::json;

use crate::support::worker_process::{WorkerProcess, simulate};
use crate::support::world::{World, queued, until};

const CAP: i32 = 4;

/// A task that takes this long.
fn lasting(ms: u64) -> NewTask {
    let config = json!({"simulation": {"work_ms": ms}});
    NewTask { config: config.as_object().unwrap().clone(), ..queued() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_tenant_holds_up_no_other() {
    let world = World::new().await;
    world.store.set_cap(CAP).await.unwrap();
    for _ in 0..40 {
        let session = world.session_with(|session| session.tenant = "flood".to_owned()).await;
        world.store.spawn(session, &vec![lasting(20); 40], None).await.unwrap();
    }
    let _fleet = [WorkerProcess::on(world.url()), WorkerProcess::on(world.url())];
    let _other_pool = WorkerProcess::start(simulate(world.url()).args(["--pool", "other"]));
    for n in 0..10 {
        let pool = if n % 2 == 0 { "default" } else { "other" };
        // Tasks of the flood run.
        let ended = world.count("select count(*) from attempt").await;
        until("the flood goes on", async || {
            world.count("select count(*) from attempt").await > ended
        })
        .await;
        let tenant = format!("tenant {n}");
        let session = world.session_with(|session| session.tenant = tenant).await;
        let new = NewTask { pool: pool.to_owned(), ..lasting(0) };
        let task = world.spawn_one(session, new).await;
        until("the other tenant's task has ended", async || {
            world.store.status(session, task.number).await.unwrap().state.is_terminal()
        })
        .await;
    }
    // Workers learn of another pool with their next poll; until then its tasks may wait for one.
    let before = "select max(claims)
        from (
            select count(*) as claims
            from task t
            join attempt own on own.task = t.id
            join attempt a on a.claimed_at > t.created_at and a.claimed_at < own.claimed_at
            where t.pool = 'default' and t.session in (select id from session where tenant like 'tenant %')
            group by t.id
            union all
            select 0
        ) of_task";
    let most = world.count(before).await;
    assert!(
        most <= 3 * i64::from(CAP),
        "{most} tasks of the flood started before another tenant's"
    );
    let unfinished = world.count("select count(*) from task where finished_at is null").await;
    assert!(unfinished > 100, "the flood was over too early: {unfinished}");
    world.assert_sound().await;
}
