//! The rows: which events there are, how they are numbered, and who may write them.

use adjutant_agent::{EventKind, FailureKind, ToolResult};
use adjutant_store::Event;

use crate::support::world::{World, turn};

async fn kinds(world: &World, session: adjutant_agent::SessionId) -> Vec<(EventKind, bool)> {
    let events = world.store.events(session, 0, 100).await.unwrap();
    let numbers: Vec<i64> = events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (1..=i64::try_from(events.len()).unwrap()).collect::<Vec<_>>());
    events.iter().map(|event| (event.kind, event.started_at.is_some())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_event_is_written_once_alone_or_with_the_first_write() {
    use EventKind::{Completed, Released, Spawned, Started, Turn};
    let world = World::new().await;
    let (session, worker, claim) = world.one_running().await;
    claim.lease.release().write().await.unwrap();
    let mut second = world.claim_one(&worker).await;
    assert_eq!(
        worker.record_starts(&[second.lease.started_attempt()]).await.unwrap(),
        [second.lease.id()]
    );
    assert_eq!(
        worker.record_starts(&[second.lease.started_attempt()]).await.unwrap(),
        [second.lease.id()]
    );
    second.lease.checkpoint(&turn("one")).await.unwrap();
    second.lease.release().write().await.unwrap();
    let mut third = world.claim_one(&worker).await;
    third.lease.checkpoint(&turn("two")).await.unwrap();
    assert_eq!(
        worker.record_starts(&[third.lease.started_attempt()]).await.unwrap(),
        [third.lease.id()]
    );
    third.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(
        kinds(&world, session).await,
        [
            (Spawned, false),
            (Released, true),
            (Started, true),
            (Turn, false),
            (Released, false),
            (Turn, true),
            (Completed, false),
        ]
    );
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_writes_no_start_event() {
    let world = World::new().await;
    let (session, worker, claim) = world.one_running().await;
    let stale = claim.lease.started_attempt();
    world.expire(stale.lease).await;
    worker.sweep(std::time::Duration::ZERO).await.unwrap();
    let current = world.claim_one(&worker).await;
    assert!(worker.record_starts(&[stale]).await.unwrap().is_empty());
    let events = kinds(&world, session).await;
    assert_eq!(events, [(EventKind::Spawned, false), (EventKind::Lost, true)]);
    drop(current);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_have_the_cost_of_turns_the_tools_and_the_failure() {
    let world = World::new().await;
    let (session, _, mut claim) = world.one_running().await;
    claim.lease.checkpoint(&turn("one")).await.unwrap();
    let result = ToolResult {
        call: "a".to_owned(),
        content: "42".to_owned(),
        is_error: false,
        duration_ms: 1,
    };
    for _ in 0..2 {
        claim.lease.tool_result(Some("lookup"), &result).await.unwrap();
    }
    let unknown = ToolResult { call: "b".to_owned(), is_error: true, ..result };
    claim.lease.tool_result(None, &unknown).await.unwrap();
    claim.lease.fail(FailureKind::Model, "It did not work".to_owned(), None).write().await.unwrap();
    let events = world.store.events(session, 1, 100).await.unwrap();
    let [turned, used, other, failed] = events.as_slice() else { panic!("{events:#?}") };
    let answer = turned.answer.as_ref().unwrap();
    assert_eq!(
        (turned.turn, answer.spent.input_tokens, answer.spent.cost_nanousd),
        (Some(1), 10, 30)
    );
    let tool = |event: &Event| event.tool.as_ref().map(|tool| (tool.name.clone(), tool.is_error));
    assert_eq!(tool(used), Some((Some("lookup".to_owned()), false)));
    assert_eq!(tool(other), Some((None, true)));
    assert_eq!(
        (failed.failure, failed.error.as_deref()),
        (Some(FailureKind::Model), Some("It did not work"))
    );
    assert_eq!(failed.spent.map(|spent| spent.output_tokens), Some(2));
    assert_eq!(failed.attempt, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_waits_for_its_session_before_it_takes_its_slot() {
    let world = World::new().await;
    let (session, _, mut claim) = world.one_running().await;
    let lock = format!("select from session where id = {} for no key update", session.0);
    let mut hold = world.hold(&lock).await;
    let slot = claim.lease.slot();
    let storing = tokio::spawn(async move { claim.lease.checkpoint(&turn("one")).await });
    world.until_blocked(1).await;
    // As an end or a cancel does; whoever had the slot already would now wait for us, and we for
    // it.
    sqlx::query("select from slot where n = $1 for update")
        .bind(slot)
        .execute(&mut *hold)
        .await
        .unwrap();
    hold.commit().await.unwrap();
    storing.await.unwrap().unwrap();
    world.assert_sound().await;
}
