use serde_json::json;

use super::*;
use crate::Permissions;

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn skill(name: &str, tools: &[&str]) -> Skill {
    Skill {
        name: name.to_owned(),
        description: format!("What {name} is for"),
        instructions: format!("How {name} goes."),
        tools: texts(tools),
    }
}

fn parent() -> OrchestratorConfig {
    OrchestratorConfig {
        system_prompt: Some("You are a collaborative agent. Always verify sources.".to_owned()),
        tools: texts(&["search", "read", "write", "calculate"]),
        skills: vec![skill("web-search", &["browse", "index"])],
    }
}

fn child(policy: InheritancePolicy) -> AgentConfig {
    AgentConfig {
        system_prompt: "You are a research specialist.".to_owned(),
        tools: texts(&["fetch"]),
        inheritance: Some(policy),
        parent: Some(parent()),
        ..AgentConfig::default()
    }
}

fn inheriting(tools: &[&str]) -> InheritancePolicy {
    InheritancePolicy { inherit_tools: texts(tools), ..InheritancePolicy::default() }
}

fn resolved(config: &AgentConfig) -> AgentConfig {
    config.resolve().unwrap().config
}

#[test]
fn row_2_33_the_defaults_are_those_of_the_source() {
    let policy: InheritancePolicy = serde_json::from_value(json!({})).unwrap();
    assert_eq!(
        serde_json::to_value(policy).unwrap(),
        json!({"enabled": true, "inherit_system_prompt": true, "inherit_tools": [], "inherit_permissions": false,
            "tool_conflict_policy": "skip", "missing_skill_policy": "warn"})
    );
    assert!(serde_json::from_value::<InheritancePolicy>(json!({"inherits": true})).is_err());
    assert!(
        serde_json::from_value::<InheritancePolicy>(json!({"tool_conflict_policy": "merge"}))
            .is_err()
    );
}

#[test]
fn row_2_33_the_sessions_prompt_follows_the_agents() {
    let config = resolved(&child(InheritancePolicy::default()));
    assert_eq!(
        config.system_prompt,
        "You are a research specialist.\n\nYou are a collaborative agent. Always verify sources."
    );
    assert_eq!(config.tools, ["fetch"], "an empty list inherits no tools");
    let off = InheritancePolicy { inherit_system_prompt: false, ..inheriting(&["search"]) };
    let config = resolved(&child(off));
    assert_eq!(config.system_prompt, "You are a research specialist.");
    assert_eq!(config.tools, ["fetch", "search"]);
}

#[test]
fn row_2_33_only_tools_that_are_listed_are_inherited() {
    assert_eq!(
        resolved(&child(inheriting(&["search", "read"]))).tools,
        ["fetch", "search", "read"]
    );
    let disabled = InheritancePolicy { enabled: false, ..inheriting(&["search"]) };
    let config = resolved(&child(disabled));
    assert_eq!(
        (config.tools, config.system_prompt.as_str()),
        (texts(&["fetch"]), "You are a research specialist.")
    );
    let none = AgentConfig { inheritance: None, ..child(inheriting(&["search"])) };
    assert_eq!(resolved(&none).tools, ["fetch"], "an agent without a policy inherits nothing");
}

#[test]
fn row_2_33_a_conflict_is_skipped_refused_or_overridden() {
    let with = |conflict| {
        let policy =
            InheritancePolicy { tool_conflict_policy: conflict, ..inheriting(&["fetch", "read"]) };
        let mut config = child(policy);
        config.parent.as_mut().unwrap().tools.push("fetch".to_owned());
        config
    };
    assert_eq!(resolved(&with(ToolConflict::Skip)).tools, ["fetch", "read"]);
    assert_eq!(resolved(&with(ToolConflict::Override)).tools, ["fetch", "read"]);
    let refusal = with(ToolConflict::Error).resolve().unwrap_err();
    assert_eq!(refusal.message, "Tool inheritance conflict for 'fetch'");
    let policy =
        InheritancePolicy { tool_conflict_policy: ToolConflict::Error, ..inheriting(&["read"]) };
    assert_eq!(
        resolved(&child(policy)).tools,
        ["fetch", "read"],
        "without a conflict there is no error"
    );
}

#[test]
fn row_2_33_what_the_session_has_not_is_missed_or_refused() {
    let config = child(inheriting(&["fly", "read"])).resolve().unwrap();
    assert_eq!((config.config.tools, config.missing), (texts(&["fetch", "read"]), texts(&["fly"])));
    let strict = InheritancePolicy {
        missing_skill_policy: MissingSkill::Error,
        ..inheriting(&["read", "fly"])
    };
    let refusal = child(strict.clone()).resolve().unwrap_err();
    assert_eq!(refusal.message, "Missing skill: nothing of the session provides 'fly'");
    let orphan = AgentConfig { parent: None, ..child(strict) };
    assert!(orphan.resolve().is_err(), "a session that carries nothing has nothing");
    let lenient = AgentConfig { parent: None, ..child(inheriting(&["fly"])) };
    assert_eq!(lenient.resolve().unwrap().missing, ["fly"]);
}

#[test]
fn row_2_33_a_tool_of_a_skill_brings_its_skill() {
    let config = resolved(&child(inheriting(&["browse"])));
    assert_eq!(config.tools, ["fetch", "browse", "index"]);
    assert!(
        config
            .system_prompt
            .contains("### web-search\nWhat web-search is for\n\nHow web-search goes.")
    );
    let own = Skill { instructions: "My own way.".to_owned(), ..skill("web-search", &["index"]) };
    let with = |conflict| {
        let policy =
            InheritancePolicy { tool_conflict_policy: conflict, ..inheriting(&["browse"]) };
        AgentConfig { skills: vec![own.clone()], ..child(policy) }
    };
    assert!(resolved(&with(ToolConflict::Skip)).system_prompt.contains("My own way."));
    let overridden = resolved(&with(ToolConflict::Override)).system_prompt;
    assert!(overridden.contains("How web-search goes.") && !overridden.contains("My own way."));
}

#[test]
fn permissions_bound_what_is_listed_inherited_and_brought_by_skills() {
    let permissions = Permissions { allow: None, deny: texts(&["fetch", "brow*"]) };
    let config = AgentConfig {
        permissions: Some(permissions),
        skills: vec![skill("files", &["read_file"])],
        sections: true,
        ..child(inheriting(&["search", "browse"]))
    };
    let config = resolved(&config);
    assert_eq!(config.allowed_tools().collect::<Vec<_>>(), ["read_file", "search", "index"]);
    assert!(config.system_prompt.contains("## Available Tools\n- read_file\n- search\n- index"));
    assert!(!config.system_prompt.contains("- fetch"));
}

#[test]
fn a_resolved_agent_resolves_to_itself() {
    let config = AgentConfig {
        skills: vec![skill("files", &["read_file"])],
        sections: true,
        envelope: true,
        ..child(inheriting(&["search"]))
    };
    let once = resolved(&config);
    assert_eq!(resolved(&once), once);
    let plain = AgentConfig { system_prompt: "Plain.".to_owned(), ..AgentConfig::default() };
    assert_eq!(resolved(&plain), plain, "an agent without any of this is unchanged");
}

#[test]
fn a_delegation_adds_to_its_agent() {
    let own = InheritancePolicy { enabled: false, ..InheritancePolicy::default() };
    let extras = AgentExtras {
        skills: vec![skill("b", &[]), skill("a", &[])],
        inheritance: Some(InheritancePolicy::default()),
        sections: true,
        envelope: false,
    };
    let agent = AgentConfig { skills: vec![skill("a", &[])], ..AgentConfig::default() };
    let config = extras.add_to(agent.clone());
    assert_eq!(config.inheritance, Some(InheritancePolicy::default()));
    assert!(config.sections && !config.envelope);
    assert_eq!(Skill::merged(&config.skills), [skill("a", &[]), skill("b", &[])]);
    let config = extras.add_to(AgentConfig { inheritance: Some(own.clone()), ..agent });
    assert_eq!(config.inheritance, Some(own), "the agent's own policy counts");
}

#[test]
fn permissions_bound_delegating_further_too() {
    let may = |deny: &[&str]| {
        let permissions = Some(Permissions { allow: None, deny: texts(deny) });
        resolved(&AgentConfig { may_delegate: true, permissions, ..AgentConfig::default() })
            .may_delegate
    };
    assert!(may(&["fetch"]));
    assert!(!may(&["sub*"]));
}
