//! A session's permissions bound every task that is spawned in it, however it is spawned.

use adjutant_agent::{AgentConfig, OrchestratorConfig, Permissions, SessionId};
use adjutant_script::{Script, When, text, tool_call};
use adjutant_store::{NewTask, Operator, SessionChange};
use serde_json::{Value, json};

use crate::support::fleet::{CLERK, Fleet, to};
use crate::support::world::World;

fn permissions(deny: &[&str]) -> Permissions {
    Permissions { allow: None, deny: deny.iter().map(|pattern| (*pattern).to_owned()).collect() }
}

async fn agent_config(world: &World, number: i32) -> AgentConfig {
    let config: Value = sqlx::query_scalar("select config from task where number = $1")
        .bind(number)
        .fetch_one(&world.sql)
        .await
        .unwrap();
    serde_json::from_value(config).unwrap()
}

async fn forbid(world: &World, session: SessionId, change: Option<Permissions>) {
    let name: String = sqlx::query_scalar("select name from session where id = $1")
        .bind(session.0)
        .fetch_one(&world.sql)
        .await
        .unwrap();
    let change = SessionChange { permissions: Some(change), ..SessionChange::default() };
    world.store.change_session("tenant", &name, &change).await.unwrap();
}

fn with_tools() -> NewTask {
    let agent_config = AgentConfig {
        tools: vec!["fetch".to_owned(), "lookup".to_owned()],
        ..AgentConfig::default()
    };
    let Value::Object(config) = serde_json::to_value(agent_config).unwrap() else { panic!() };
    NewTask {
        agent: "anybody".to_owned(),
        config,
        assignment: "Do it.".to_owned(),
        ..NewTask::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_task_has_the_permissions_of_its_session_as_they_are_when_it_is_spawned() {
    let world = World::new().await;
    let session =
        world.session_with(|session| session.permissions = Some(permissions(&["look*"]))).await;
    let worker = world.worker().await;
    let first = world.spawn_one(session, with_tools()).await;
    let claim = world.claim_one(&worker).await;
    let child = claim.lease.spawn(&[with_tools()], None).await.unwrap();
    assert_eq!(
        agent_config(&world, child[0].number.0).await.allowed_tools().collect::<Vec<_>>(),
        ["fetch"],
        "a child"
    );
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    forbid(&world, session, Some(permissions(&["fetch"]))).await;
    assert_eq!(
        agent_config(&world, first.number.0).await.allowed_tools().collect::<Vec<_>>(),
        ["fetch"],
        "it keeps what it was spawned with"
    );
    let retry = world.store.retry_task("tenant", first.id, None).await.unwrap();
    assert_eq!(
        agent_config(&world, retry.number.0).await.allowed_tools().collect::<Vec<_>>(),
        ["lookup"],
        "a retry"
    );
    let on = world
        .store
        .continue_task(session, first.number, &to("", "Go on."), &Operator::default(), None)
        .await
        .unwrap();
    assert_eq!(
        agent_config(&world, on.number.0).await.allowed_tools().collect::<Vec<_>>(),
        ["lookup"],
        "what continues it"
    );
    forbid(&world, session, None).await;
    let free = world.store.retry_task("tenant", first.id, None).await.unwrap();
    assert_eq!(
        agent_config(&world, free.number.0).await.allowed_tools().collect::<Vec<_>>(),
        ["fetch", "lookup"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn children_and_batched_tasks_have_the_permissions_too() {
    let fleet = Fleet::new(Script::new()).await;
    let _worker = fleet.worker();
    let bound =
        fleet.world.session_with(|session| session.permissions = Some(permissions(&["*"]))).await;
    let free = fleet.session("openai").await;
    let (one, other) = tokio::join!(
        fleet.delegate(bound, to(CLERK, "One")),
        fleet.delegate(free, to(CLERK, "Other"))
    );
    let config = async |id: adjutant_agent::TaskId| -> AgentConfig {
        let config: Value = sqlx::query_scalar("select config from task where id = $1")
            .bind(id.0)
            .fetch_one(&fleet.world.sql)
            .await
            .unwrap();
        serde_json::from_value(config).unwrap()
    };
    assert_eq!(config(one).await.allowed_tools().count(), 0);
    assert!(config(other).await.allowed_tools().count() > 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_tool_is_neither_shown_nor_run_and_the_agent_continues() {
    let script = Script::new()
        .on(When::assignment("Try"))
        .then(
            tool_call("lookup", json!({"word": "x"}))
                .and_call("shared_context", json!({"action": "list_keys"})),
        )
        .then(text("It is not there."));
    let fleet = Fleet::new(script).await;
    let _worker = fleet.worker();
    let only = Permissions {
        allow: Some(vec!["shared_*".to_owned(), "fetch".to_owned()]),
        deny: vec!["fetch".to_owned()],
    };
    let session = fleet
        .world
        .session_with(|session| {
            session.model = Some("openai".to_owned());
            session.permissions = Some(only);
        })
        .await;
    let task = fleet.delegate(session, to(CLERK, "Try it.")).await;
    let done = fleet.done(task).await;
    done.assert_completed("It is not there.");
    let results = done.results_of(1);
    assert!(
        results[0]
            .starts_with("error: There is no tool \"lookup\"; your tools are: shared_context."),
        "{results:?}"
    );
    assert!(results[1].contains("keys"), "{results:?}");
    let body = done.requests[0].body.as_ref().unwrap();
    assert_eq!(body["tools"].as_array().unwrap().len(), 1, "{body}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_a_policy_inherits_nothing() {
    let world = World::new().await;
    let parent = OrchestratorConfig {
        system_prompt: Some("Verify.".to_owned()),
        ..OrchestratorConfig::default()
    };
    let session = world.session_with(|session| session.parent = parent).await;
    let task = world.spawn_one(session, with_tools()).await;
    assert_eq!(agent_config(&world, task.number.0).await.parent, None);
    assert_eq!(
        agent_config(&world, task.number.0).await.resolve().unwrap().config.system_prompt,
        ""
    );
}
