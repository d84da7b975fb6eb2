//! Streams over HTTP: history and what is new are one.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use adjutant_agent::SessionId;
use adjutant_server::StreamLimits;
use rand::RngExt;
use serde_json::json;

use super::front::{Front, Told, kinds};
use crate::fleet::load::rehearsal;
use crate::fleet::process::{WorkerProcess, work};
use crate::world::{World, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_tasks_stream_is_whole_over_a_killed_worker_and_another_server() {
    let world = World::new().await;
    world.store.set_cap(0).await.unwrap();
    let session = world.session().await;
    let first = Front::open(&world).await;
    let task = world.spawn_one(session, rehearsal(json!({"turns": 12, "turn_ms": 200}))).await.id;
    let mut worker = WorkerProcess::on(world.url());
    // It hears of the watcher before there is something to tell.
    worker.says("notices come through").await;
    let mut stream = first.task(task, "", None).await;
    let mut told = stream.until("spawned").await;
    world.store.set_cap(5).await.unwrap();
    told.extend(stream.until("turn").await);
    worker.kill();
    drop((first, stream));
    let second = Front::open(&world).await;
    let mut stream = second.task(task, "", told.last().unwrap().id.as_deref()).await;
    let _other = WorkerProcess::on(world.url());
    told.extend(stream.until("lost").await);
    let last = told.last().unwrap().id.clone();
    drop(stream);
    told.extend(second.task(task, "", last.as_deref()).await.rest().await);

    let of = |kind| told.iter().filter(|event| event.kind() == kind).count();
    assert_eq!((of("spawned"), of("started"), of("turn"), of("lost"), of("completed")), (1, 2, 12, 1, 1));
    assert_eq!(&kinds(&told)[..3], ["spawned", "started", "turn"]);
    assert_eq!(told.last().unwrap().kind(), "completed");
    let lost = told.iter().position(|event| event.kind() == "lost").unwrap();
    assert_eq!(told[lost + 1].kind(), "started");
    let turns: Vec<_> = told.iter().filter_map(|event| event.data["turn"].as_i64()).collect();
    assert_eq!(turns, (1..=12).collect::<Vec<_>>());
    let same = |event: &&Told| event.data["task_id"] == "t_01" && event.data["id"] == json!(task);
    assert_eq!(told.iter().filter(same).count(), told.len());

    let end = told.last().unwrap().id.as_deref();
    assert_eq!(second.task(task, "", end).await.status, 204, "there is nothing more to come");
    assert_eq!(second.task(task, "?from=now", None).await.status, 204);
}

/// More than a session runs at once.
const TASKS: usize = 80;

/// Reads a session until all of its tasks have completed, and comes back after every few events, to any of the servers.
async fn read(world: Arc<World>, fronts: Arc<[Front; 2]>, session: SessionId) -> Vec<Told> {
    let (mut told, mut last, mut ended) = (Vec::new(), None::<String>, 0);
    while ended < TASKS {
        let (which, count) = (rand::rng().random_range(0..2), rand::rng().random_range(1..60));
        let mut stream = fronts[which].session(&world, session, "", last.as_deref()).await;
        for _ in 0..count {
            let event = stream.next().await.expect("a session's stream does not end");
            ended += usize::from(event.kind() == "completed");
            told.push(event);
            if ended == TASKS {
                break;
            }
        }
        last = stream.last_id;
    }
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_come_back_anywhere_miss_nothing_and_see_nothing_twice() {
    let world = Arc::new(World::new().await);
    world.store.set_cap(20).await.unwrap();
    let session = world.session_with(|session| session.max_active = Some(20)).await;
    let fronts = Arc::new([Front::open(&world).await, Front::open(&world).await]);
    let readers: Vec<_> =
        (0..8).map(|_| tokio::spawn(read(world.clone(), fronts.clone(), session))).collect();
    let _fleet = [1, 2].map(|_| WorkerProcess::start(work(world.url()).args(["--lease-seconds", "30"])));
    world.store.spawn(session, &vec![rehearsal(json!({"turns": 3})); TASKS], None).await.unwrap();
    for reader in readers {
        whole(&reader.await.unwrap(), TASKS);
    }
    world.assert_sound().await;
}

/// All numbers, each once; and of every task its whole life, in order.
fn whole(told: &[Told], tasks: usize) {
    let ids: Vec<&str> = told.iter().filter_map(|event| event.id.as_deref()).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "nothing twice");
    let numbers: Vec<usize> = ids.iter().filter_map(|id| id.parse().ok()).collect();
    assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>());
    let mut lives: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for event in told {
        lives.entry(event.data["task_id"].as_str().unwrap()).or_default().push(event.kind());
    }
    assert_eq!(lives.len(), tasks);
    for (task, life) in lives {
        assert_eq!(life, ["spawned", "started", "turn", "turn", "turn", "completed"], "{task}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_what_is_new_gets_only_that_and_has_a_place_to_come_back_to() {
    let world = World::new().await;
    let session = world.session().await;
    let front = Front::open(&world).await;
    world.spawn(session, 2).await;
    let worker = world.worker().await;
    let claim = world.claim_one(&worker).await;
    let mut stream = front.session(&world, session, "?from=now", None).await;
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    let told = stream.until("completed").await;
    assert_eq!(kinds(&told), ["started", "completed"]);
    assert_eq!([&told[0].id, &told[1].id], [&Some("3.0".to_owned()), &Some("3".to_owned())]);
    let mut between = front.session(&world, session, "", Some("3.0")).await;
    assert_eq!(kinds(&between.until("completed").await), ["completed"]);
    let mut after = front.session(&world, session, "?after=2", None).await;
    assert_eq!(kinds(&after.until("completed").await), ["started", "completed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_refused() {
    let world = World::new().await;
    let session = world.session().await;
    let task = world.spawn(session, 1).await[0].id;
    let front = Front::open(&world).await;
    for last in ["x", "-1", "0.0", "1.1", "2", "9999999999999999999"] {
        assert_eq!(front.session(&world, session, "", Some(last)).await.status, 400, "{last}");
    }
    for query in ["?after=x", "?from=then", "?text=1", "?test=true"] {
        assert_eq!(front.task(task, query, None).await.status, 400, "{query}");
    }
    assert_eq!(front.get("/v1/sessions/none/events", None).await.status, 404);
    assert_eq!(front.get("/v1/tasks/none/events", None).await.status, 404);
    let stranger = Front::with(&world, "stranger", StreamLimits::default()).await;
    assert_eq!(stranger.task(task, "", None).await.status, 404);
    assert_eq!(stranger.session(&world, session, "", None).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_limited_and_end_when_their_server_leaves() {
    let world = World::new().await;
    let session = world.session().await;
    world.spawn(session, 1).await;
    let front = Front::with(&world, "tenant", StreamLimits { of_all: 2, of_a_tenant: 1 }).await;
    let mut stream = front.session(&world, session, "", None).await;
    assert_eq!(kinds(&stream.until("spawned").await), ["spawned"]);
    assert_eq!(front.session(&world, session, "", None).await.status, 429);
    drop(stream);
    let mut stream = None;
    until("its place is free again", async || {
        let next = front.session(&world, session, "", None).await;
        let is_open = next.status == 200;
        stream = Some(next);
        is_open
    })
    .await;
    front.streams.stop();
    assert_eq!(stream.unwrap().rest().await.len(), 1);
}
