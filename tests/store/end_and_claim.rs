//! Ending and claiming in one call: what a worker does between two tasks of a slot.

use crate::support::world::{World, completion, queued};

#[tokio::test(flavor = "multi_thread")]
async fn a_reused_slot_is_never_empty_and_never_holds_two_tasks() {
    let world = World::new().await;
    world.store.set_cap(2).await.unwrap();
    let session = world.session().await;
    let spawned = world.spawn(session, 5).await;
    let worker = world.worker().await;
    let mut running = worker.claim(2).await.unwrap();
    let mut order: Vec<_> = running.iter().map(|claim| claim.lease.task()).collect();
    while !running.is_empty() {
        let ending = running.remove(0).lease.complete("done".to_owned(), None);
        let end_and_claim = worker.end_and_claim(&[ending], 0).await.unwrap();
        assert!(end_and_claim.unwritten.lost.is_empty() && end_and_claim.unwritten.busy.is_empty());
        order.extend(end_and_claim.claims.iter().map(|claim| claim.lease.task()));
        running.extend(end_and_claim.claims);
        let used = i64::try_from(running.len()).unwrap();
        assert_eq!(world.store.slots().await.unwrap().used, used);
    }
    assert_eq!(order, spawned.iter().map(|task| task.id).collect::<Vec<_>>(), "in order");
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_locked_by_another_end_is_skipped_and_its_slot_not_filled() {
    let world = World::new().await;
    let (busy, idle) = (world.session().await, world.session().await);
    world.spawn(busy, 1).await;
    world.spawn(idle, 3).await;
    let worker = world.worker().await;
    world.store.set_cap(2).await.unwrap();
    let claims = worker.claim(2).await.unwrap();
    let busy_task = claims[0].lease.task();
    let endings: Vec<_> =
        claims.into_iter().map(|claim| claim.lease.complete("done".to_owned(), None)).collect();
    // There are slots for more; but this worker has no room for more.
    world.store.set_cap(5).await.unwrap();
    let held =
        world.hold(&format!("select from session where id = {} for no key update", busy.0)).await;
    let end_and_claim = worker.end_and_claim(&endings, 0).await.unwrap();
    assert_eq!(end_and_claim.unwritten.busy, [busy_task]);
    assert_eq!(end_and_claim.claims.len(), 1, "one ended, one is claimed in its place");
    held.rollback().await.unwrap();

    // With nothing else to do it waits for it.
    let end_and_claim = worker.end_and_claim(&endings[..1], 0).await.unwrap();
    assert!(end_and_claim.unwritten.busy.is_empty());
    assert_eq!(end_and_claim.claims.len(), 1);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_ending_is_reported_and_the_others_are_written() {
    let world = World::new().await;
    let (_, worker, late) = world.one_running().await;
    let other = world.session().await;
    world.spawn(other, 1).await;
    let on_time = world.claim_one(&worker).await;
    world.store.cancel(late.lease.task()).await.unwrap();
    let lost = late.lease.task();
    let endings = [
        late.lease.complete("late".to_owned(), None),
        on_time.lease.complete("done".to_owned(), None),
    ];
    let end_and_claim = worker.end_and_claim(&endings, 0).await.unwrap();
    assert_eq!((end_and_claim.unwritten.lost, end_and_claim.claims.len()), (vec![lost], 0));
    assert_eq!(world.count("select count(*) from task where state = 'completed'").await, 1);
    // A worker that never heard the answer asks again, and nothing happens twice.
    let again = worker.end_and_claim(&endings, 0).await.unwrap();
    assert_eq!(again.unwritten.lost, [lost]);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_are_durable_when_the_call_returns_though_claims_need_not_be() {
    let world = World::new().await;
    let session = world.session().await;
    world.spawn(session, 2).await;
    let worker = world.worker().await;
    let claim = world.claim_one(&worker).await;
    // A throwaway server waits for the disk for nobody.
    let end_and_claim =
        format!("select from end_and_claim_1('{}', 0, {})", worker.id(), completion(&claim.lease));
    let mut held = world.hold(&format!("set local synchronous_commit = on; {end_and_claim}")).await;
    let durability: String = sqlx::query_scalar("select current_setting('synchronous_commit')")
        .fetch_one(&mut *held)
        .await
        .unwrap();
    assert_eq!(durability, "on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_slot_does_not_go_from_one_task_to_the_next() {
    let world = World::new().await;
    world.store.set_cap(2).await.unwrap();
    let session = world.session().await;
    world.spawn(session, 4).await;
    let worker = world.worker().await;
    let mut running = worker.claim(2).await.unwrap();
    world.store.set_cap(1).await.unwrap();
    running.sort_by_key(|claim| claim.lease.slot());
    let ending = running.remove(1).lease.complete("done".to_owned(), None);
    assert_eq!(
        worker.end_and_claim(&[ending], 5).await.unwrap().claims.len(),
        0,
        "one runs, which is the cap"
    );
    let ending = running.remove(0).lease.complete("done".to_owned(), None);
    assert_eq!(worker.end_and_claim(&[ending], 5).await.unwrap().claims.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_open_and_a_closed_slot_that_end_together_the_open_one_is_filled() {
    let world = World::new().await;
    world.store.set_cap(2).await.unwrap();
    let session = world.session().await;
    world.spawn(session, 4).await;
    let worker = world.worker().await;
    let running = worker.claim(2).await.unwrap();
    world.store.set_cap(1).await.unwrap();
    let open = running.iter().map(|claim| claim.lease.slot()).min().unwrap();
    let endings: Vec<_> =
        running.into_iter().map(|claim| claim.lease.complete("done".to_owned(), None)).collect();
    let claims = worker.end_and_claim(&endings, 5).await.unwrap().claims;
    assert_eq!(claims.iter().map(|claim| claim.lease.slot()).collect::<Vec<_>>(), [open]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_admitted_by_an_end_gets_its_slot_in_the_same_call() {
    let world = World::new().await;
    let session = world.session_with(|new| new.max_active = Some(1)).await;
    world.spawn_one(session, queued()).await;
    world.spawn_one(session, queued()).await;
    let worker = world.worker().await;
    let first = worker.claim(5).await.unwrap().remove(0);
    let slot = first.lease.slot();
    let ending = first.lease.complete("done".to_owned(), None);
    let next = worker.end_and_claim(&[ending], 0).await.unwrap().claims;
    assert_eq!(next.iter().map(|claim| claim.lease.slot()).collect::<Vec<_>>(), [slot]);
}
