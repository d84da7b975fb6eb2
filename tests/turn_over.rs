//! Ending and claiming in one call: what a worker does between two tasks of a slot.

use crate::world::{World, completion, queued};

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_is_turned_over_never_stands_empty_and_never_holds_two() {
    let world = World::new().await;
    world.store.set_cap(2).await.unwrap();
    let session = world.session().await;
    let spawned = world.spawn(session, 5).await;
    let worker = world.worker().await;
    let mut running = worker.claim(2).await.unwrap();
    let mut order: Vec<_> = running.iter().map(|claim| claim.lease.task()).collect();
    while !running.is_empty() {
        let ending = running.remove(0).lease.complete("done".to_owned(), None);
        let turnover = worker.turn_over(&[ending], 0).await.unwrap();
        assert!(turnover.unwritten.lost.is_empty() && turnover.unwritten.busy.is_empty());
        order.extend(turnover.claims.iter().map(|claim| claim.lease.task()));
        running.extend(turnover.claims);
        let used = i64::try_from(running.len()).unwrap();
        assert_eq!(world.store.slots().await.unwrap().used, used);
    }
    assert_eq!(order, spawned.iter().map(|task| task.id).collect::<Vec<_>>(), "in order");
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_end_is_busy_with_is_left_and_its_place_is_not_filled() {
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
    let held = world.hold(&format!("select from session where id = {} for no key update", busy.0)).await;
    let turnover = worker.turn_over(&endings, 0).await.unwrap();
    assert_eq!(turnover.unwritten.busy, [busy_task]);
    assert_eq!(turnover.claims.len(), 1, "one ended, one is claimed in its place");
    held.rollback().await.unwrap();

    // With nothing else to do it waits for it.
    let turnover = worker.turn_over(&endings[..1], 0).await.unwrap();
    assert!(turnover.unwritten.busy.is_empty());
    assert_eq!(turnover.claims.len(), 1);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ending_that_comes_too_late_is_named_and_the_others_are_written() {
    let world = World::new().await;
    let (_, worker, late) = world.one_running().await;
    let other = world.session().await;
    world.spawn(other, 1).await;
    let on_time = world.claim_one(&worker).await;
    world.store.cancel(late.lease.task()).await.unwrap();
    let lost = late.lease.task();
    let endings =
        [late.lease.complete("late".to_owned(), None), on_time.lease.complete("done".to_owned(), None)];
    let turnover = worker.turn_over(&endings, 0).await.unwrap();
    assert_eq!((turnover.unwritten.lost, turnover.claims.len()), (vec![lost], 0));
    assert_eq!(world.count("select count(*) from task where state = 'completed'").await, 1);
    // A worker that never heard the answer asks again, and nothing happens twice.
    let again = worker.turn_over(&endings, 0).await.unwrap();
    assert_eq!(again.unwritten.lost, [lost]);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_ends_is_on_disk_when_it_answers_though_a_claim_need_not_be() {
    let world = World::new().await;
    let session = world.session().await;
    world.spawn(session, 2).await;
    let worker = world.worker().await;
    let claim = world.claim_one(&worker).await;
    // A throwaway server waits for the disk for nobody.
    let turn_over = format!("select from turn_over_1('{}', 0, {})", worker.id(), completion(&claim.lease));
    let mut held = world.hold(&format!("set local synchronous_commit = on; {turn_over}")).await;
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
    assert_eq!(worker.turn_over(&[ending], 5).await.unwrap().claims.len(), 0, "one runs, which is the cap");
    let ending = running.remove(0).lease.complete("done".to_owned(), None);
    assert_eq!(worker.turn_over(&[ending], 5).await.unwrap().claims.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_let_in_by_an_end_gets_its_slot_in_the_same_call() {
    let world = World::new().await;
    let session = world.session_with(|new| new.max_active = Some(1)).await;
    world.spawn_one(session, queued()).await;
    world.spawn_one(session, queued()).await;
    let worker = world.worker().await;
    let first = worker.claim(5).await.unwrap().remove(0);
    let slot = first.lease.slot();
    let ending = first.lease.complete("done".to_owned(), None);
    let next = worker.turn_over(&[ending], 0).await.unwrap().claims;
    assert_eq!(next.iter().map(|claim| claim.lease.slot()).collect::<Vec<_>>(), [slot]);
}
