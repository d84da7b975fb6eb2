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

fn parent() -> Parent {
    Parent {
        system_prompt: Some("You are a collaborative agent. Always verify sources.".to_owned()),
        tools: texts(&["search", "read", "write", "calculate"]),
        skills: vec![skill("web-search", &["browse", "index"])],
    }
}

fn child(policy: InheritancePolicy) -> AgentSpec {
    AgentSpec {
        system_prompt: "You are a research specialist.".to_owned(),
        tools: texts(&["fetch"]),
        inheritance: Some(policy),
        parent: Some(parent()),
        ..AgentSpec::default()
    }
}

fn inheriting(tools: &[&str]) -> InheritancePolicy {
    InheritancePolicy { inherit_tools: texts(tools), ..InheritancePolicy::default() }
}

fn equipped(spec: &AgentSpec) -> AgentSpec {
    spec.equipped().unwrap().spec
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
    let spec = equipped(&child(InheritancePolicy::default()));
    assert_eq!(
        spec.system_prompt,
        "You are a research specialist.\n\nYou are a collaborative agent. Always verify sources."
    );
    assert_eq!(spec.tools, ["fetch"], "an empty list inherits no tools");
    let off = InheritancePolicy { inherit_system_prompt: false, ..inheriting(&["search"]) };
    let spec = equipped(&child(off));
    assert_eq!(spec.system_prompt, "You are a research specialist.");
    assert_eq!(spec.tools, ["fetch", "search"]);
}

#[test]
fn row_2_33_only_tools_that_are_listed_are_inherited() {
    assert_eq!(
        equipped(&child(inheriting(&["search", "read"]))).tools,
        ["fetch", "search", "read"]
    );
    let disabled = InheritancePolicy { enabled: false, ..inheriting(&["search"]) };
    let spec = equipped(&child(disabled));
    assert_eq!(
        (spec.tools, spec.system_prompt.as_str()),
        (texts(&["fetch"]), "You are a research specialist.")
    );
    let none = AgentSpec { inheritance: None, ..child(inheriting(&["search"])) };
    assert_eq!(equipped(&none).tools, ["fetch"], "an agent without a policy inherits nothing");
}

#[test]
fn row_2_33_a_conflict_is_skipped_refused_or_overridden() {
    let with = |conflict| {
        let policy =
            InheritancePolicy { tool_conflict_policy: conflict, ..inheriting(&["fetch", "read"]) };
        let mut spec = child(policy);
        spec.parent.as_mut().unwrap().tools.push("fetch".to_owned());
        spec
    };
    assert_eq!(equipped(&with(ToolConflict::Skip)).tools, ["fetch", "read"]);
    assert_eq!(equipped(&with(ToolConflict::Override)).tools, ["fetch", "read"]);
    let refusal = with(ToolConflict::Error).equipped().unwrap_err();
    assert_eq!(refusal.message, "Tool inheritance conflict for 'fetch'");
    let policy =
        InheritancePolicy { tool_conflict_policy: ToolConflict::Error, ..inheriting(&["read"]) };
    assert_eq!(
        equipped(&child(policy)).tools,
        ["fetch", "read"],
        "without a conflict there is no error"
    );
}

#[test]
fn row_2_33_what_the_session_has_not_is_missed_or_refused() {
    let spec = child(inheriting(&["fly", "read"])).equipped().unwrap();
    assert_eq!((spec.spec.tools, spec.missing), (texts(&["fetch", "read"]), texts(&["fly"])));
    let strict = InheritancePolicy {
        missing_skill_policy: MissingSkill::Error,
        ..inheriting(&["read", "fly"])
    };
    let refusal = child(strict.clone()).equipped().unwrap_err();
    assert_eq!(refusal.message, "Missing skill: nothing of the session provides 'fly'");
    let orphan = AgentSpec { parent: None, ..child(strict) };
    assert!(orphan.equipped().is_err(), "a session that carries nothing has nothing");
    let lenient = AgentSpec { parent: None, ..child(inheriting(&["fly"])) };
    assert_eq!(lenient.equipped().unwrap().missing, ["fly"]);
}

#[test]
fn row_2_33_a_tool_of_a_skill_brings_its_skill() {
    let spec = equipped(&child(inheriting(&["browse"])));
    assert_eq!(spec.tools, ["fetch", "browse", "index"]);
    assert!(
        spec.system_prompt
            .contains("### web-search\nWhat web-search is for\n\nHow web-search goes.")
    );
    let own = Skill { instructions: "My own way.".to_owned(), ..skill("web-search", &["index"]) };
    let with = |conflict| {
        let policy =
            InheritancePolicy { tool_conflict_policy: conflict, ..inheriting(&["browse"]) };
        AgentSpec { skills: vec![own.clone()], ..child(policy) }
    };
    assert!(equipped(&with(ToolConflict::Skip)).system_prompt.contains("My own way."));
    let overridden = equipped(&with(ToolConflict::Override)).system_prompt;
    assert!(overridden.contains("How web-search goes.") && !overridden.contains("My own way."));
}

#[test]
fn permissions_bound_what_is_listed_inherited_and_brought_by_skills() {
    let permissions = Permissions { allow: None, deny: texts(&["fetch", "brow*"]) };
    let spec = AgentSpec {
        permissions: Some(permissions),
        skills: vec![skill("files", &["read_file"])],
        sections: true,
        ..child(inheriting(&["search", "browse"]))
    };
    let spec = equipped(&spec);
    assert_eq!(spec.allowed_tools().collect::<Vec<_>>(), ["read_file", "search", "index"]);
    assert!(spec.system_prompt.contains("## Available Tools\n- read_file\n- search\n- index"));
    assert!(!spec.system_prompt.contains("- fetch"));
}

#[test]
fn equipping_twice_is_equipping_once() {
    let spec = AgentSpec {
        skills: vec![skill("files", &["read_file"])],
        sections: true,
        envelope: true,
        ..child(inheriting(&["search"]))
    };
    let once = equipped(&spec);
    assert_eq!(equipped(&once), once);
    let plain = AgentSpec { system_prompt: "Plain.".to_owned(), ..AgentSpec::default() };
    assert_eq!(equipped(&plain), plain, "who has nothing of this stays as it is");
}

#[test]
fn a_delegation_adds_to_its_agent() {
    let own = InheritancePolicy { enabled: false, ..InheritancePolicy::default() };
    let equipment = Equipment {
        skills: vec![skill("b", &[]), skill("a", &[])],
        inheritance: Some(InheritancePolicy::default()),
        sections: true,
        envelope: false,
    };
    let agent = AgentSpec { skills: vec![skill("a", &[])], ..AgentSpec::default() };
    let spec = equipment.add_to(agent.clone());
    assert_eq!(spec.inheritance, Some(InheritancePolicy::default()));
    assert!(spec.sections && !spec.envelope);
    assert_eq!(Skill::merged(&spec.skills), [skill("a", &[]), skill("b", &[])]);
    let spec = equipment.add_to(AgentSpec { inheritance: Some(own.clone()), ..agent });
    assert_eq!(spec.inheritance, Some(own), "the agent's own policy counts");
}

#[test]
fn permissions_bound_delegating_further_too() {
    let may = |deny: &[&str]| {
        let permissions = Some(Permissions { allow: None, deny: texts(deny) });
        equipped(&AgentSpec { may_delegate: true, permissions, ..AgentSpec::default() })
            .may_delegate
    };
    assert!(may(&["fetch"]));
    assert!(!may(&["sub*"]));
}
