//! list_agents and define.

use adjutant_agent::ErrorCode;
use serde_json::{Value, json};

use crate::dialects::spec::over_every_wire;
use crate::support::orchestrator::{Orchestrator, SESSION, assert_has, assert_lacks};

over_every_wire! {
    row_0_2_an_agent_belongs_to_its_session,
    row_0_6_list_agents_shows_everything_but_the_prompt,
    row_0_7_to_0_9_a_definition_says_its_name_and_has_defaults,
    row_0_10_a_name_is_taken_once,
    row_0_11_an_unknown_tool_is_refused,
    row_0_12_subagent_is_removed_silently,
    row_0_26_a_name_is_checked_whole,
    row_0_27_a_prompt_has_16003_characters_at_most,
    row_g_5_more_turns_than_the_ceiling_become_the_ceiling,
    row_g_20_a_definition_is_replaced_on_request_and_one_of_the_config_never,
    row_0_e3_an_agent_extends_another,
    row_g_extra_body_a_session_sets_harmless_fields_only,
    row_g_models_a_model_is_one_of_the_config_or_an_alias,
}

fn define(name: &str) -> Value {
    json!({"action": "define", "name": name, "description": "Analyses", "system_prompt": "You are an analyst."})
}

fn with(mut arguments: Value, more: Value) -> Value {
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

async fn listed(orchestrator: &Orchestrator, name: &str) -> Value {
    let answer = orchestrator.call(json!({"action": "list_agents"})).await;
    let agents = answer["agents"].as_array().unwrap();
    agents.iter().find(|agent| agent["name"] == name).cloned().unwrap_or_default()
}

async fn row_0_2_an_agent_belongs_to_its_session(orchestrator: Orchestrator) {
    orchestrator.open("another").await;
    orchestrator.call(define("analyst")).await;
    let (_, answer) =
        orchestrator.raw("another", "subagent", json!({"action": "list_agents"})).await;
    assert_eq!(answer["agents"].as_array().unwrap().len(), 2, "those of the config: {answer}");
    let spawn = json!({"action": "spawn", "agent": "analyst", "task": "x"});
    orchestrator.refused_in("another", "subagent", spawn, ErrorCode::AgentNotFound).await;
}

async fn row_0_6_list_agents_shows_everything_but_the_prompt(orchestrator: Orchestrator) {
    orchestrator.call(define("analyst")).await;
    let answer = orchestrator.call(json!({"action": "list_agents"})).await;
    assert_eq!(
        answer,
        json!({"agents": [
            {"name": "analyst", "description": "Analyses", "model": "main", "max_turns": 10, "tools": [], "version": 1},
            {"name": "researcher", "description": "What researcher is for", "model": "main", "max_turns": 10,
                "tools": ["fetch", "shared_context"], "version": 1},
            {"name": "writer", "description": "What writer is for", "model": "main", "max_turns": 10, "tools": [],
                "version": 1},
        ]})
    );
}

async fn row_0_7_to_0_9_a_definition_says_its_name_and_has_defaults(orchestrator: Orchestrator) {
    let answer = orchestrator.call(define("analyst")).await;
    assert_eq!(answer, json!({"defined": "analyst", "description": "Analyses", "version": 1}));
    assert_has(
        &listed(&orchestrator, "analyst").await,
        json!({"tools": [], "model": "main", "max_turns": 10}),
    );
    sqlx::query("update session set model = 'small'")
        .execute(&orchestrator.world.sql)
        .await
        .unwrap();
    orchestrator.call(define("other")).await;
    assert_eq!(listed(&orchestrator, "other").await["model"], "small", "the session's");
    orchestrator.call(json!({"action": "spawn", "agent": "other", "task": "x"})).await;
    assert_eq!(orchestrator.claim().await.assignment.config["model"], "small");
    for field in ["description", "system_prompt"] {
        for wrong in [Value::Null, json!(""), json!("  ")] {
            let arguments = with(define("another"), json!({field: wrong}));
            let message = orchestrator.refused(arguments, ErrorCode::InvalidArgument).await;
            assert!(message.starts_with(&format!("{field}: ")), "{message}");
        }
    }
}

async fn row_0_10_a_name_is_taken_once(orchestrator: Orchestrator) {
    orchestrator.call(define("analyst")).await;
    for taken in ["analyst", "researcher"] {
        orchestrator.refused(define(taken), ErrorCode::AgentAlreadyExists).await;
    }
}

async fn row_0_11_an_unknown_tool_is_refused(orchestrator: Orchestrator) {
    let arguments = with(define("analyst"), json!({"tools": ["fetch", "query_database"]}));
    let message = orchestrator.refused(arguments, ErrorCode::InvalidTool).await;
    assert!(message.contains("query_database"), "{message}");
    assert_eq!(listed(&orchestrator, "analyst").await, Value::Null);
    orchestrator.call(with(define("analyst"), json!({"tools": ["fetch", "shared_context"]}))).await;
}

async fn row_0_12_subagent_is_removed_silently(orchestrator: Orchestrator) {
    orchestrator
        .call(with(define("analyst"), json!({"tools": ["subagent", "fetch", "subagent"]})))
        .await;
    assert_eq!(listed(&orchestrator, "analyst").await["tools"], json!(["fetch"]));
}

async fn row_0_26_a_name_is_checked_whole(orchestrator: Orchestrator) {
    for wrong in ["", "Analyst", "a b", "analyst\n", "ä", "a.b", &"x".repeat(65)] {
        orchestrator.refused(define(wrong), ErrorCode::InvalidAgentName).await;
    }
    for name in ["a", "0_-", &"x".repeat(64)] {
        orchestrator.call(define(name)).await;
    }
}

async fn row_0_27_a_prompt_has_16003_characters_at_most(orchestrator: Orchestrator) {
    let prompt =
        |chars: usize| with(define("analyst"), json!({"system_prompt": "é".repeat(chars)}));
    orchestrator.refused(prompt(16_004), ErrorCode::PromptTooLarge).await;
    orchestrator.call(prompt(16_003)).await;
    let more = json!({"action": "define", "name": "longer", "extends": "analyst", "system_prompt_append": "x"});
    orchestrator.refused(more, ErrorCode::PromptTooLarge).await;
}

async fn row_g_5_more_turns_than_the_ceiling_become_the_ceiling(orchestrator: Orchestrator) {
    for (requested, given) in [(1, 1), (25, 25), (26, 25), (100, 25), (i64::MAX, 25)] {
        orchestrator
            .call(with(define("analyst"), json!({"max_turns": requested, "replace": true})))
            .await;
        assert_eq!(listed(&orchestrator, "analyst").await["max_turns"], given);
    }
    for wrong in [json!(0), json!(-1), json!(1.5), json!("10")] {
        let arguments = with(define("other"), json!({"max_turns": wrong}));
        orchestrator.refused(arguments, ErrorCode::InvalidArgument).await;
    }
}

async fn row_g_20_a_definition_is_replaced_on_request_and_one_of_the_config_never(
    orchestrator: Orchestrator,
) {
    orchestrator.call(with(define("analyst"), json!({"replace": true}))).await;
    let task =
        orchestrator.spawn_with(json!({"action": "spawn", "agent": "analyst", "task": "x"})).await;
    let replaced =
        with(define("analyst"), json!({"replace": true, "system_prompt": "You are another."}));
    assert_eq!(orchestrator.call(replaced).await["version"], 2);
    let spawned_with = orchestrator.claim().await.assignment.config;
    assert_eq!(spawned_with["system_prompt"], "You are an analyst.", "{task}");
    let configs = with(define("writer"), json!({"replace": true}));
    orchestrator.refused(configs, ErrorCode::AgentAlreadyExists).await;
}

async fn row_0_e3_an_agent_extends_another(orchestrator: Orchestrator) {
    let senior = json!({"action": "define", "name": "senior", "extends": "researcher",
        "system_prompt_append": "Use two sources.", "max_turns": 15});
    orchestrator.call(senior).await;
    assert_has(
        &listed(&orchestrator, "senior").await,
        json!({"description": "What researcher is for", "tools": ["fetch", "shared_context"], "max_turns": 15}),
    );
    orchestrator.spawn_with(json!({"action": "spawn", "agent": "senior", "task": "x"})).await;
    let config = orchestrator.claim().await.assignment.config;
    assert_eq!(config["system_prompt"], "You are researcher.\n\nUse two sources.");
    let nobodys = with(define("other"), json!({"extends": "nobody"}));
    orchestrator.refused(nobodys, ErrorCode::AgentNotFound).await;
    let alone = with(define("other"), json!({"system_prompt_append": "More."}));
    orchestrator.refused(alone, ErrorCode::InvalidArgument).await;
}

async fn row_g_models_a_model_is_one_of_the_config_or_an_alias(orchestrator: Orchestrator) {
    let model = |name: &str| with(define("analyst"), json!({"model": name, "replace": true}));
    let message = orchestrator.refused(model("unheard-of"), ErrorCode::InvalidModel).await;
    assert!(message.contains("main, small"), "{message}");
    for (requested, given) in [("small", "small"), ("gpt-vendor", "small"), ("main", "main")] {
        orchestrator.call(model(requested)).await;
        assert_eq!(listed(&orchestrator, "analyst").await["model"], given);
    }
    assert_lacks(&listed(&orchestrator, "analyst").await, &["system_prompt"]);
    assert_eq!(
        orchestrator.raw(SESSION, "subagent", json!({"action": "list_agents"})).await.0,
        200
    );
}

async fn row_g_extra_body_a_session_sets_harmless_fields_only(orchestrator: Orchestrator) {
    let body = |body: Value| with(define("analyst"), json!({"extra_body": body}));
    for (wrong, named) in [
        (json!({"model": "other"}), "extra_body.model"),
        (json!({"messages": []}), "extra_body.messages"),
        (json!({"tools": []}), "extra_body.tools"),
        (json!({"stream": false}), "extra_body.stream"),
        (json!({"max_tokens": 1}), "extra_body.max_tokens"),
        (json!({"store": true}), "extra_body.store"),
        (json!({"seed": [1]}), "extra_body.seed"),
        (json!("high"), "extra_body"),
    ] {
        let message = orchestrator.refused(body(wrong), ErrorCode::InvalidArgument).await;
        assert!(message.contains(named), "{message}");
    }
    let harmless = json!({"reasoning_effort": "high", "temperature": 0.2});
    orchestrator.call(with(body(harmless.clone()), json!({"compaction": "off"}))).await;
    orchestrator.spawn_with(json!({"action": "spawn", "agent": "analyst", "task": "x"})).await;
    let config = orchestrator.claim().await.assignment.config;
    assert_has(&config, json!({"extra_body": harmless, "compaction": "off"}));
}
