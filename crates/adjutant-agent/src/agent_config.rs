use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Budget, Compaction, Grants, InheritancePolicy, MissingTools, OnBudget, OrchestratorConfig,
    Permissions, SUBAGENT, Skill,
};

/// The default number of turns of an agent.
pub const DEFAULT_MAX_TURNS: i32 = 10;

/// The configuration that a task runs with: a copy of its agent, taken when the task was spawned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentConfig {
    /// As its author wrote it, without the parts that are added when the task runs.
    pub system_prompt: String,
    /// By name. A worker that has all of them runs the task. Tools that vanish later are ignored.
    pub tools: Vec<String>,
    /// What happens to a task if no worker has all of them. `required_tools_1` reads it.
    #[serde(skip_serializing_if = "MissingTools::is_default")]
    pub missing_tools: MissingTools,
    /// The pool of its tasks, where their spawn names none. `default_pools_1` reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The name of a model in the config.
    pub model: String,
    pub max_turns: i32,
    /// Sent when the loop is done; the answer becomes the task's summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_prompt: Option<String>,
    /// Fields for the body of its model's requests.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra_body: Map<String, Value>,
    /// None is as its model's config says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    /// The most running time in seconds, over all attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// For the task and all of its descendants.
    #[serde(skip_serializing_if = "Budget::is_unlimited")]
    pub budget: Budget,
    /// None if its root or its session says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_budget: Option<OnBudget>,
    /// With their texts, as they were when the task was spawned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<Skill>,
    /// None if nothing is inherited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inheritance: Option<InheritancePolicy>,
    /// The session's orchestrator when the task was spawned, if the agent inherits from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<OrchestratorConfig>,
    /// The permissions of its session when the task was spawned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// The grants of the key that spawned its tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<Grants>,
    /// The prompt ends with sections that name its tools and skills.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sections: bool,
    /// The prompt explains how to give an answer with a summary.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub envelope: bool,
    /// Its shared context is a snapshot that is deleted when the task ends.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub private_context: bool,
    /// Whether it has the tool `subagent`, within the operator's `max_depth`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_delegate: bool,
    /// The dialect in which it delegates; none is the default dialect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation: Option<String>,
    /// The limit of the dialect that it was spawned in, if that is below the operator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<i16>,
    /// The settings with which the task's dialect logs its end; none if the end is not logged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Value>,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            system_prompt: String::new(),
            tools: Vec::new(),
            missing_tools: MissingTools::default(),
            pool: None,
            model: String::new(),
            max_turns: DEFAULT_MAX_TURNS,
            summary_prompt: None,
            extra_body: Map::new(),
            compaction: None,
            timeout_s: None,
            budget: Budget::default(),
            on_budget: None,
            skills: Vec::new(),
            inheritance: None,
            parent: None,
            permissions: None,
            grants: None,
            sections: false,
            envelope: false,
            private_context: false,
            may_delegate: false,
            delegation: None,
            max_depth: None,
            telemetry: None,
        }
    }
}

impl AgentConfig {
    /// The tools that the agent may use: those of its list that the session permits and that are
    /// granted to its task, without duplicates. Never `subagent`: whether the agent has that
    /// depends on the depth of its task ([`AgentConfig::delegation`]).
    pub fn allowed_tools(&self) -> impl Iterator<Item = &str> {
        let first = |(nth, name): &(usize, &String)| !self.tools[..*nth].contains(name);
        let names = self.tools.iter().enumerate().filter(first).map(|(_, name)| name.as_str());
        let may_use = |name: &str| self.permits(name) && self.grants().allows_tool(name);
        names.filter(move |name| *name != SUBAGENT && may_use(name))
    }

    /// What its task may use.
    pub fn grants(&self) -> &Grants {
        self.grants.as_ref().unwrap_or(&Grants::EVERYTHING)
    }

    /// Whether the session's permissions allow this tool.
    pub(crate) fn permits(&self, tool: &str) -> bool {
        self.permissions.as_ref().is_none_or(|permissions| permissions.allows(tool))
    }

    /// The summary prompt, unless it is blank.
    pub fn summary_prompt(&self) -> Option<&str> {
        self.summary_prompt.as_deref().filter(|prompt| !prompt.trim().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_list_of_tools_gives_an_agent_the_tool_to_delegate() {
        let tools = ["fetch", "subagent", "shared_context", "fetch"].map(str::to_owned).to_vec();
        let config = AgentConfig { tools, ..AgentConfig::default() };
        assert_eq!(config.allowed_tools().collect::<Vec<_>>(), ["fetch", "shared_context"]);
        let grants = Grants { tools: Some(vec!["fe*".to_owned()]), ..Grants::default() };
        let granted = AgentConfig { grants: Some(grants), ..config };
        assert_eq!(granted.allowed_tools().collect::<Vec<_>>(), ["fetch"]);
    }
}
