//! Calls that come at the same moment and are answered together: each gets what it would have got
//! alone.

use adjutant_agent::{
    AgentConfig, AgentDefinition, ErrorCode, OnWorkerLoss, SessionId, TaskNumber, TaskState,
};
use adjutant_store::{NewDelegation, NewTask, Operator, Redefinition, Result, Spawned, Store};
use futures::future::join_all;
use futures::poll;

use crate::support::world::{World, assert_refused};

fn agent(name: &str, prompt: &str) -> AgentDefinition {
    AgentDefinition {
        name: name.to_owned(),
        description: "Takes part".to_owned(),
        on_worker_loss: OnWorkerLoss::default(),
        tenants: None,
        config: AgentConfig {
            system_prompt: prompt.to_owned(),
            model: "m".to_owned(),
            ..AgentConfig::default()
        },
    }
}

async fn delegate(store: &Store, session: SessionId, agent: &str) -> Result<Spawned> {
    let task = NewTask {
        agent: agent.to_owned(),
        assignment: "x".to_owned(),
        queue: true,
        ..NewTask::default()
    };
    let new = NewDelegation { task, ..NewDelegation::default() };
    store.delegate(session, &new, &Operator::default(), None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_spawns_of_many_sessions_are_each_as_if_alone() {
    let world = World::new().await;
    let store = &world.store;
    store.publish_agents(&[agent("scribe", "of the config")]).await.unwrap();
    // Rooms for some and for all, so that a batch has both of what is plain and what is not.
    let sessions = [
        world.session_with(|session| session.max_active = Some(3)).await,
        world.session_with(|session| session.max_active = Some(50)).await,
    ];
    store.define(sessions[1], &agent("own", "of the session"), Redefinition::Refuse).await.unwrap();
    let archived = world.session().await;
    store.archive_session(archived).await.unwrap();

    let spawns = (0..20).flat_map(|_| {
        [(sessions[0], "scribe"), (sessions[1], "own"), (sessions[0], "own"), (archived, "scribe")]
    });
    let answers = join_all(
        spawns
            .map(async |(session, agent)| (session, agent, delegate(store, session, agent).await)),
    )
    .await;

    let mut numbers: [Vec<i32>; 2] = Default::default();
    for (session, agent, answer) in answers {
        if session == archived {
            assert_refused(answer, ErrorCode::SessionArchived);
        } else if session == sessions[0] && agent == "own" {
            assert_refused(answer, ErrorCode::AgentNotFound);
        } else {
            let spawned = answer.unwrap();
            assert_eq!(spawned.state, TaskState::Queued);
            assert!(spawned.queue_position.is_some());
            numbers[usize::from(session == sessions[1])].push(spawned.number.0);
        }
    }
    for numbers in &mut numbers {
        numbers.sort_unstable();
        assert_eq!(*numbers, (1..=20).collect::<Vec<_>>(), "each number once");
    }
    let in_line = world
        .count("select count(*) from queue where session = (select min(session) from queue)")
        .await;
    assert_eq!(in_line, 3, "no more than the window of the first session");
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_fills_the_window_of_a_session_and_no_more() {
    let world = World::new().await;
    let store = &world.store;
    store.publish_agents(&[agent("scribe", "of the config")]).await.unwrap();
    let first = world.session().await;
    let small = world.session_with(|session| session.max_active = Some(3)).await;
    // The first batch waits for the queue, and all other requests gather for the second.
    let queue = world.hold("lock table queue in share mode").await;
    let mut alone = Box::pin(delegate(store, first, "scribe"));
    assert!(poll!(&mut alone).is_pending());
    world.until_blocked(1).await;
    let mut together: Vec<_> = (0..5).map(|_| Box::pin(delegate(store, small, "scribe"))).collect();
    for one in &mut together {
        assert!(poll!(one).is_pending());
    }
    queue.commit().await.unwrap();
    alone.await.unwrap();
    for answer in join_all(together).await {
        answer.unwrap();
    }
    let of_the_second = "select count(*) from queue where session = (select max(id) from session)";
    assert_eq!(world.count(of_the_second).await, 3);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_session_does_not_delay_others() {
    let world = World::new().await;
    let store = &world.store;
    store.publish_agents(&[agent("scribe", "of the config")]).await.unwrap();
    let (busy, free) = (world.session().await, world.session().await);
    let lock =
        world.hold(&format!("select from session where id = {} for no key update", busy.0)).await;
    let stuck = tokio::spawn({
        let store = store.clone();
        async move { delegate(&store, busy, "scribe").await }
    });
    world.until_blocked(1).await;
    // Answered while the other is stuck, or this would never return.
    for _ in 0..3 {
        delegate(store, free, "scribe").await.unwrap();
    }
    assert!(!stuck.is_finished());
    lock.rollback().await.unwrap();
    assert_eq!(stuck.await.unwrap().unwrap().number, TaskNumber(1));
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_status_calls_each_return_their_own_task() {
    let world = World::new().await;
    let store = &world.store;
    let sessions = [world.session().await, world.session().await];
    let mut spawned = Vec::new();
    for session in sessions {
        spawned.extend(world.spawn(session, 8).await.into_iter().map(|task| (session, task)));
    }
    let worker = world.worker().await;
    let claim = world.claim_one(&worker).await;
    let statuses = join_all(
        spawned.iter().map(async |(session, task)| store.status(*session, task.number).await),
    );
    let missing = store.status(sessions[0], TaskNumber(9));
    let (statuses, missing) = tokio::join!(statuses, missing);
    assert_refused(missing, ErrorCode::TaskNotFound);
    for ((session, task), found) in spawned.iter().zip(statuses) {
        let found = found.unwrap();
        assert_eq!(found.id, task.id);
        let is_running = task.id == claim.lease.task();
        assert_eq!(found.state, if is_running { TaskState::Running } else { TaskState::Queued });
        let alone = store.status(*session, task.number).await.unwrap();
        assert_eq!(
            found.queue_position, alone.queue_position,
            "asked alone, nothing else happening"
        );
        let counted = sqlx::query_scalar::<_, Option<i32>>(
            "select queue_position from task_view where id = $1",
        );
        assert_eq!(
            found.queue_position,
            counted.bind(task.id.0).fetch_one(&world.sql).await.unwrap()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_line_is_a_thousand_long_and_no_other_tenants() {
    let world = World::new().await;
    let store = &world.store;
    store.publish_agents(&[agent("scribe", "of the config")]).await.unwrap();
    let long = world
        .session_with(|session| {
            session.max_active = Some(2000);
            session.max_queued = Some(2000);
        })
        .await;
    let other = world
        .session_with(|session| {
            session.tenant = "other".to_owned();
            session.max_active = Some(10);
        })
        .await;
    world.spawn(long, 998).await;
    for position in [998, 999, 1000, 1000] {
        assert_eq!(delegate(store, long, "scribe").await.unwrap().queue_position, Some(position));
    }
    for position in [0, 1] {
        assert_eq!(delegate(store, other, "scribe").await.unwrap().queue_position, Some(position));
    }
}
