//! What does not stay for ever: history of shared contexts, versions of agents, workers that
//! stopped, and sessions that MCP connections opened for themselves.

use adjutant_agent::{AgentDraft, DefinitionLimits, ErrorCode, SessionId};
use adjutant_store::{NewSession, Redefinition};
use serde_json::{Value, json};

use crate::store::shared_context::{call, task_call, write};
use crate::support::world::{World, assert_refused, turn};

async fn history(world: &World, session: SessionId, key: &str, limit: i64) -> Value {
    call(world, session, json!({"action": "read_history", "key": key, "limit": limit}))
        .await
        .unwrap()
}

fn versions(history: &Value) -> Vec<i64> {
    let changes = history["history"].as_array().unwrap().iter();
    changes.map(|change| change["version"].as_i64().unwrap()).collect()
}

async fn sql(world: &World, statement: &'static str) {
    sqlx::raw_sql(statement).execute(&world.sql).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_a_key_keeps_its_newest_changes_and_says_so() {
    let mut world = World::new().await;
    world.store = world.store.with_context_versions(3);
    let (session, _, mut claim) = world.one_running().await;
    write(&world, session, "other", "x").await.unwrap();
    for version in 1..=3 {
        write(&world, session, "a", &version.to_string()).await.unwrap();
    }
    let whole = history(&world, session, "a", 10).await;
    assert_eq!((versions(&whole), whole.get("kept_from_version")), (vec![3, 2, 1], None));
    claim.lease.checkpoint(&turn("x")).await.unwrap();
    let by_task = json!({"action": "write", "key": "a", "value": "4"});
    task_call(&claim.lease, "c", &by_task).await;
    call(&world, session, json!({"action": "delete", "key": "a"})).await.unwrap();
    let kept = history(&world, session, "a", 10).await;
    assert_eq!((versions(&kept), &kept["kept_from_version"]), (vec![4, 4, 3], &json!(3)));
    assert_eq!(kept["more"], false);
    let page = history(&world, session, "a", 1).await;
    assert_eq!((versions(&page), &page["kept_from_version"]), (vec![4], &json!(3)));
    assert_eq!(versions(&history(&world, session, "other", 10).await), [1], "each key by itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reduced_limit_shrinks_the_history_with_the_next_writes() {
    let mut world = World::new().await;
    let session = world.session().await;
    for _ in 0..40 {
        write(&world, session, "a", "x").await.unwrap();
    }
    world.store = world.store.with_context_versions(5);
    write(&world, session, "a", "x").await.unwrap();
    assert_eq!(world.count("select count(*) from context_history").await, 31, "ten a write");
    for _ in 0..4 {
        write(&world, session, "a", "x").await.unwrap();
    }
    assert_eq!(versions(&history(&world, session, "a", 10).await), [45, 44, 43, 42, 41]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_a_key_ends_30_days_after_the_key() {
    let world = World::new().await;
    let session = world.session().await;
    for key in ["gone", "back", "recent", "kept"] {
        write(&world, session, key, "x").await.unwrap();
    }
    for key in ["gone", "back"] {
        call(&world, session, json!({"action": "delete", "key": key})).await.unwrap();
    }
    sql(
        &world,
        "alter table context_history disable trigger user;
         update context_history set written_at = now() - interval '31 days';
         alter table context_history enable trigger user",
    )
    .await;
    call(&world, session, json!({"action": "delete", "key": "recent"})).await.unwrap();
    write(&world, session, "back", "again").await.unwrap();
    world.store.run_maintenance().await.unwrap();
    let gone = json!({"action": "read_history", "key": "gone"});
    assert_refused(call(&world, session, gone).await, ErrorCode::KeyNotFound);
    for (key, kept) in [("back", &[1][..]), ("recent", &[1, 1]), ("kept", &[1])] {
        assert_eq!(versions(&history(&world, session, key, 10).await), kept, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_20_versions_of_an_agent_are_kept() {
    let world = World::new().await;
    let session = world.session().await;
    let agent = |name: &str, prompt: i32| {
        let draft = AgentDraft {
            name: name.to_owned(),
            description: Some("x".to_owned()),
            system_prompt: Some(format!("Version {prompt}")),
            ..AgentDraft::default()
        };
        draft.check(&DefinitionLimits::default()).unwrap()
    };
    world.store.define(session, &agent("once", 1), Redefinition::Refuse).await.unwrap();
    for version in 1..=25 {
        world.store.publish_agents(&[agent("published", version)]).await.unwrap();
        world.store.define(session, &agent("own", version), Redefinition::Replace).await.unwrap();
    }
    for name in ["published", "own"] {
        let newest = world.store.agent(session, name).await.unwrap();
        assert_eq!((newest.version, newest.definition), (25, agent(name, 25)));
    }
    assert_eq!(world.count("select count(*) from agent").await, 41);
    assert_eq!(world.count("select count(*) from agent where version between 6 and 25").await, 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_forgotten_a_week_after_it_stopped() {
    let world = World::new().await;
    let (_session, holder, _claim) = world.one_running().await;
    let (living, stopped, recent) =
        (world.worker().await, world.worker().await, world.worker().await);
    for worker in [&holder, &stopped, &recent] {
        worker.stop().await.unwrap();
    }
    let long_ago = "update worker set stopped_at = now() - interval '8 days' where id = any($1)";
    let ids = vec![holder.id().0, stopped.id().0];
    sqlx::query(long_ago).bind(ids).execute(&world.sql).await.unwrap();
    world.store.run_maintenance().await.unwrap();
    let left = sqlx::query_scalar::<_, uuid::Uuid>("select id from worker order by id");
    let left = left.fetch_all(&world.sql).await.unwrap();
    let mut expected = vec![holder.id().0, living.id().0, recent.id().0];
    expected.sort();
    assert_eq!(left, expected, "one that still has a slot stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_mcp_connections_left_behind_end() {
    let world = World::new().await;
    let session = async |nth: u8| {
        let name = format!("mcp-00000000-0000-7000-8000-0000000000{nth:02}");
        let new = NewSession { tenant: "tenant".to_owned(), name, ..NewSession::default() };
        world.store.create_session(&new).await.unwrap().id
    };
    let (empty, with_task, with_note, with_agent) =
        (session(1).await, session(2).await, session(3).await, session(4).await);
    let (idle, lately_used, running) = (session(5).await, session(6).await, session(7).await);
    let named = world.session().await;
    write(&world, with_note, "a", "x").await.unwrap();
    let draft = AgentDraft {
        name: "a".to_owned(),
        description: Some("x".to_owned()),
        system_prompt: Some("x".to_owned()),
        ..AgentDraft::default()
    };
    let agent = draft.check(&DefinitionLimits::default()).unwrap();
    world.store.define(with_agent, &agent, Redefinition::Refuse).await.unwrap();
    for session in [with_task, idle, lately_used, running] {
        world.spawn(session, 1).await;
    }
    for session in [with_task, idle, lately_used] {
        world.store.cancel_by_number(session, "t_01".parse().unwrap()).await.unwrap();
    }
    sql(
        &world,
        "alter table event disable trigger user;
         update session set created_at = now() - interval '40 days' where id >= 5;
         update session set created_at = now() - interval '2 days' where id < 5;
         update event set at = now() - interval '35 days' where session in (5, 7);
         alter table event enable trigger user",
    )
    .await;
    assert_eq!((empty.0, idle.0, running.0, named.0), (1, 5, 7, 8));
    let fresh = session(8).await;
    world.store.run_maintenance().await.unwrap();
    let left = sqlx::query_as::<_, (i64, bool)>(
        "select id, archived_at is not null from session order by id",
    );
    let left = left.fetch_all(&world.sql).await.unwrap();
    let expected = [with_task, with_note, with_agent, idle, lately_used, running, named, fresh];
    assert_eq!(left, expected.map(|session| (session.0, session == idle)));
}

/// A call that has the session's lock has not committed its entry yet.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_session_that_is_just_used_is_not_deleted() {
    let world = World::new().await;
    let name = "mcp-00000000-0000-7000-8000-000000000001".to_owned();
    let new = NewSession { tenant: "tenant".to_owned(), name, ..NewSession::default() };
    let session = world.store.create_session(&new).await.unwrap().id;
    sql(&world, "update session set created_at = now() - interval '2 days'").await;
    let writing = world
        .hold("select session_context_1(1, '{\"action\": \"write\", \"key\": \"a\", \"value\": \"x\"}')")
        .await;
    world.store.run_maintenance().await.unwrap();
    writing.commit().await.unwrap();
    assert_eq!(session.0, 1);
    assert_eq!(world.count("select count(*) from session").await, 1);
}
