//! Drafts: what models have said of answers that are not stored yet, and when it counts.

use std::time::Duration;

use adjutant_store::{Draft, Lease};

use crate::support::world::{World, turn};

fn draft(lease: &Lease, answer: i32, text: &str) -> Vec<Draft> {
    let (slot, task, lease) = (lease.slot(), lease.task(), lease.id());
    vec![Draft { slot, task, lease, answer, text: text.to_owned() }]
}

impl World {
    async fn drafts(&self) -> i64 {
        self.count("select count(*) from draft").await
    }

    async fn cancelled_with(&self, lease: &Lease) -> Option<String> {
        let cancelled = self.store.cancel(lease.task()).await.unwrap();
        self.assert_sound().await;
        cancelled.partial_result
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_task_keeps_the_draft_of_its_unstored_answer() {
    let world = World::new().await;
    let (_, worker, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("so far")).await.unwrap();
    for text in ["And", "And then"] {
        worker.save_drafts(draft(&claim.lease, 2, text), &[]).await.unwrap();
    }
    assert_eq!(world.cancelled_with(&claim.lease).await.as_deref(), Some("And then"));
    assert_eq!(world.drafts().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_cancelled_in_its_first_turn_keeps_the_draft() {
    let world = World::new().await;
    let (_, worker, claim) = world.one_running().await;
    worker.save_drafts(draft(&claim.lease, 1, "Once\0"), &[]).await.unwrap();
    assert_eq!(world.cancelled_with(&claim.lease).await.as_deref(), Some("Once\u{fffd}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_does_not_count_when_its_answer_is_stored() {
    let world = World::new().await;
    let (_, worker, mut claim) = world.one_running().await;
    worker.save_drafts(draft(&claim.lease, 1, "all of"), &[]).await.unwrap();
    claim.lease.checkpoint(&turn("all of it")).await.unwrap();
    assert_eq!(world.cancelled_with(&claim.lease).await.as_deref(), Some("all of it"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_draft_is_deleted_and_others_stay() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    world.spawn(session, 2).await;
    let (one, other) = (world.claim_one(&worker).await, world.claim_one(&worker).await);
    let both = [draft(&one.lease, 1, "One"), draft(&other.lease, 1, "Other")].concat();
    worker.save_drafts(both, &[]).await.unwrap();
    worker.save_drafts(Vec::new(), &[one.lease.id()]).await.unwrap();
    assert_eq!(world.drafts().await, 1);
    assert_eq!(world.cancelled_with(&one.lease).await, None);
    assert_eq!(world.cancelled_with(&other.lease).await.as_deref(), Some("Other"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_draft_of_a_lost_attempt_is_not_shown_for_the_next_and_is_deleted() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.steady_worker().await;
    world.spawn(session, 2).await;
    let lost = [world.claim_one(&worker).await, world.claim_one(&worker).await];
    for claim in &lost {
        worker.save_drafts(draft(&claim.lease, 1, "Nobody stored this"), &[]).await.unwrap();
        world.expire(claim.lease.id()).await;
    }
    assert_eq!(worker.sweep(Duration::ZERO).await.unwrap().len(), 2);
    let again = world.claim_one(&worker).await;
    for claim in lost {
        worker.save_drafts(draft(&claim.lease, 1, "A worker that was asleep"), &[]).await.unwrap();
        assert_eq!(
            world.cancelled_with(&claim.lease).await,
            None,
            "whether it runs again or is queued"
        );
    }
    assert_eq!(world.drafts().await, 2);
    worker.save_drafts(draft(&again.lease, 1, "Too late"), &[]).await.unwrap();
    world.store.delete_stale_drafts().await.unwrap();
    assert_eq!(world.drafts().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_the_lease_drafts_nothing() {
    let world = World::new().await;
    let (_, worker, claim) = world.one_running().await;
    world.store.cancel(claim.lease.task()).await.unwrap();
    worker.save_drafts(draft(&claim.lease, 1, "Too late"), &[]).await.unwrap();
    assert_eq!(world.drafts().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_never_waits_for_the_checkpoint_of_its_answer() {
    let world = World::new().await;
    let (_, worker, claim) = world.one_running().await;
    let storing = world.hold("select from slot where task is not null for update").await;
    worker.save_drafts(draft(&claim.lease, 1, "Not now"), &[]).await.unwrap();
    storing.rollback().await.unwrap();
    assert_eq!(world.drafts().await, 0);
    worker.save_drafts(draft(&claim.lease, 1, "Now"), &[]).await.unwrap();
    world.store.delete_stale_drafts().await.unwrap();
    assert_eq!(world.cancelled_with(&claim.lease).await.as_deref(), Some("Now"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_leaves_no_draft() {
    let world = World::new().await;
    let (session, worker, claim) = world.one_running().await;
    worker.save_drafts(draft(&claim.lease, 1, "Soon gone"), &[]).await.unwrap();
    world.delete(session).await;
    assert_eq!(world.drafts().await, 0);
}
