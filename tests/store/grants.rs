//! What keys are granted: agents, models and pools are refused at the spawn, and every task of a
//! tree carries the grants.

use std::sync::Arc;

use adjutant_agent::{
    AgentConfig, AgentDefinition, ErrorCode, Grants, OnWorkerLoss, SessionId, TaskId,
};
use adjutant_store::{
    Actor, NewDelegation, NewTask, Operator, PublishedTool, Redefinition, Spawned, Store,
};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::world::{World, assert_refused, tool};

fn agent(name: &str, model: &str, tenants: Option<&[&str]>) -> AgentDefinition {
    AgentDefinition {
        name: name.to_owned(),
        description: "Takes part".to_owned(),
        on_worker_loss: OnWorkerLoss::default(),
        tenants: tenants.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
        config: AgentConfig {
            system_prompt: "You take part.".to_owned(),
            model: model.to_owned(),
            tools: vec!["fetch".to_owned(), "pay".to_owned()],
            ..AgentConfig::default()
        },
    }
}

fn to(agent: &str) -> NewDelegation {
    let task = NewTask {
        agent: agent.to_owned(),
        assignment: "x".to_owned(),
        queue: true,
        ..NewTask::default()
    };
    NewDelegation { task, ..NewDelegation::default() }
}

fn grants(value: Value) -> Grants {
    serde_json::from_value(value).unwrap()
}

/// The store as a key of this tenant with these grants uses it.
fn as_key(store: &Store, tenant: &str, value: Value) -> Store {
    let actor = Actor {
        tenant: Some(tenant.to_owned()),
        grants: Arc::new(grants(value)),
        ..Actor::default()
    };
    store.acting_for(Arc::new(actor))
}

async fn delegate(
    store: &Store,
    session: SessionId,
    agent: &str,
) -> adjutant_store::Result<Spawned> {
    store.delegate(session, &to(agent), &Operator::default(), None).await
}

async fn grants_of(world: &World, task: TaskId) -> Value {
    let found: Option<Value> =
        sqlx::query_scalar("select config -> 'grants' from task where id = $1")
            .bind(task.0)
            .fetch_one(&world.sql)
            .await
            .unwrap();
    found.unwrap_or_default()
}

async fn world() -> (World, SessionId) {
    let world = World::new().await;
    let agents = [
        agent("researcher", "cheap", None),
        agent("research-lead", "dear", None),
        agent("writer", "cheap", None),
        agent("secretary", "cheap", Some(&["acme"])),
    ];
    world.store.publish_agents(&agents).await.unwrap();
    let session = world.session().await;
    (world, session)
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_models_and_pools_that_are_not_granted_are_refused_at_the_spawn() {
    let (world, session) = world().await;
    let narrow = json!({"agents": ["research*"], "models": ["ch*"], "pools": ["default"]});
    let store = as_key(&world.store, "tenant", narrow.clone());
    let spawned = delegate(&store, session, "researcher").await.unwrap();
    assert_eq!(grants_of(&world, spawned.id).await, narrow);

    let message =
        assert_refused(delegate(&store, session, "writer").await, ErrorCode::AgentNotFound);
    let unknown =
        assert_refused(delegate(&store, session, "nobody").await, ErrorCode::AgentNotFound);
    assert_eq!(message.replace("writer", "nobody"), unknown, "it does not say that there is one");
    assert_refused(delegate(&store, session, "research-lead").await, ErrorCode::InvalidModel);
    let mut pooled = to("researcher");
    pooled.task.pool = "gpu".to_owned();
    let refused = store.delegate(session, &pooled, &Operator::default(), None).await;
    assert!(assert_refused(refused, ErrorCode::InvalidArgument).starts_with("pool: "));
    let batch = [to("researcher"), to("writer")];
    let refused = store.delegate_all(session, &batch, &Operator::default(), None).await;
    assert_refused(refused, ErrorCode::AgentNotFound);
    let mut given = to("researcher");
    given.config = Some(agent("researcher", "dear", None).config);
    let refused = store.delegate(session, &given, &Operator::default(), None).await;
    assert_refused(refused, ErrorCode::InvalidModel);
    let refused =
        store.delegate_unless_strict(session, &to("writer"), &Operator::default(), None).await;
    assert_refused(refused, ErrorCode::AgentNotFound);
    assert_eq!(world.count("select count(*) from task").await, 1, "no other task exists");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_children_of_a_task_are_bound_by_the_key_that_spawned_its_tree() {
    let (world, session) = world().await;
    let narrow = json!({"agents": ["research*"], "models": ["cheap"], "tools": ["fetch"]});
    delegate(&as_key(&world.store, "tenant", narrow.clone()), session, "researcher").await.unwrap();
    let worker = world.worker().await;
    let claim = world.claim_one(&worker).await;
    let lease = &claim.lease;
    let operator = Operator::default();
    for (name, code) in
        [("writer", ErrorCode::AgentNotFound), ("research-lead", ErrorCode::InvalidModel)]
    {
        assert_refused(lease.delegate("call", &[to(name)], &operator).await, code);
    }
    let child = lease.delegate("call", &[to("researcher")], &operator).await.unwrap();
    assert_eq!(grants_of(&world, child[0].id).await, narrow);
    let Value::Object(config) = json!({"model": "cheap", "tools": ["pay"], "grants": {}}) else {
        panic!()
    };
    let own = NewTask {
        agent: "researcher".to_owned(),
        assignment: "y".to_owned(),
        config,
        ..NewTask::default()
    };
    let child = lease.spawn(std::slice::from_ref(&own), None).await.unwrap();
    assert_eq!(grants_of(&world, child[0].id).await, narrow, "its configuration cannot widen them");
    let other = NewTask { agent: "writer".to_owned(), ..own };
    assert_refused(lease.spawn(&[other], None).await, ErrorCode::AgentNotFound);
    let grandchild = world.claim_one(&worker).await;
    let again = grandchild.lease.delegate("call", &[to("writer")], &operator).await;
    assert_refused(again, ErrorCode::AgentNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_cannot_bring_grants() {
    let (world, session) = world().await;
    let mut new = to("researcher");
    let mut config = agent("researcher", "cheap", None).config;
    config.grants = Some(grants(json!({"tools": []})));
    new.config = Some(config);
    let spawned = world.store.delegate(session, &new, &Operator::default(), None).await.unwrap();
    assert_eq!(grants_of(&world, spawned.id).await, Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_and_a_continuation_give_a_task_nothing_that_it_did_not_have() {
    let (world, session) = world().await;
    let narrow = json!({"tools": ["fetch"]});
    let first = delegate(&as_key(&world.store, "tenant", narrow.clone()), session, "research-lead")
        .await
        .unwrap();
    let worker = world.worker().await;
    let claim = world.claim_one(&worker).await;
    claim.lease.complete("done".to_owned(), None).write().await.unwrap();

    let retry = world.store.retry_task("tenant", first.id, None).await.unwrap();
    assert_eq!(grants_of(&world, retry.id).await, narrow, "a retry by an operator");
    let on = async |store: &Store| {
        store.continue_task(session, first.number, &to(""), &Operator::default(), None).await
    };
    assert_eq!(grants_of(&world, on(&world.store).await.unwrap().id).await, narrow);
    let other = as_key(&world.store, "tenant", json!({"tools": ["pay"], "models": ["dear"]}));
    let retry = other.retry_task("tenant", first.id, None).await.unwrap();
    assert_eq!(grants_of(&world, retry.id).await, json!({"tools": ["pay"], "models": ["dear"]}));
    let cheap = as_key(&world.store, "tenant", json!({"models": ["cheap"]}));
    assert_refused(cheap.retry_task("tenant", first.id, None).await, ErrorCode::InvalidModel);
    assert_refused(on(&cheap).await, ErrorCode::InvalidModel);
    let nobody = as_key(&world.store, "tenant", json!({"agents": ["writer"]}));
    assert_refused(nobody.retry_task("tenant", first.id, None).await, ErrorCode::AgentNotFound);
    assert_refused(on(&nobody).await, ErrorCode::AgentNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_spawns_of_keys_with_other_grants_are_each_as_if_alone() {
    let (world, session) = world().await;
    let narrow = json!({"agents": ["researcher"], "tools": ["fetch"]});
    let bound = as_key(&world.store, "tenant", narrow.clone());
    let spawns = (0..20)
        .flat_map(|_| [(&world.store, "writer"), (&bound, "researcher"), (&bound, "writer")]);
    let spawns = spawns.map(async |(store, agent)| {
        (store.grants().is_everything(), agent, delegate(store, session, agent).await)
    });
    for (is_free, agent, spawned) in join_all(spawns).await {
        if agent == "writer" && !is_free {
            assert_refused(spawned, ErrorCode::AgentNotFound);
            continue;
        }
        let carried = grants_of(&world, spawned.unwrap().id).await;
        assert_eq!(carried, if is_free { Value::Null } else { narrow.clone() });
    }
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_other_tenants_does_not_exist() {
    let (world, session) = world().await;
    let acme = world.session_with(|session| session.tenant = "acme".to_owned()).await;
    let names = async |session| -> Vec<String> {
        let agents = world.store.agents(session).await.unwrap();
        agents.into_iter().map(|agent| agent.definition.name).collect()
    };
    assert!(names(acme).await.contains(&"secretary".to_owned()));
    assert!(!names(session).await.contains(&"secretary".to_owned()));
    delegate(&world.store, acme, "secretary").await.unwrap();
    assert_refused(delegate(&world.store, session, "secretary").await, ErrorCode::AgentNotFound);
    let (calls, operator) = ([to("secretary")], Operator::default());
    let refused = world.store.delegate_all(session, &calls, &operator, None).await;
    assert_refused(refused, ErrorCode::AgentNotFound);
    assert_refused(world.store.agent(session, "secretary").await, ErrorCode::AgentNotFound);

    // The name is free for the session.
    let own = agent("secretary", "cheap", None);
    assert_eq!(world.store.define(session, &own, Redefinition::Refuse).await.unwrap(), 1);
    assert_refused(
        world.store.define(acme, &own, Redefinition::Replace).await,
        ErrorCode::AgentAlreadyExists,
    );
    delegate(&world.store, session, "secretary").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_of_other_tenants_does_not_exist() {
    let (world, session) = world().await;
    let only = |tenants: &[&str]| Some(tenants.iter().map(|name| (*name).to_owned()).collect());
    let published = [
        PublishedTool { definition: tool("fetch"), tenants: None },
        PublishedTool { definition: tool("pay"), tenants: only(&["acme", "umbrella"]) },
        PublishedTool { definition: tool("off"), tenants: only(&[]) },
    ];
    world.store.publish_tools(&published).await.unwrap();
    let all = ["fetch", "pay", "off"].map(str::to_owned);
    let seen = async |store: Store| {
        let tools = store.tools().await.unwrap();
        let names: Vec<String> = tools.into_iter().map(|tool| tool.name).collect();
        let unknown = store.unknown_tools(&all).await.unwrap();
        assert_eq!(store.withheld_tools(&all).await.unwrap(), unknown);
        assert!(unknown.iter().all(|name| !names.contains(name)), "{names:?} {unknown:?}");
        names.join(" ")
    };
    let key = |tenant: &str, value: Value| as_key(&world.store, tenant, value);
    assert_eq!(seen(key("acme", json!({}))).await, "fetch pay");
    assert_eq!(seen(key("tenant", json!({}))).await, "fetch");
    assert_eq!(seen(key("acme", json!({"tools": ["p*"]}))).await, "pay");
    assert_eq!(seen(world.store.clone()).await, "fetch off pay", "an operator");
    let agents = world.store.agents(session).await.unwrap();
    assert!(agents.iter().all(|agent| agent.definition.config.tools == ["fetch"]), "{agents:?}");
    let agents =
        key("tenant", json!({"agents": ["w*"], "tools": []})).agents(session).await.unwrap();
    assert_eq!(agents.len(), 1);
    assert!(agents[0].definition.config.tools.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn patterns_match_in_the_database_as_they_do_in_the_program() {
    let world = World::new().await;
    let patterns =
        ["*", "a*c", "ab*ba", "*a*a*", "files_*", "a%", "a\\*", "_", "a\\", "", "**x", "Fetch"];
    let names = [
        "",
        "abc",
        "ac",
        "aba",
        "a",
        "xaxa",
        "files_read",
        "filesXread",
        "a%",
        "ab",
        "a\\b",
        "_",
        "b",
        "a\\",
        "x",
        "Fetch",
        "fetch",
        "äc",
    ];
    for pattern in patterns {
        let some = grants(json!({"tools": [pattern]}));
        for name in names {
            let matched: bool = sqlx::query_scalar("select is_granted_1($1, 'tools', $2)")
                .bind(serde_json::to_value(&some).unwrap())
                .bind(name)
                .fetch_one(&world.sql)
                .await
                .unwrap();
            assert_eq!(matched, some.allows_tool(name), "{pattern:?} {name:?}");
        }
    }
}
