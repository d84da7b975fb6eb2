//! Failed tries of model calls, which are kept with the task, and the circuits of models.

use std::time::Duration;

use adjutant_store::{FailedCall, FailedTries, GateCause, GateReason};

use crate::support::world::{World, assert_lost, race, turn};

const MINUTE: Duration = Duration::from_secs(60);

const REFUSED: GateCause<'static> = GateCause {
    reason: GateReason::Circuit,
    status: Some(401),
    error: Some("model `main` at host: 401 authentication_error"),
};

pub fn failed(tries: u32) -> FailedCall<'static> {
    FailedCall {
        model: "main",
        host: "host:1".to_owned(),
        tries: FailedTries { tries, spent: Duration::from_secs(3), ..FailedTries::default() },
        max_tries: 8,
        status: Some(503),
        error: "503 api_error",
        next_try: Duration::from_secs(6),
        waits: None,
    }
}

impl World {
    async fn circuit_is_due(&self) {
        let due = "update model_gate set closed_until = now() - interval '1 ms'";
        assert_eq!(sqlx::query(due).execute(&self.sql).await.unwrap().rows_affected(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_task_of_the_fleet_makes_the_next_call_of_a_circuit() {
    let world = World::new().await;
    assert!(world.store.close_gate("main", MINUTE, REFUSED).await.unwrap());
    let early = world.store.take_probe("main", MINUTE).await.unwrap();
    assert_eq!(
        (early.is_taken, early.status, early.error.as_deref()),
        (false, Some(401), REFUSED.error)
    );
    for _ in 0..2 {
        world.circuit_is_due().await;
        let probes = (0..8).map(|_| {
            let store = world.store.clone();
            async move { store.take_probe("main", MINUTE).await.unwrap() }
        });
        let probes = race(probes.collect()).await;
        assert_eq!(probes.iter().filter(|probe| probe.is_taken).count(), 1, "{probes:?}");
        for probe in probes {
            assert!(probe.closed_for > MINUTE / 2, "{probe:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circuit_is_closed_until_a_call_succeeds_whatever_else_closes_the_gate() {
    let world = World::new().await;
    let (session, _, claim) = world.one_running().await;
    let is_circuit = async || {
        world.store.preflight(claim.lease.task(), session, "main").await.unwrap().is_circuit
    };
    let limited = GateCause { reason: GateReason::RateLimit, ..GateCause::default() };
    assert!(world.store.close_gate("main", MINUTE, limited).await.unwrap());
    assert!(!world.store.close_gate("main", MINUTE * 2, limited).await.unwrap(), "closed already");
    assert!(!is_circuit().await);
    assert!(world.store.close_gate("main", MINUTE, REFUSED).await.unwrap(), "for another reason");
    assert!(!world.store.close_gate("main", MINUTE * 5, limited).await.unwrap());
    world.circuit_is_due().await;
    assert!(is_circuit().await, "its time has come, and it is closed");
    assert!(world.store.open_circuit("main").await.unwrap());
    assert!(!world.store.open_circuit("main").await.unwrap(), "once");
    assert!(!is_circuit().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_tries_count_for_the_call_under_way_and_a_lost_lease_records_none() {
    let world = World::new().await;
    let (session, worker, claim) = world.one_running().await;
    let number = claim.assignment.number;
    claim.lease.record_failed_call(&failed(1), None).await.unwrap();
    claim.lease.record_failed_call(&failed(2), Some("again")).await.unwrap();
    assert_eq!(claim.lease.failed_tries().await.unwrap(), failed(2).tries);
    let shown = world.store.status(session, number).await.unwrap().retrying.unwrap();
    assert_eq!(shown.text, "model `main` at host:1: 503 api_error, try 2 of 8, next in 6 s");
    claim.lease.release().write().await.unwrap();
    let mut again = world.claim_one(&worker).await;
    assert_eq!(again.lease.failed_tries().await.unwrap(), failed(2).tries, "over attempts");
    // The patience at a circuit begins with the first call that waits there.
    for _ in 0..2 {
        let waits = FailedCall { waits: Some(MINUTE), ..failed(2) };
        again.lease.record_failed_call(&waits, None).await.unwrap();
        let past = "update failed_call set waits_since = waits_since - interval '1 minute'";
        sqlx::query(past).execute(&world.sql).await.unwrap();
    }
    let waited = again.lease.failed_tries().await.unwrap().waited.unwrap();
    assert!(waited >= 2 * MINUTE, "{waited:?}");
    again.lease.checkpoint(&turn("at last")).await.unwrap();
    assert_eq!(again.lease.failed_tries().await.unwrap(), FailedTries::default());
    let status = world.store.status(session, number).await.unwrap();
    assert_eq!(status.retrying, None);
    assert_eq!(world.count("select count(*) from why_waiting").await, 0, "it runs");
    world.store.delete_stale_failed_calls().await.unwrap();
    assert_eq!(world.count("select count(*) from failed_call").await, 0);

    again.lease.record_failed_call(&failed(3), None).await.unwrap();
    sqlx::query("update slot set lease = gen_random_uuid() where task is not null")
        .execute(&world.sql)
        .await
        .unwrap();
    assert_lost(again.lease.record_failed_call(&failed(4), None).await);
    assert_lost(again.lease.record_failed_call(&failed(4), Some("again")).await);
    assert_eq!(again.lease.failed_tries().await.unwrap(), failed(3).tries);
}
