//! Agents of the config and of sessions, the tasks that they are given, and the catalogue of tools.

use adjutant_agent::{
    AgentConfig, AgentDefinition, AgentDraft, AgentExtras, Budget, DefinitionLimits, ErrorCode,
    InheritancePolicy, OnWorkerLoss, Skill, TaskId, ToolDefinition,
};
use adjutant_store::{NewDelegation, NewTask, Operator, Quota, Redefinition};
use serde_json::json;

use crate::support::world::{World, assert_refused, tool};

pub fn agent(name: &str, prompt: &str) -> AgentDefinition {
    let draft = AgentDraft {
        name: name.to_owned(),
        description: Some(format!("What {name} is for")),
        system_prompt: Some(prompt.to_owned()),
        tools: Some(vec!["shared_context".to_owned(), "subagent".to_owned()]),
        ..AgentDraft::default()
    };
    draft.check(&DefinitionLimits::default()).unwrap()
}

pub async fn names(world: &World, session: adjutant_agent::SessionId) -> Vec<(String, i32)> {
    let agents = world.store.agents(session).await.unwrap();
    agents.into_iter().map(|agent| (agent.definition.name, agent.version)).collect()
}

pub fn named(names: &[(&str, i32)]) -> Vec<(String, i32)> {
    names.iter().map(|(name, version)| ((*name).to_owned(), *version)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_config_adds_a_version_and_removes_agents_it_no_longer_has() {
    let world = World::new().await;
    let session = world.session().await;
    world.store.publish_agents(&[agent("a", "one"), agent("b", "one")]).await.unwrap();
    world.store.publish_agents(&[agent("a", "one"), agent("b", "one")]).await.unwrap();
    assert_eq!(
        names(&world, session).await,
        named(&[("a", 1), ("b", 1)]),
        "the same contents are the same version"
    );
    world.store.publish_agents(&[agent("a", "two"), agent("c", "one")]).await.unwrap();
    assert_eq!(names(&world, session).await, named(&[("a", 2), ("c", 1)]));
    assert_refused(world.store.agent(session, "b").await, ErrorCode::AgentNotFound);
    assert_eq!(world.store.agent(session, "a").await.unwrap().definition, agent("a", "two"));
    world
        .store
        .publish_agents(&[agent("a", "one"), agent("b", "one"), agent("c", "two")])
        .await
        .unwrap();
    assert_eq!(
        names(&world, session).await,
        named(&[("a", 3), ("b", 1), ("c", 2)]),
        "what is back as it was is the version it was"
    );
    world.store.publish_agents(&[]).await.unwrap();
    assert_eq!(names(&world, session).await, []);
    assert_eq!(world.count("select count(*) from agent").await, 6, "every version stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_start_together_publish_one_version() {
    let world = World::new().await;
    let session = world.session().await;
    let definitions = json!([agent("a", "one"), agent("b", "one")]);
    let publish =
        format!("select publish_agents_1(gen_random_uuid(), 'default', 'first', '{definitions}')");
    let first = world.hold(&publish).await;
    let store = world.store.clone();
    let second =
        tokio::spawn(
            async move { store.publish_agents(&[agent("a", "one"), agent("b", "two")]).await },
        );
    world.until_blocked(1).await;
    first.commit().await.unwrap();
    second.await.unwrap().unwrap();
    assert_eq!(names(&world, session).await, named(&[("a", 1), ("b", 2)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_defines_agents_for_itself_alone() {
    let world = World::new().await;
    let (session, other) = (world.session().await, world.session().await);
    let version =
        world.store.define(session, &agent("own", "one"), Redefinition::Refuse).await.unwrap();
    assert_eq!(version, 1);
    assert_eq!(names(&world, session).await, named(&[("own", 1)]));
    assert_eq!(names(&world, other).await, []);
    assert_refused(world.store.agent(other, "own").await, ErrorCode::AgentNotFound);
    let again = world.store.define(session, &agent("own", "two"), Redefinition::Refuse).await;
    assert_refused(again, ErrorCode::AgentAlreadyExists);
    assert_eq!(world.store.agent(session, "own").await.unwrap().definition, agent("own", "one"));
    let replaced =
        world.store.define(session, &agent("own", "two"), Redefinition::Replace).await.unwrap();
    assert_eq!(replaced, 2);
    assert_eq!(world.store.agent(session, "own").await.unwrap().definition, agent("own", "two"));
    assert_eq!(
        world.store.define(session, &agent("new", "x"), Redefinition::Replace).await.unwrap(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_the_config_cannot_be_replaced_by_a_session() {
    let world = World::new().await;
    let (early, late) = (world.session().await, world.session().await);
    world.store.define(early, &agent("a", "of the session"), Redefinition::Refuse).await.unwrap();
    world.store.publish_agents(&[agent("a", "of the config")]).await.unwrap();
    for existing in [Redefinition::Refuse, Redefinition::Replace] {
        let refused = world.store.define(late, &agent("a", "of another"), existing).await;
        assert_refused(refused, ErrorCode::AgentAlreadyExists);
    }
    assert_eq!(world.store.agent(late, "a").await.unwrap().definition, agent("a", "of the config"));
    let own = world.store.agent(early, "a").await.unwrap();
    assert_eq!(own.definition, agent("a", "of the session"), "what it had before it keeps");
    world.store.publish_agents(&[]).await.unwrap();
    world.store.define(late, &agent("a", "of another"), Redefinition::Refuse).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_everything_but_the_system_prompts() {
    let world = World::new().await;
    let session = world.session().await;
    world.store.publish_agents(&[agent("a", "secret")]).await.unwrap();
    let listed = world.store.agents(session).await.unwrap().remove(0).definition;
    assert_eq!(listed.config.system_prompt, "");
    let mut whole = agent("a", "secret");
    whole.config.system_prompt.clear();
    assert_eq!(listed, whole);
    assert_eq!(listed.config.tools, ["shared_context"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_an_archived_or_unknown_session() {
    let world = World::new().await;
    let session = world.session().await;
    world.store.define(session, &agent("a", "one"), Redefinition::Refuse).await.unwrap();
    world.store.archive_session(session).await.unwrap();
    let late = world.store.define(session, &agent("b", "one"), Redefinition::Refuse).await;
    assert_refused(late, ErrorCode::SessionArchived);
    assert_eq!(names(&world, session).await, named(&[("a", 1)]), "still readable");
    world.delete(session).await;
    assert_eq!(world.count("select count(*) from agent").await, 0);
    let late = world.store.define(session, &agent("b", "one"), Redefinition::Refuse).await;
    assert_refused(late, ErrorCode::SessionNotFound);
    assert_refused(world.store.agents(session).await, ErrorCode::SessionNotFound);
    assert_refused(world.store.agent(session, "a").await, ErrorCode::SessionNotFound);
}

fn delegation(agent: &str, task: &str) -> NewDelegation {
    NewDelegation {
        task: NewTask {
            agent: agent.to_owned(),
            assignment: task.to_owned(),
            ..NewTask::default()
        },
        ..NewDelegation::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_keeps_the_agent_that_it_was_spawned_with() {
    let world = World::new().await;
    let session = world.session_with(|session| session.model = Some("session's".to_owned())).await;
    let worker = world.worker().await;
    let mut definition = agent("a", "one");
    definition.on_worker_loss = OnWorkerLoss::Fail;
    definition.config.budget.max_output_tokens = Some(7);
    world.store.define(session, &agent("a", "older"), Redefinition::Refuse).await.unwrap();
    world.store.define(session, &definition, Redefinition::Replace).await.unwrap();
    let new = NewDelegation {
        timeout_s: Some(90.0),
        budget: Budget { max_input_tokens: Some(5), ..Budget::default() },
        ..delegation("a", "Do it.")
    };
    let operator = Operator {
        default_model: "main".to_owned(),
        max_timeout_s: Some(60.0),
        ..Operator::default()
    };
    world.store.delegate(session, &new, &operator, None).await.unwrap();
    world.store.define(session, &agent("a", "newer"), Redefinition::Replace).await.unwrap();
    let claim = world.claim_one(&worker).await;
    let agent_config: AgentConfig =
        serde_json::from_value(claim.assignment.config.clone()).unwrap();
    assert_eq!(
        agent_config,
        AgentConfig {
            model: "session's".to_owned(),
            timeout_s: Some(60.0),
            budget: Budget {
                max_input_tokens: Some(5),
                max_output_tokens: Some(7),
                max_cost_nanousd: None
            },
            ..definition.config
        }
    );
    let stored: (String, i32, String) =
        sqlx::query_as("select agent, agent_version, on_worker_loss from task")
            .fetch_one(&world.sql)
            .await
            .unwrap();
    assert_eq!(stored, ("a".to_owned(), 2, "fail".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_for_an_unknown_agent_or_of_the_wrong_size_is_refused() {
    let world = World::new().await;
    let session = world.session().await;
    world.store.publish_agents(&[agent("a", "one")]).await.unwrap();
    let operator = Operator::default();
    for (new, code) in [
        (delegation("nobody", "Do it."), ErrorCode::AgentNotFound),
        (delegation("nul\0", "Do it."), ErrorCode::InvalidArgument),
        (delegation("a", " \n"), ErrorCode::InvalidArgument),
        (delegation("a", &"x".repeat(4004)), ErrorCode::TaskTooLarge),
        (delegation("a", "nul\0"), ErrorCode::InvalidArgument),
    ] {
        assert_refused(world.store.delegate(session, &new, &operator, None).await, code);
    }
    let longest = delegation("a", &"é".repeat(4003));
    world.store.delegate(session, &longest, &operator, None).await.unwrap();
    world.store.archive_session(session).await.unwrap();
    let late = world.store.delegate(session, &delegation("a", "Do it."), &operator, None).await;
    assert_refused(late, ErrorCode::SessionArchived);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_no_worker_has_published_for_a_day_is_unknown() {
    let world = World::new().await;
    world
        .store
        .publish_tools(&["fetch", "lookup", "nul\0"].map(|name| tool(name).into()))
        .await
        .unwrap();
    let names = ["lookup", "nothing", "fetch", "nul\0"].map(str::to_owned);
    assert_eq!(world.store.unknown_tools(&names).await.unwrap(), ["nothing", "nul\0"]);
    sqlx::query("update tool set seen_at = now() - interval '25 hours'")
        .execute(&world.sql)
        .await
        .unwrap();
    let changed = ToolDefinition { description: "Another".to_owned(), ..tool("fetch") };
    world.store.publish_tools(&[changed.clone().into(), changed.clone().into()]).await.unwrap();
    assert_eq!(world.store.unknown_tools(&names).await.unwrap(), ["lookup", "nothing", "nul\0"]);
    assert_eq!(world.store.tools().await.unwrap(), [changed]);
    world.store.publish_tools(&[]).await.unwrap();
    assert_eq!(world.store.unknown_tools(&[]).await.unwrap(), [""; 0]);
}

fn skill(name: &str) -> Skill {
    Skill { name: name.to_owned(), instructions: "Count first.".to_owned(), ..Skill::default() }
}

/// The configuration of a task that is delegated to an agent in a session with this model.
async fn config_of(
    world: &World,
    model: Option<&str>,
    new: &NewDelegation,
    operator: &Operator,
) -> (AgentConfig, i32, String) {
    let session = world.session_with(|session| session.model = model.map(str::to_owned)).await;
    let task = world.store.delegate(session, new, operator, None).await.unwrap().id;
    let (config, version, rule): (serde_json::Value, i32, String) = sqlx::query_as(
        "select config, agent_version, on_worker_loss::text from task where id = $1",
    )
    .bind(task.0)
    .fetch_one(&world.sql)
    .await
    .unwrap();
    (serde_json::from_value(config).unwrap(), version, rule)
}

fn to_agent(name: &str) -> NewDelegation {
    let task = NewTask { agent: name.to_owned(), assignment: "x".to_owned(), ..NewTask::default() };
    NewDelegation { task, ..NewDelegation::default() }
}

/// The agent `rich`, whose settings all differ from the defaults, and `plain`.
async fn world_with_agents() -> World {
    let world = World::new().await;
    let budget =
        Budget { max_input_tokens: Some(1), max_output_tokens: Some(2), max_cost_nanousd: None };
    let config = AgentConfig {
        model: "agent's".to_owned(),
        max_turns: 100,
        summary_prompt: Some("In short?".to_owned()),
        timeout_s: Some(2.0),
        budget,
        skills: vec![skill("own")],
        inheritance: Some(InheritancePolicy { enabled: false, ..InheritancePolicy::default() }),
        ..AgentConfig::default()
    };
    let rich =
        AgentDefinition { config, on_worker_loss: OnWorkerLoss::Fail, ..agent("rich", "one") };
    world.store.publish_agents(&[agent("plain", "one"), rich]).await.unwrap();
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_the_agents_then_the_sessions_then_the_configs() {
    let world = world_with_agents().await;
    let operator = Operator { default_model: "config's".to_owned(), ..Operator::default() };
    for (agent, session, expected) in [
        ("rich", Some("session's"), "agent's"),
        ("plain", Some("session's"), "session's"),
        ("plain", None, "config's"),
    ] {
        let (config, _, _) = config_of(&world, session, &to_agent(agent), &operator).await;
        assert_eq!(config.model, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_is_the_spawns_then_the_agents_then_the_operators_and_never_above_the_maximum() {
    let world = world_with_agents().await;
    for (spawn, agent, default, most, expected) in [
        (Some(1.0), "rich", Some(3.0), None, Some(1.0)),
        (None, "rich", Some(3.0), None, Some(2.0)),
        (None, "plain", Some(3.0), None, Some(3.0)),
        (None, "plain", None, None, None),
        (Some(9.0), "plain", None, Some(5.0), Some(5.0)),
        (None, "plain", None, Some(5.0), Some(5.0)),
        (Some(1.0), "plain", None, Some(5.0), Some(1.0)),
    ] {
        let new = NewDelegation { timeout_s: spawn, ..to_agent(agent) };
        let operator =
            Operator { default_timeout_s: default, max_timeout_s: most, ..Operator::default() };
        let (config, _, _) = config_of(&world, None, &new, &operator).await;
        assert_eq!(config.timeout_s, expected, "{new:?} {operator:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delegation_lowers_limits_of_its_agent_and_adds_to_its_skills() {
    let world = world_with_agents().await;
    let new = NewDelegation {
        budget: Budget {
            max_input_tokens: Some(0),
            max_output_tokens: Some(3),
            max_cost_nanousd: Some(4),
        },
        summary_prompt: Some("Briefly?".to_owned()),
        equipment: AgentExtras {
            skills: vec![skill("own"), skill("more")],
            inheritance: Some(InheritancePolicy::default()),
            sections: true,
            envelope: true,
        },
        ..to_agent("rich")
    };
    let operator = Operator { max_turns_ceiling: 7, ..Operator::default() };
    let (config, version, rule) = config_of(&world, None, &new, &operator).await;
    let budget =
        Budget { max_input_tokens: Some(0), max_output_tokens: Some(2), max_cost_nanousd: Some(4) };
    assert_eq!((config.budget, config.max_turns), (budget, 7), "of each limit the smaller one");
    assert_eq!(config.summary_prompt.as_deref(), Some("Briefly?"));
    assert_eq!(config.skills, [skill("own"), skill("own"), skill("more")]);
    assert_eq!(config.inheritance.map(|policy| policy.enabled), Some(false), "the agent's own");
    assert!(config.sections && config.envelope);
    assert_eq!((version, rule.as_str()), (1, "fail"));

    let (config, version, rule) = config_of(&world, None, &to_agent("plain"), &operator).await;
    assert_eq!((config.budget, config.summary_prompt), (Budget::default(), None));
    assert!(config.skills.is_empty() && config.inheritance.is_none());
    assert!(!config.sections && !config.envelope);
    assert_eq!((version, rule.as_str()), (1, "resume"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unregistered_name_is_a_free_form_agent_if_the_operator_allows_it() {
    let world = world_with_agents().await;
    let config = AgentConfig {
        system_prompt: "You are ${_category}, ${_category}.".to_owned(),
        ..AgentConfig::default()
    };
    let free_form = AgentDefinition { config, ..agent("free-form", "any") };
    let operator = Operator { free_form: Some(free_form), ..Operator::default() };
    let (config, version, _) = config_of(&world, None, &to_agent("made-up"), &operator).await;
    assert_eq!(config.system_prompt, "You are made-up, made-up.");
    assert_eq!(version, 0);
    let session = world.session().await;
    let named = world.store.agent_for(session, "made-up", &operator).await.unwrap();
    assert_eq!(named.definition.config.system_prompt, "You are made-up, made-up.");
    for (name, operator) in [("made-up", &Operator::default()), ("Not A Name", &operator)] {
        let delegated = world.store.delegate(session, &to_agent(name), operator, None).await;
        assert_refused(delegated, ErrorCode::AgentNotFound);
        let found = world.store.agent_for(session, name, operator).await;
        assert_refused(found, ErrorCode::AgentNotFound);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_given_configuration_takes_the_place_of_the_agents_within_the_operators_ceilings() {
    let world = world_with_agents().await;
    let given = AgentConfig { max_turns: 50, ..AgentConfig::default() };
    let mut new = NewDelegation { config: Some(given), ..to_agent("nobody") };
    new.task.agent_version = 4;
    new.task.on_worker_loss = OnWorkerLoss::Fail;
    let operator = Operator { max_turns_ceiling: 7, ..Operator::default() };
    let (config, version, rule) = config_of(&world, Some("session's"), &new, &operator).await;
    assert_eq!((config.max_turns, config.model.as_str()), (7, "session's"));
    assert_eq!((version, rule.as_str()), (4, "fail"));
}

/// What `Store::delegate` does with a task must not depend on whether it takes the concurrent path.
#[tokio::test(flavor = "multi_thread")]
async fn the_id_the_quota_and_the_webhook_of_a_delegated_task_are_kept() {
    let world = world_with_agents().await;
    let session = world.session().await;
    let id = TaskId::new();
    let mut new = to_agent("plain");
    new.task.id = Some(id);
    let operator = Operator::default();
    let spawned = world.store.delegate(session, &new, &operator, None).await.unwrap();
    assert_eq!(spawned.id, id);

    let mut limited = to_agent("plain");
    limited.task.metadata.insert("dialect".to_owned(), "some".into());
    limited.task.quota = Some(Quota { max_executions: Some(1), ..Quota::default() });
    world.store.delegate(session, &limited, &operator, None).await.unwrap();
    let second = world.store.delegate(session, &limited, &operator, None).await;
    assert_refused(second, ErrorCode::MaxTasksExceeded);

    let mut hooked = to_agent("plain");
    hooked.task.webhook =
        serde_json::from_value(serde_json::json!({"url": "https://x.test/", "events": []})).ok();
    let task = world.store.delegate(session, &hooked, &operator, None).await.unwrap().id;
    let stored: Option<String> =
        sqlx::query_scalar("select webhook ->> 'url' from task where id = $1")
            .bind(task.0)
            .fetch_one(&world.sql)
            .await
            .unwrap();
    assert_eq!(stored.as_deref(), Some("https://x.test/"));
}
