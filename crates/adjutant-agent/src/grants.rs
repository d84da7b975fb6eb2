use serde::{Deserialize, Serialize};

use crate::names::{MAX_NAME_CHARS, is_agent_part, is_pool_part, is_tool_part, quoted};
use crate::permissions::{check_patterns, matches_any};
use crate::{AgentDefinition, ErrorCode, Refusal, SHARED_CONTEXT};

/// What an API key may use, by patterns of names in which `*` matches any number of characters. An
/// absent list is no limit. Tasks carry the grants of the key that spawned them, and their children
/// inherit them. The tool that delegates is not granted: a key's scope and an agent's
/// `may_delegate` decide about it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Grants {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pools: Option<Vec<String>>,
}

impl Grants {
    /// No limits at all.
    pub const EVERYTHING: Self = Self { tools: None, models: None, agents: None, pools: None };

    pub fn is_everything(&self) -> bool {
        *self == Self::EVERYTHING
    }

    /// Refuses patterns that are empty, too long or too many, and those that can match no name.
    pub fn check(&self) -> Result<(), Refusal> {
        let Self { tools, models, agents, pools } = self;
        for (field, list) in
            [("tools", tools), ("models", models), ("agents", agents), ("pools", pools)]
        {
            check_patterns(field, list.as_deref().unwrap_or_default())?;
        }
        check_matchable("tools", tools.as_deref(), Form::TOOL)?;
        check_matchable("models", models.as_deref(), Form::MODEL)?;
        check_matchable("agents", agents.as_deref(), Form::AGENT)?;
        check_matchable("pools", pools.as_deref(), Form::POOL)
    }

    /// These grants, and those of `other` where these have no list.
    pub fn or(self, other: Self) -> Self {
        Self {
            tools: self.tools.or(other.tools),
            models: self.models.or(other.models),
            agents: self.agents.or(other.agents),
            pools: self.pools.or(other.pools),
        }
    }

    pub fn allows_tool(&self, name: &str) -> bool {
        allows(self.tools.as_deref(), name)
    }

    pub fn allows_model(&self, name: &str) -> bool {
        allows(self.models.as_deref(), name)
    }

    pub fn allows_agent(&self, name: &str) -> bool {
        allows(self.agents.as_deref(), name)
    }

    /// Refuses the first of these tools that is not granted.
    pub fn check_tools(&self, field: &str, tools: &[String]) -> Result<(), Refusal> {
        match tools.iter().find(|tool| !self.allows_tool(tool)) {
            Some(tool) => Err(no_tool(field, tool)),
            None => Ok(()),
        }
    }

    /// Refuses the use of the shared context if it is not granted.
    pub fn check_shared_context(&self) -> Result<(), Refusal> {
        if self.allows_tool(SHARED_CONTEXT) {
            return Ok(());
        }
        let message = format!("This key may not use the tool {SHARED_CONTEXT}");
        Err(Refusal::new(ErrorCode::InvalidTool, message))
    }

    /// Refuses an agent whose name is not granted, as if it did not exist.
    pub fn check_agent(&self, name: &str) -> Result<(), Refusal> {
        if self.allows_agent(name) {
            return Ok(());
        }
        let start: String = name.chars().take(64).collect();
        Err(Refusal::new(ErrorCode::AgentNotFound, format!("Agent not found: {start}")))
    }

    /// What a list of agents shows of this one: none if it is not granted, and only the tools that
    /// are. An agent without a model has `default_model`.
    pub fn shown(
        &self,
        mut agent: AgentDefinition,
        default_model: &str,
    ) -> Option<AgentDefinition> {
        let config = &mut agent.config;
        let model = if config.model.is_empty() { default_model } else { &config.model };
        if !self.allows_agent(&agent.name) || !(model.is_empty() || self.allows_model(model)) {
            return None;
        }
        config.tools.retain(|tool| self.allows_tool(tool));
        Some(agent)
    }
}

/// A tool that does not exist for this caller.
pub fn no_tool(field: &str, tool: &str) -> Refusal {
    let start: String = tool.chars().take(64).collect();
    Refusal::new(ErrorCode::InvalidTool, format!("{field}: there is no tool {start:?}"))
}

/// What names of a kind look like.
struct Form {
    what: &'static str,
    most: usize,
    characters: &'static str,
    is_part: fn(char) -> bool,
}

impl Form {
    const TOOL: Self = Self {
        what: "a tool",
        most: MAX_NAME_CHARS,
        characters: "characters of a-z, A-Z, 0-9, _ and -",
        is_part: is_tool_part,
    };
    const MODEL: Self = Self {
        what: "a model",
        most: 128,
        characters: "characters without spaces",
        is_part: |character| !character.is_whitespace(),
    };
    const AGENT: Self = Self {
        what: "an agent",
        most: MAX_NAME_CHARS,
        characters: "characters of a-z, 0-9, _ and -",
        is_part: is_agent_part,
    };
    const POOL: Self = Self {
        what: "a pool",
        most: MAX_NAME_CHARS,
        characters: "characters of a-z, A-Z, 0-9, _, - and .",
        is_part: is_pool_part,
    };
}

/// Refuses patterns that match nothing: each would need a longer name, or other characters.
fn check_matchable(field: &str, patterns: Option<&[String]>, form: Form) -> Result<(), Refusal> {
    let Form { what, most, characters, is_part } = form;
    for (place, pattern) in patterns.unwrap_or_default().iter().enumerate() {
        let parts = pattern.chars().filter(|c| *c != '*');
        if parts.clone().count() > most || !parts.clone().all(is_part) {
            let why = format_args!(
                "{} matches nothing: {what} has 1 to {most} {characters}",
                quoted(pattern)
            );
            return Err(Refusal::invalid(&format!("{field}[{place}]"), why));
        }
    }
    Ok(())
}

fn allows(patterns: Option<&[String]>, name: &str) -> bool {
    patterns.is_none_or(|patterns| matches_any(patterns, name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::AgentConfig;

    fn grants(value: serde_json::Value) -> Grants {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_absent_list_is_no_limit_and_an_empty_one_grants_nothing() {
        let all = Grants::default();
        assert!(all.is_everything() && all.allows_tool("x") && all.allows_model("x"));
        let some = grants(json!({"tools": ["fetch", "files_*"], "models": []}));
        assert!(!some.is_everything());
        assert!(some.allows_tool("fetch") && some.allows_tool("files_read"));
        assert!(!some.allows_tool("fetcher") && !some.allows_model("main"));
        assert!(some.allows_agent("anyone"));
        assert_eq!(serde_json::to_value(&all).unwrap(), json!({}));
    }

    #[test]
    fn what_is_not_granted_is_refused_as_if_it_did_not_exist() {
        let some = grants(json!({"tools": ["fetch"], "agents": ["research*"]}));
        let refusal = some.check_agent("writer").unwrap_err();
        assert_eq!(refusal.to_string(), "AGENT_NOT_FOUND: Agent not found: writer");
        assert_eq!(some.check_agent("researcher"), Ok(()));
        let refusal = some.check_tools("tools", &["fetch".into(), "pay".into()]).unwrap_err();
        assert_eq!(refusal.to_string(), "INVALID_TOOL: tools: there is no tool \"pay\"");
        assert_eq!(some.check_shared_context().unwrap_err().code, ErrorCode::InvalidTool);
        assert_eq!(Grants::EVERYTHING.check_shared_context(), Ok(()));
    }

    #[test]
    fn a_list_of_agents_shows_what_can_be_used() {
        let agent = |model: &str| AgentDefinition {
            name: "a".to_owned(),
            description: String::new(),
            on_worker_loss: crate::OnWorkerLoss::Resume,
            tenants: None,
            config: AgentConfig {
                model: model.to_owned(),
                tools: vec!["fetch".to_owned(), "pay".to_owned()],
                ..AgentConfig::default()
            },
        };
        let some = grants(json!({"tools": ["fetch"], "models": ["cheap"]}));
        assert_eq!(some.shown(agent("cheap"), "dear").unwrap().config.tools, ["fetch"]);
        assert!(some.shown(agent("dear"), "cheap").is_none());
        assert!(some.shown(agent(""), "dear").is_none());
        assert!(some.shown(agent(""), "").is_some(), "its model is not known here");
        let none = grants(json!({"agents": []}));
        assert!(none.shown(agent("cheap"), "").is_none());
    }

    #[test]
    fn patterns_are_checked_by_their_field() {
        let wrong = grants(json!({"models": [""]})).check().unwrap_err();
        assert_eq!(wrong.message, "models[0]: must have 1 to 128 characters");
        let many = Grants { pools: Some(vec!["x".to_owned(); 101]), ..Grants::default() };
        assert_eq!(many.check().unwrap_err().message, "pools: must have at most 100 patterns");
        assert_eq!(grants(json!({"tools": ["*"]})).check(), Ok(()));
    }

    #[test]
    fn a_pattern_that_can_match_nothing_is_refused_with_what_names_look_like() {
        for (field, wrong, rule) in [
            ("pools", "a b", "a pool has 1 to 64 characters of a-z, A-Z, 0-9, _, - and ."),
            ("tools", "files.*", "a tool has 1 to 64 characters of a-z, A-Z, 0-9, _ and -"),
            ("models", "big one", "a model has 1 to 128 characters without spaces"),
            ("agents", "Research*", "an agent has 1 to 64 characters of a-z, 0-9, _ and -"),
        ] {
            let refusal = grants(json!({field: ["*", wrong]})).check().unwrap_err();
            let expected = format!("{field}[1]: {wrong:?} matches nothing: {rule}");
            assert_eq!(refusal.message, expected);
            let long = "x".repeat(129);
            assert!(grants(json!({field: [long]})).check().is_err(), "{field}");
            assert_eq!(grants(json!({field: ["a-*_b*", "*"]})).check(), Ok(()));
        }
        assert_eq!(grants(json!({"pools": ["GPU.*"], "models": ["org/Big-3:*"]})).check(), Ok(()));
    }

    #[test]
    fn narrower_grants_take_the_place_of_wider_ones() {
        let key = grants(json!({"tools": ["fetch"]}));
        let origin = grants(json!({"tools": ["pay"], "models": ["cheap"]}));
        assert_eq!(key.or(origin), grants(json!({"tools": ["fetch"], "models": ["cheap"]})));
    }
}
