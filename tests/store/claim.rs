//! Claiming: the cap is exact, and a claim waits for nobody.

use adjutant_store::NewTask;

use crate::support::world::{World, queued, race, task};

#[tokio::test(flavor = "multi_thread")]
async fn at_cap_1_two_claimants_never_run_two_tasks() {
    let world = World::new().await;
    world.store.set_cap(1).await.unwrap();
    let session = world.session().await;
    let workers = [world.worker().await, world.worker().await];
    for _ in 0..200 {
        world.spawn(session, 2).await;
        let racers =
            workers.iter().cloned().map(|worker| async move { worker.claim(2).await.unwrap() });
        let claims: Vec<_> = race(racers.collect()).await.into_iter().flatten().collect();
        assert_eq!(claims.len(), 1, "one slot, one task");
        for claim in claims {
            claim.lease.complete("done".to_owned(), None).write().await.unwrap();
        }
        world.drain(&workers[0]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_in_flight_keeps_its_slot_from_others() {
    let world = World::new().await;
    world.store.set_cap(1).await.unwrap();
    let session = world.session().await;
    world.spawn(session, 2).await;
    let (one, other) = (world.worker().await, world.worker().await);
    let in_flight = world.hold_claim(&one).await;
    assert!(other.claim(2).await.unwrap().is_empty(), "the only slot is being taken");
    in_flight.commit().await.unwrap();
    assert!(other.claim(2).await.unwrap().is_empty(), "the only slot is taken");
    assert_eq!(world.store.slots().await.unwrap().used, 1);
    world.assert_sound().await;
}

/// A claim may be lost in a crash of the server; whatever promises something may not.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_claim_commits_without_waiting_for_the_disk() {
    let world = World::new().await;
    let session = world.session().await;
    world.spawn(session, 1).await;
    let worker = world.worker().await;
    // A throwaway server waits for the disk for nobody.
    let durability = "select current_setting('synchronous_commit')";
    let before: String = sqlx::query_scalar(durability).fetch_one(&world.sql).await.unwrap();
    let claim =
        format!("set local synchronous_commit = on; select from claim_1('{}', 1)", worker.id());
    let mut held = world.hold(&claim).await;
    let lazy: String = sqlx::query_scalar(durability).fetch_one(&mut *held).await.unwrap();
    assert_eq!(lazy, "off");
    let release =
        "select end_1(array[n], array[task], array[lease], array['released'], null, null, true)
                   from slot
                   where task is not null";
    sqlx::query(release).execute(&mut *held).await.unwrap();
    let with_an_end: String = sqlx::query_scalar(durability).fetch_one(&mut *held).await.unwrap();
    assert_eq!(with_an_end, "on", "the same transaction now ends an attempt");
    held.commit().await.unwrap();
    let afterwards: String = sqlx::query_scalar(durability).fetch_one(&world.sql).await.unwrap();
    assert_eq!(afterwards, before);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_never_waits_for_a_session_or_a_task() {
    let world = World::new().await;
    let session = world.session().await;
    let spawned = world.spawn(session, 1).await;
    let worker = world.worker().await;
    let held = world.hold("select from session for update; select from task for update").await;
    let claim = world.claim_one(&worker).await;
    assert_eq!(claim.lease.task(), spawned[0].id);
    held.rollback().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_claims_from_its_own_pool_only() {
    let world = World::new().await;
    let session = world.session().await;
    let gpu = world.spawn_one(session, NewTask { pool: "gpu".to_owned(), ..task() }).await;
    let plain = world.worker().await;
    let gpu_worker = world
        .store
        .register(&adjutant_store::NewWorker {
            pool: "gpu".to_owned(),
            ..adjutant_store::NewWorker::default()
        })
        .await
        .unwrap();
    assert!(plain.claim(5).await.unwrap().is_empty());
    assert_eq!(world.claim_one(&gpu_worker).await.lease.task(), gpu.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_over_its_window_never_holds_up_the_others() {
    let world = World::new().await;
    let (greedy, modest) = (world.session().await, world.session().await);
    world.spawn(greedy, 100).await;
    let one = world.spawn(modest, 1).await.remove(0);
    world.store.set_cap(10).await.unwrap();
    let worker = world.worker().await;
    let claims = worker.claim(10).await.unwrap();
    assert_eq!(claims.len(), 6, "five of the greedy session, one of the modest");
    assert!(claims.iter().any(|claim| claim.lease.task() == one.id));
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_and_a_spawn_at_once_leave_no_task_behind() {
    let world = World::new().await;
    let session = world.session_with(|session| session.max_active = Some(1)).await;
    let worker = world.worker().await;
    for _ in 0..200 {
        world.spawn(session, 1).await;
        let claim = world.claim_one(&worker).await;
        let store = world.store.clone();
        let spawn =
            tokio::spawn(async move { store.spawn(session, &[queued()], None).await.map(drop) });
        let end =
            tokio::spawn(
                async move { claim.lease.complete("done".to_owned(), None).write().await },
            );
        spawn.await.unwrap().unwrap();
        end.await.unwrap().unwrap();
        assert_eq!(world.drain(&worker).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spawn_that_waits_for_an_end_in_flight_finds_its_room() {
    let world = World::new().await;
    let session = world.session_with(|session| session.max_active = Some(1)).await;
    let worker = world.worker().await;
    world.spawn(session, 1).await;
    let claim = world.claim_one(&worker).await;
    let in_flight = world.hold_completion(&claim.lease).await;
    let store = world.store.clone();
    let spawn =
        tokio::spawn(async move { store.spawn(session, &[queued()], None).await.map(drop) });
    world.until_blocked(1).await;
    in_flight.commit().await.unwrap();
    spawn.await.unwrap().unwrap();
    assert_eq!(world.drain(&worker).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_waits_for_a_spawn_in_flight_admits_its_task() {
    let world = World::new().await;
    let session = world.session_with(|session| session.max_active = Some(1)).await;
    let worker = world.worker().await;
    world.spawn(session, 1).await;
    let claim = world.claim_one(&worker).await;
    let in_flight = world.hold_spawn(session, r#"{"queue": true}"#, "null").await;
    let end =
        tokio::spawn(async move { claim.lease.complete("done".to_owned(), None).write().await });
    world.until_blocked(1).await;
    in_flight.commit().await.unwrap();
    end.await.unwrap().unwrap();
    assert_eq!(world.drain(&worker).await.len(), 1);
}

/// The end has counted nothing yet when the claim moves a task from the queue to a slot: it waits
/// where it would write to the queue.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_during_which_a_task_is_claimed_admits_as_many_as_have_room() {
    let world = World::new().await;
    let session = world.session_with(|session| session.max_active = Some(2)).await;
    let worker = world.worker().await;
    world.spawn(session, 4).await;
    let claim = world.claim_one(&worker).await;

    let mut claiming = world.hold("lock table queue in share mode").await;
    let end =
        tokio::spawn(async move { claim.lease.complete("done".to_owned(), None).write().await });
    world.until_blocked(1).await;
    sqlx::query("select from claim_1($1, 1)")
        .bind(worker.id().0)
        .execute(&mut *claiming)
        .await
        .unwrap();
    claiming.commit().await.unwrap();
    end.await.unwrap().unwrap();
    let queued: Vec<i32> =
        sqlx::query_scalar("select t.number from queue q join task t on t.id = q.task")
            .fetch_all(&world.sql)
            .await
            .unwrap();
    assert_eq!(queued, [3], "the second runs, and the fourth is outside the window");
    world.assert_sound().await;
}
