//! Agents of the config and of sessions, the tasks that they are given, and the catalogue of tools.

use adjutant_agent::{
    AgentConfig, AgentDefinition, AgentDraft, AgentExtras, Budget, DefinitionLimits, ErrorCode,
    InheritancePolicy, OnWorkerLoss, Skill, ToolDefinition,
};
use adjutant_store::{NewDelegation, NewTask, Operator, Redefinition};
use serde_json::json;

use crate::support::world::{World, assert_refused, tool};

fn agent(name: &str, prompt: &str) -> AgentDefinition {
    let draft = AgentDraft {
        name: name.to_owned(),
        description: Some(format!("What {name} is for")),
        system_prompt: Some(prompt.to_owned()),
        tools: Some(vec!["shared_context".to_owned(), "subagent".to_owned()]),
        ..AgentDraft::default()
    };
    draft.check(&DefinitionLimits::default()).unwrap()
}

async fn names(world: &World, session: adjutant_agent::SessionId) -> Vec<(String, i32)> {
    let agents = world.store.agents(session).await.unwrap();
    agents.into_iter().map(|agent| (agent.definition.name, agent.version)).collect()
}

fn named(names: &[(&str, i32)]) -> Vec<(String, i32)> {
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
    let first = world.hold(&format!("select publish_agents_1('{definitions}')")).await;
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
    world.store.delete_session(session).await.unwrap();
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
    let spec: AgentConfig = serde_json::from_value(claim.assignment.config.clone()).unwrap();
    assert_eq!(
        spec,
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
    world.store.publish_tools(&[tool("fetch"), tool("lookup"), tool("nul\0")]).await.unwrap();
    let names = ["lookup", "nothing", "fetch", "nul\0"].map(str::to_owned);
    assert_eq!(world.store.unknown_tools(&names).await.unwrap(), ["nothing", "nul\0"]);
    sqlx::query("update tool set seen_at = now() - interval '25 hours'")
        .execute(&world.sql)
        .await
        .unwrap();
    let changed = ToolDefinition { description: "Another".to_owned(), ..tool("fetch") };
    world.store.publish_tools(&[changed.clone(), changed.clone()]).await.unwrap();
    assert_eq!(world.store.unknown_tools(&names).await.unwrap(), ["lookup", "nothing", "nul\0"]);
    assert_eq!(world.store.tools().await.unwrap(), [changed]);
    world.store.publish_tools(&[]).await.unwrap();
    assert_eq!(world.store.unknown_tools(&[]).await.unwrap(), [""; 0]);
}

fn skill(name: &str) -> Skill {
    Skill { name: name.to_owned(), instructions: "Count first.".to_owned(), ..Skill::default() }
}

fn equipment() -> AgentExtras {
    AgentExtras {
        skills: vec![skill("own"), skill("more")],
        inheritance: Some(InheritancePolicy::default()),
        sections: true,
        envelope: true,
    }
}

/// One with few settings, and one with ceilings and free-form agents.
fn operators() -> [Operator; 2] {
    let free_form = AgentDefinition {
        config: AgentConfig {
            system_prompt: "You are ${_category}, ${_category}.".to_owned(),
            ..AgentConfig::default()
        },
        ..agent("free-form", "any")
    };
    [
        Operator { default_model: "config's".to_owned(), ..Operator::default() },
        Operator {
            default_timeout_s: Some(3.0),
            max_timeout_s: Some(0.5),
            max_turns_ceiling: 7,
            free_form: Some(free_form),
            ..Operator::default()
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_delegated_in_one_round_trip_is_what_it_would_be_in_two() {
    let world = World::new().await;
    let own = AgentConfig {
        model: "agent's".to_owned(),
        max_turns: 100,
        summary_prompt: Some("In short?".to_owned()),
        timeout_s: Some(2.5),
        budget: Budget {
            max_input_tokens: Some(1),
            max_output_tokens: Some(2),
            max_cost_nanousd: None,
        },
        skills: vec![skill("own")],
        inheritance: Some(InheritancePolicy { enabled: false, ..InheritancePolicy::default() }),
        ..AgentConfig::default()
    };
    let rich =
        AgentDefinition { config: own, on_worker_loss: OnWorkerLoss::Fail, ..agent("rich", "one") };
    world.store.publish_agents(&[agent("plain", "one"), rich]).await.unwrap();
    let worker = world.worker().await;
    world.store.set_cap(100).await.unwrap();
    let given =
        Budget { max_output_tokens: Some(3), max_cost_nanousd: Some(4), ..Budget::default() };
    let operators = operators();
    for model in [None, Some("session's".to_owned())] {
        let session = world.session_with(|session| session.model = model).await;
        let registered =
            ["plain", "rich"].iter().flat_map(|name| operators.iter().map(move |o| (*name, o)));
        for (name, operator) in registered.chain([("made-up", &operators[1])]) {
            for (timeout_s, budget, summary_prompt, equipment) in [
                (None, Budget::default(), None, AgentExtras::default()),
                (Some(9.0), given, Some("Briefly?".to_owned()), equipment()),
            ] {
                let task = NewTask {
                    agent: name.to_owned(),
                    assignment: "x".to_owned(),
                    ..NewTask::default()
                };
                let new = NewDelegation {
                    task,
                    timeout_s,
                    budget,
                    summary_prompt,
                    equipment,
                    ..NewDelegation::default()
                };
                let in_two = world.store.task_for_agent(session, &new, operator).await.unwrap();
                world.store.delegate(session, &new, operator, None).await.unwrap();
                let claim = world.claim_one(&worker).await;
                let of = |config: serde_json::Value| {
                    serde_json::from_value::<AgentConfig>(config).unwrap()
                };
                assert_eq!(
                    of(claim.assignment.config),
                    of(serde_json::Value::Object(in_two.config)),
                    "{name}, {operator:?}, {new:?}"
                );
                let (version, rule): (i32, String) = sqlx::query_as(
                    "select agent_version, on_worker_loss::text from task where id = $1",
                )
                .bind(claim.lease.task().0)
                .fetch_one(&world.sql)
                .await
                .unwrap();
                assert_eq!(
                    (version, rule.as_str()),
                    (in_two.agent_version, in_two.on_worker_loss.as_str())
                );
                claim.lease.complete("done".to_owned(), None).write().await.unwrap();
            }
        }
    }
}
