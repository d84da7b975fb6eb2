use adjutant_agent::ErrorCode;
use adjutant_store::{IdempotencyKey, NewTask};
use serde_json::json;

use crate::store::shared_context::{call, context, list_keys, read, task_call, write};
use crate::store::snapshots::{
    claim, context_call, everything, everything_of, note, one_apart, overlay_rows, with_snapshot,
};
use crate::support::world::{World, assert_lost, assert_refused, queued, task, turn};

#[tokio::test(flavor = "multi_thread")]
async fn row_4_6_a_task_starts_with_its_sessions_entries() {
    let world = World::new().await;
    let session = world.session().await;
    for (key, value) in [("plan", "first"), ("plan", "second"), ("other", "")] {
        write(&world, session, key, value).await.unwrap();
    }
    call(&world, session, json!({"action": "snapshot", "label": "early"})).await.unwrap();
    let before = everything(&world, session).await;
    let label =
        call(&world, session, json!({"action": "read_snapshot", "label": "early"})).await.unwrap();
    world.spawn_one(session, with_snapshot()).await;
    // All of this is after the spawn.
    write(&world, session, "plan", "third").await.unwrap();
    write(&world, session, "third", "new").await.unwrap();
    call(&world, session, json!({"action": "delete", "key": "other"})).await.unwrap();
    call(&world, session, json!({"action": "snapshot", "label": "early"})).await.unwrap();
    let mut claim = claim(&world).await;
    assert_eq!(everything_of(&mut claim.lease).await, before);
    assert_eq!(
        context_call(&mut claim.lease, json!({"action": "read_snapshot", "label": "early"})).await,
        label
    );
    let history =
        context_call(&mut claim.lease, json!({"action": "read_history", "key": "plan"})).await;
    let versions: Vec<_> =
        history["history"].as_array().unwrap().iter().map(|entry| &entry["version"]).collect();
    assert_eq!(versions, [2], "its history begins with the snapshot");
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_4_8_a_task_on_a_snapshot_never_changes_the_session() {
    let world = World::new().await;
    let (session, mut claim) = one_apart(&world).await;
    let before = everything(&world, session).await;
    assert_eq!(note(&mut claim.lease, "plan", "mine").await["version"], 2);
    assert_eq!(note(&mut claim.lease, "own", "mine").await["version"], 1);
    context_call(&mut claim.lease, json!({"action": "snapshot", "label": "mine"})).await;
    assert_eq!(
        context_call(&mut claim.lease, json!({"action": "delete", "key": "own"})).await["previous_version"],
        1
    );
    assert_eq!(note(&mut claim.lease, "own", "again").await["version"], 1);
    let entry = context_call(&mut claim.lease, json!({"action": "read", "key": "plan"})).await;
    assert_eq!(entry["value"], "mine");
    assert_eq!(entry["written_by"], "subagent:tester:t_01");
    let kept =
        context_call(&mut claim.lease, json!({"action": "read_snapshot", "label": "mine"})).await;
    assert_eq!(kept["entries"].as_array().unwrap().len(), 2);
    let history =
        context_call(&mut claim.lease, json!({"action": "read_history", "key": "own"})).await;
    assert_eq!(
        history["history"].as_array().unwrap().len(),
        3,
        "written, deleted, written: {history}"
    );
    assert_eq!(everything(&world, session).await, before);
    let label = call(&world, session, json!({"action": "read_snapshot", "label": "mine"})).await;
    assert_refused(label, ErrorCode::KeyNotFound);
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(everything(&world, session).await, before);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_on_snapshots_see_neither_each_other_nor_the_session() {
    let world = World::new().await;
    let session = world.session().await;
    world.store.spawn(session, &[with_snapshot(), with_snapshot(), queued()], None).await.unwrap();
    let (mut one, mut other, mut sharing) =
        (claim(&world).await, claim(&world).await, claim(&world).await);
    for (claim, value) in [(&mut one, "one"), (&mut other, "other"), (&mut sharing, "shared")] {
        assert_eq!(note(&mut claim.lease, "who", value).await["version"], 1);
    }
    for (claim, value) in [(&mut one, "one"), (&mut other, "other"), (&mut sharing, "shared")] {
        assert_eq!(
            context_call(&mut claim.lease, json!({"action": "read", "key": "who"})).await["value"],
            value
        );
    }
    assert_eq!(read(&world, session, "who").await.unwrap()["value"], "shared");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limits_of_a_context_hold_for_an_overlay() {
    let world = World::new().await;
    let session = world.session().await;
    for key in 0..10 {
        write(&world, session, &format!("k{key}"), &"x".repeat(4003)).await.unwrap();
    }
    world.spawn_one(session, with_snapshot()).await;
    call(&world, session, json!({"action": "delete", "key": "k0"})).await.unwrap();
    let mut claim = claim(&world).await;
    let full = note(&mut claim.lease, "more", "").await;
    assert_eq!(full["error"], "STORE_FULL", "what the session deletes makes no room here: {full}");
    assert_eq!(
        context_call(&mut claim.lease, json!({"action": "list_keys"})).await["total_size_tokens"],
        10_000
    );
    context_call(&mut claim.lease, json!({"action": "delete", "key": "k1"})).await;
    assert_eq!(note(&mut claim.lease, "more", &"x".repeat(4003)).await["version"], 1);
    assert_eq!(note(&mut claim.lease, "one_more", "x").await["error"], "STORE_FULL");
    write(&world, session, "k0", "there is room in the session").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_snapshot_is_taken_in_the_transaction_of_the_spawn() {
    let world = World::new().await;
    let session = world.session().await;
    write(&world, session, "plan", "old").await.unwrap();
    let call = json!({"action": "write", "key": "plan", "value": "new"});
    let writing = world.hold(&format!("select session_context_1({}, '{call}')", session.0)).await;
    let store = world.store.clone();
    let spawning =
        tokio::spawn(async move { store.spawn(session, &[with_snapshot()], None).await });
    world.until_blocked(1).await;
    writing.commit().await.unwrap();
    spawning.await.unwrap().unwrap();
    let mut claim = claim(&world).await;
    assert_eq!(
        context_call(&mut claim.lease, json!({"action": "read", "key": "plan"})).await["value"],
        "new"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spawn_that_is_refused_leaves_no_overlay() {
    let world = World::new().await;
    let session = world.session_with(|session| session.max_active = Some(1)).await;
    write(&world, session, "plan", "text").await.unwrap();
    world.spawn(session, 1).await;
    let impatient = NewTask { queue: false, ..with_snapshot() };
    assert_refused(
        world.store.spawn(session, &[impatient], None).await,
        ErrorCode::MaxTasksExceeded,
    );
    assert_eq!(overlay_rows(&world).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_spawn_takes_one_snapshot() {
    let world = World::new().await;
    let session = world.session().await;
    write(&world, session, "plan", "first").await.unwrap();
    let key = IdempotencyKey { key: "k", body: b"" };
    let spawned = world.store.spawn(session, &[with_snapshot()], Some(key)).await.unwrap();
    write(&world, session, "plan", "second").await.unwrap();
    assert_eq!(world.store.spawn(session, &[with_snapshot()], Some(key)).await.unwrap(), spawned);
    assert_eq!(overlay_rows(&world).await, 2, "an entry, and its history");
    let mut claim = claim(&world).await;
    assert_eq!(
        context_call(&mut claim.lease, json!({"action": "read", "key": "plan"})).await["value"],
        "first"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_happens_once_and_only_under_the_lease() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.steady_worker().await;
    world.spawn_one(session, with_snapshot()).await;
    let mut stale = world.claim_one(&worker).await;
    stale.lease.checkpoint(&turn("one")).await.unwrap();
    let arguments = json!({"action": "write", "key": "a", "value": "text"});
    let (_, first) = task_call(&stale.lease, "c1", &arguments).await;
    assert_eq!(
        task_call(&stale.lease, "c1", &arguments).await.1,
        first,
        "asked again after an unanswered call"
    );
    world.expire(stale.lease.id()).await;
    assert_eq!(worker.sweep(std::time::Duration::ZERO).await.unwrap().len(), 1);
    let mut next = world.claim_one(&worker).await;
    assert_lost(stale.lease.shared_context("c2", &context(&arguments)).await);
    assert_eq!(
        task_call(&next.lease, "c1", &arguments).await.1,
        first,
        "the next attempt finds result and write"
    );
    assert_eq!(
        context_call(&mut next.lease, json!({"action": "read", "key": "a"})).await["version"],
        1
    );
    assert_eq!(list_keys(&world, session).await["keys"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn in_an_archived_session_an_overlay_is_read_and_not_written() {
    let world = World::new().await;
    let (session, mut claim) = one_apart(&world).await;
    world.store.archive_session(session).await.unwrap();
    assert_eq!(note(&mut claim.lease, "plan", "late").await["error"], "SESSION_ARCHIVED");
    assert_eq!(
        context_call(&mut claim.lease, json!({"action": "read", "key": "plan"})).await["value"],
        "before"
    );
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    assert_eq!(overlay_rows(&world).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn children_share_the_context_of_their_parent() {
    let world = World::new().await;
    let (session, mut parent) = one_apart(&world).await;
    note(&mut parent.lease, "plan", "the parent's").await;
    let apart = NewTask { context: adjutant_store::TaskContext::Snapshot, ..task() };
    parent.lease.spawn(&[task(), apart], None).await.unwrap();
    let (mut child, mut apart) = (claim(&world).await, claim(&world).await);
    for lease in [&mut child.lease, &mut apart.lease] {
        assert_eq!(
            context_call(lease, json!({"action": "read", "key": "plan"})).await["value"],
            "the parent's"
        );
    }
    note(&mut child.lease, "plan", "the child's").await;
    note(&mut apart.lease, "plan", "its own").await;
    assert_eq!(
        context_call(&mut parent.lease, json!({"action": "read", "key": "plan"})).await["value"],
        "the child's"
    );
    assert_eq!(read(&world, session, "plan").await.unwrap()["value"], "before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_continues_one_on_a_snapshot_gets_a_new_snapshot() {
    let world = World::new().await;
    let (session, mut first) = one_apart(&world).await;
    note(&mut first.lease, "plan", "gone with it").await;
    let id = first.lease.task();
    first.lease.complete("done".to_owned(), None).write().await.unwrap();
    write(&world, session, "plan", "now").await.unwrap();
    let more = adjutant_store::NewDelegation {
        task: NewTask { assignment: "More.".to_owned(), ..NewTask::default() },
        ..adjutant_store::NewDelegation::default()
    };
    world.store.retry_task("tenant", id, None).await.unwrap();
    let number = adjutant_agent::TaskNumber(1);
    let operator = adjutant_store::Operator::default();
    world.store.continue_task(session, number, &more, &operator, None).await.unwrap();
    write(&world, session, "plan", "later").await.unwrap();
    for _ in 0..2 {
        let mut next = claim(&world).await;
        assert_eq!(
            context_call(&mut next.lease, json!({"action": "read", "key": "plan"})).await["value"],
            "now"
        );
        note(&mut next.lease, "plan", "apart").await;
    }
    assert_eq!(read(&world, session, "plan").await.unwrap()["value"], "later");
}
