//! Streams over HTTP: stored events first, then new ones. Agents run in the worker's real loop,
//! with a scripted model.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::SessionId;
use adjutant_script::{Script, When, text, tool_call};
use adjutant_server::StreamLimits;
use adjutant_store::Operator;
use rand::RngExt;
use serde_json::json;

use crate::support::event_server::{EventServer, StreamedEvent, kinds};
use crate::support::fleet::{CLERK, Fleet, to};
use crate::support::worker_process::WorkerProcess;
use crate::support::world::{World, until};

/// Turns of a task, all but the last with one tool call.
fn script(assignment: &str, turns: u32, delay: Duration) -> Script {
    let mut script = Script::new().on(When::assignment(assignment));
    for turn in 1..turns {
        script =
            script.then(tool_call("lookup", json!({"word": format!("word {turn}")})).delay(delay));
    }
    script.then(text("The words are known.").delay(delay))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_streamed_when_it_is_stored() {
    let script = Script::new()
        .on(When::assignment("Wait"))
        .then(tool_call("held", json!({})).delay(Duration::from_millis(700)))
        .then(text("It is over."));
    let fleet = Fleet::new(script).await;
    let world = &fleet.world;
    let events = EventServer::start(world).await;
    let worker = fleet.worker();
    worker.until_logged("LISTEN connection works").await;
    let session = fleet.session("openai").await;
    let mut stream = events.session(world, session, "", None).await;
    let task = fleet.delegate(session, to(CLERK, "Wait for it.")).await;
    // The answer comes long after the start, and the tool is held: no other event wakes the stream
    // for it.
    stream.until("turn").await;
    let late: f64 = sqlx::query_scalar(
        "select extract(epoch from clock_timestamp() - at)::float8 from event where kind = 'turn'",
    )
    .fetch_one(&world.sql)
    .await
    .unwrap();
    fleet.tools.let_go();
    fleet.done(task).await.assert_completed("It is over.");
    assert!(late < 2.0, "the turn came {late} s after it was stored, at the pace of polls");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tasks_stream_is_complete_over_a_killed_worker_and_another_server() {
    let fleet = Fleet::new(script("Look up", 12, Duration::from_millis(200))).await;
    let world = &fleet.world;
    world.store.set_cap(0).await.unwrap();
    let session = fleet.session("openai").await;
    let first = EventServer::start(world).await;
    let mut worker = fleet.worker();
    let task = fleet.delegate(session, to(CLERK, "Look up words.")).await;
    // The worker knows of the watcher before it stores the first event.
    worker.until_logged("LISTEN connection works").await;
    let mut stream = first.task(task, "", None).await;
    let mut received = stream.until("spawned").await;
    world.store.set_cap(5).await.unwrap();
    received.extend(stream.until("turn").await);
    worker.kill();
    drop((first, stream));
    let second = EventServer::start(world).await;
    let mut stream = second.task(task, "", received.last().unwrap().id.as_deref()).await;
    let _other = fleet.worker();
    received.extend(stream.until("lost").await);
    let last = received.last().unwrap().id.clone();
    drop(stream);
    received.extend(second.task(task, "", last.as_deref()).await.rest().await);

    let of = |kind| received.iter().filter(|event| event.kind() == kind).count();
    assert_eq!(
        (of("spawned"), of("started"), of("turn"), of("lost"), of("completed")),
        (1, 2, 12, 1, 1)
    );
    assert_eq!(&kinds(&received)[..3], ["spawned", "started", "turn"]);
    assert_eq!(received.last().unwrap().kind(), "completed");
    let lost = received.iter().position(|event| event.kind() == "lost").unwrap();
    assert_eq!(received[lost + 1].kind(), "started");
    let turns = received.iter().filter(|event| event.kind() == "turn");
    let turns: Vec<_> = turns.filter_map(|event| event.data["turn"].as_i64()).collect();
    assert_eq!(turns, (1..=12).collect::<Vec<_>>());
    let same =
        |event: &&StreamedEvent| event.data["task_id"] == "t_01" && event.data["id"] == json!(task);
    assert_eq!(received.iter().filter(same).count(), received.len());

    let end = received.last().unwrap().id.as_deref();
    assert_eq!(second.task(task, "", end).await.status, 204, "there are no more events");
    assert_eq!(second.task(task, "?from=now", None).await.status, 204);
}

const LIFE: [&str; 8] = ["spawned", "started", "turn", "tool", "turn", "tool", "turn", "completed"];

/// More tasks than run at once.
const TASKS: usize = 80;

/// Reads the events of a session until all of its tasks have completed. After every few events it
/// reconnects, to any of the servers.
async fn read_with_reconnects(
    fleet: Arc<Fleet>,
    servers: Arc<[EventServer; 2]>,
    session: SessionId,
) -> Vec<StreamedEvent> {
    let (mut received, mut last, mut ended) = (Vec::new(), None::<String>, 0);
    while ended < TASKS {
        let (which, count) = (rand::rng().random_range(0..2), rand::rng().random_range(1..60));
        let mut stream = servers[which].session(&fleet.world, session, "", last.as_deref()).await;
        for _ in 0..count {
            let event = stream.next().await.expect("a session's stream does not end");
            ended += usize::from(event.kind() == "completed");
            received.push(event);
            if ended == TASKS {
                break;
            }
        }
        last = stream.last_id;
    }
    received
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_reconnect_miss_nothing_and_see_nothing_twice() {
    let fleet = Arc::new(Fleet::new(script("Look up", 3, Duration::ZERO)).await);
    let world = &fleet.world;
    world.store.set_cap(20).await.unwrap();
    let session = world
        .session_with(|session| {
            session.max_active = Some(20);
            session.model = Some("openai".to_owned());
        })
        .await;
    let servers = Arc::new([EventServer::start(world).await, EventServer::start(world).await]);
    let readers: Vec<_> = (0..8)
        .map(|_| tokio::spawn(read_with_reconnects(fleet.clone(), servers.clone(), session)))
        .collect();
    let _fleet = [1, 2].map(|_| WorkerProcess::start(fleet.work().args(["--lease-seconds", "30"])));
    let lists = (0..TASKS).map(|list| {
        let mut new = to(CLERK, &format!("Look up words of list {list}."));
        new.task.queue = true;
        new
    });
    let new: Vec<_> = lists.collect();
    world.store.delegate_all(session, &new, &Operator::default(), None).await.unwrap();
    for reader in readers {
        assert_complete(&reader.await.unwrap(), TASKS);
    }
    world.assert_sound().await;
}

/// Asserts that every event number is there once, and every event of each task, in order.
fn assert_complete(received: &[StreamedEvent], tasks: usize) {
    let ids: Vec<&str> = received.iter().filter_map(|event| event.id.as_deref()).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "no event comes twice");
    let numbers: Vec<usize> = ids.iter().filter_map(|id| id.parse().ok()).collect();
    assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>());
    let mut lives: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for event in received {
        lives.entry(event.data["task_id"].as_str().unwrap()).or_default().push(event.kind());
    }
    assert_eq!(lives.len(), tasks);
    for (task, life) in lives {
        assert_eq!(life, LIFE, "{task}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_new_events_gets_only_those_and_can_resume() {
    let world = World::new().await;
    let session = world.session().await;
    let events = EventServer::start(&world).await;
    world.spawn(session, 2).await;
    let worker = world.worker().await;
    let claim = world.claim_one(&worker).await;
    let mut stream = events.session(&world, session, "?from=now", None).await;
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    let received = stream.until("completed").await;
    assert_eq!(kinds(&received), ["started", "completed"]);
    assert_eq!(
        [&received[0].id, &received[1].id],
        [&Some("3.0".to_owned()), &Some("3".to_owned())]
    );
    let mut between = events.session(&world, session, "", Some("3.0")).await;
    assert_eq!(kinds(&between.until("completed").await), ["completed"]);
    let mut after = events.session(&world, session, "?after=2", None).await;
    assert_eq!(kinds(&after.until("completed").await), ["started", "completed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_for_streams_are_refused() {
    let world = World::new().await;
    let session = world.session().await;
    let task = world.spawn(session, 1).await[0].id;
    let events = EventServer::start(&world).await;
    for last in ["x", "-1", "0.0", "1.1", "2", "9999999999999999999"] {
        assert_eq!(events.session(&world, session, "", Some(last)).await.status, 400, "{last}");
    }
    for query in ["?after=x", "?from=then", "?text=1", "?test=true"] {
        assert_eq!(events.task(task, query, None).await.status, 400, "{query}");
    }
    assert_eq!(events.get("/v1/sessions/none/events", None).await.status, 404);
    assert_eq!(events.get("/v1/tasks/none/events", None).await.status, 404);
    let stranger = EventServer::with(&world, "stranger", StreamLimits::default()).await;
    assert_eq!(stranger.task(task, "", None).await.status, 404);
    assert_eq!(stranger.session(&world, session, "", None).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_limited_and_end_when_the_server_drains() {
    let world = World::new().await;
    let session = world.session().await;
    world.spawn(session, 1).await;
    let events =
        EventServer::with(&world, "tenant", StreamLimits { total: 2, per_tenant: 1 }).await;
    let mut stream = events.session(&world, session, "", None).await;
    assert_eq!(kinds(&stream.until("spawned").await), ["spawned"]);
    assert_eq!(events.session(&world, session, "", None).await.status, 429);
    drop(stream);
    let mut stream = None;
    until("the closed stream no longer counts", async || {
        let next = events.session(&world, session, "", None).await;
        let is_open = next.status == 200;
        stream = Some(next);
        is_open
    })
    .await;
    events.streams.stop();
    assert_eq!(stream.unwrap().rest().await.len(), 1);
}
