//! list_agents and define.

use adjutant_agent::ErrorCode;
use serde_json::{Value, json};

use super::office::{Office, SESSION, assert_has, assert_lacks};
use super::over_every_wire;

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
    row_g_models_a_model_is_one_of_the_config_or_an_alias,
}

fn define(name: &str) -> Value {
    json!({"action": "define", "name": name, "description": "Analyses", "system_prompt": "You are an analyst."})
}

fn with(mut arguments: Value, more: Value) -> Value {
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

async fn listed(office: &Office, name: &str) -> Value {
    let answer = office.call(json!({"action": "list_agents"})).await;
    let agents = answer["agents"].as_array().unwrap();
    agents.iter().find(|agent| agent["name"] == name).cloned().unwrap_or_default()
}

async fn row_0_2_an_agent_belongs_to_its_session(office: Office) {
    office.open("another").await;
    office.call(define("analyst")).await;
    let (_, answer) = office.raw("another", "subagent", json!({"action": "list_agents"})).await;
    assert_eq!(answer["agents"].as_array().unwrap().len(), 2, "those of the config: {answer}");
    let spawn = json!({"action": "spawn", "agent": "analyst", "task": "x"});
    office.refused_in("another", "subagent", spawn, ErrorCode::AgentNotFound).await;
}

async fn row_0_6_list_agents_shows_everything_but_the_prompt(office: Office) {
    office.call(define("analyst")).await;
    let answer = office.call(json!({"action": "list_agents"})).await;
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

async fn row_0_7_to_0_9_a_definition_says_its_name_and_has_defaults(office: Office) {
    let answer = office.call(define("analyst")).await;
    assert_eq!(answer, json!({"defined": "analyst", "description": "Analyses", "version": 1}));
    assert_has(&listed(&office, "analyst").await, json!({"tools": [], "model": "main", "max_turns": 10}));
    sqlx::query("update session set model = 'small'").execute(&office.world.sql).await.unwrap();
    office.call(define("other")).await;
    assert_eq!(listed(&office, "other").await["model"], "small", "the session's");
    office.call(json!({"action": "spawn", "agent": "other", "task": "x"})).await;
    assert_eq!(office.claim().await.assignment.config["model"], "small");
    for field in ["description", "system_prompt"] {
        for wrong in [Value::Null, json!(""), json!("  ")] {
            let arguments = with(define("another"), json!({field: wrong}));
            let message = office.refused(arguments, ErrorCode::InvalidArgument).await;
            assert!(message.starts_with(&format!("{field}: ")), "{message}");
        }
    }
}

async fn row_0_10_a_name_is_taken_once(office: Office) {
    office.call(define("analyst")).await;
    for taken in ["analyst", "researcher"] {
        office.refused(define(taken), ErrorCode::AgentAlreadyExists).await;
    }
}

async fn row_0_11_an_unknown_tool_is_refused(office: Office) {
    let arguments = with(define("analyst"), json!({"tools": ["fetch", "query_database"]}));
    let message = office.refused(arguments, ErrorCode::InvalidTool).await;
    assert!(message.contains("query_database"), "{message}");
    assert_eq!(listed(&office, "analyst").await, Value::Null);
    office.call(with(define("analyst"), json!({"tools": ["fetch", "shared_context"]}))).await;
}

async fn row_0_12_subagent_is_removed_silently(office: Office) {
    office.call(with(define("analyst"), json!({"tools": ["subagent", "fetch", "subagent"]}))).await;
    assert_eq!(listed(&office, "analyst").await["tools"], json!(["fetch"]));
}

async fn row_0_26_a_name_is_checked_whole(office: Office) {
    for wrong in ["", "Analyst", "a b", "analyst\n", "ä", "a.b", &"x".repeat(65)] {
        office.refused(define(wrong), ErrorCode::InvalidAgentName).await;
    }
    for name in ["a", "0_-", &"x".repeat(64)] {
        office.call(define(name)).await;
    }
}

async fn row_0_27_a_prompt_has_16003_characters_at_most(office: Office) {
    let prompt = |chars: usize| with(define("analyst"), json!({"system_prompt": "é".repeat(chars)}));
    office.refused(prompt(16_004), ErrorCode::PromptTooLarge).await;
    office.call(prompt(16_003)).await;
    let more =
        json!({"action": "define", "name": "longer", "extends": "analyst", "system_prompt_append": "x"});
    office.refused(more, ErrorCode::PromptTooLarge).await;
}

async fn row_g_5_more_turns_than_the_ceiling_become_the_ceiling(office: Office) {
    for (asked, given) in [(1, 1), (25, 25), (26, 25), (100, 25), (i64::MAX, 25)] {
        office.call(with(define("analyst"), json!({"max_turns": asked, "replace": true}))).await;
        assert_eq!(listed(&office, "analyst").await["max_turns"], given);
    }
    for wrong in [json!(0), json!(-1), json!(1.5), json!("10")] {
        let arguments = with(define("other"), json!({"max_turns": wrong}));
        office.refused(arguments, ErrorCode::InvalidArgument).await;
    }
}

async fn row_g_20_a_definition_is_replaced_on_request_and_one_of_the_config_never(office: Office) {
    office.call(with(define("analyst"), json!({"replace": true}))).await;
    let task = office.spawn_with(json!({"action": "spawn", "agent": "analyst", "task": "x"})).await;
    let replaced = with(define("analyst"), json!({"replace": true, "system_prompt": "You are another."}));
    assert_eq!(office.call(replaced).await["version"], 2);
    let spawned_with = office.claim().await.assignment.config;
    assert_eq!(spawned_with["system_prompt"], "You are an analyst.", "{task}");
    let configs = with(define("writer"), json!({"replace": true}));
    office.refused(configs, ErrorCode::AgentAlreadyExists).await;
}

async fn row_0_e3_an_agent_extends_another(office: Office) {
    let senior = json!({"action": "define", "name": "senior", "extends": "researcher",
        "system_prompt_append": "Use two sources.", "max_turns": 15});
    office.call(senior).await;
    assert_has(
        &listed(&office, "senior").await,
        json!({"description": "What researcher is for", "tools": ["fetch", "shared_context"], "max_turns": 15}),
    );
    office.spawn_with(json!({"action": "spawn", "agent": "senior", "task": "x"})).await;
    let config = office.claim().await.assignment.config;
    assert_eq!(config["system_prompt"], "You are researcher.\n\nUse two sources.");
    let nobodys = with(define("other"), json!({"extends": "nobody"}));
    office.refused(nobodys, ErrorCode::AgentNotFound).await;
    let alone = with(define("other"), json!({"system_prompt_append": "More."}));
    office.refused(alone, ErrorCode::InvalidArgument).await;
}

async fn row_g_models_a_model_is_one_of_the_config_or_an_alias(office: Office) {
    let model = |name: &str| with(define("analyst"), json!({"model": name, "replace": true}));
    let message = office.refused(model("unheard-of"), ErrorCode::InvalidModel).await;
    assert!(message.contains("main, small"), "{message}");
    for (asked, given) in [("small", "small"), ("gpt-vendor", "small"), ("main", "main")] {
        office.call(model(asked)).await;
        assert_eq!(listed(&office, "analyst").await["model"], given);
    }
    assert_lacks(&listed(&office, "analyst").await, &["system_prompt"]);
    assert_eq!(office.raw(SESSION, "subagent", json!({"action": "list_agents"})).await.0, 200);
}
