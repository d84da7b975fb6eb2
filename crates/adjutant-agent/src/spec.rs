use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{InheritancePolicy, Parent, Permissions, SUBAGENT, Skill};

/// The turns that an agent has if nothing else is said.
pub const DEFAULT_MAX_TURNS: i32 = 10;

/// What a task's agent is: the snapshot that was taken when the task was spawned, and that no later change reaches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentSpec {
    /// As its author wrote it, without what we add.
    pub system_prompt: String,
    /// By name; those that do not exist any more are left out.
    pub tools: Vec<String>,
    /// The name of a model of the config.
    pub model: String,
    pub max_turns: i32,
    /// Asked when the loop is done; its answer becomes the summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_prompt: Option<String>,
    /// The longest that it may run, over all attempts, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// For the task and everything below it.
    #[serde(skip_serializing_if = "Budget::is_unlimited")]
    pub budget: Budget,
    /// With their texts, as they were when the task was spawned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<Skill>,
    /// None: nothing is inherited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inheritance: Option<InheritancePolicy>,
    /// What its session carried when the task was spawned, if it inherits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Of its session, when the task was spawned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// The prompt ends with sections that name its tools and skills.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sections: bool,
    /// It is told how to give its answer with a summary.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub envelope: bool,
    /// Its shared context is a snapshot that is discarded with its task.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub private_context: bool,
    /// Whether it gets the tool to delegate further, where the operator's `max_depth` leaves room for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_delegate: bool,
    /// The dialect in which it delegates further; none is the default dialect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation: Option<String>,
    /// Of the dialect that it was spawned in, where that allows less than the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<i16>,
    /// The settings with which the dialect of the task logs its end; none if that is not logged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Value>,
}

impl Default for AgentSpec {
    fn default() -> Self {
        Self {
            system_prompt: String::new(),
            tools: Vec::new(),
            model: String::new(),
            max_turns: DEFAULT_MAX_TURNS,
            summary_prompt: None,
            timeout_s: None,
            budget: Budget::default(),
            skills: Vec::new(),
            inheritance: None,
            parent: None,
            permissions: None,
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

impl AgentSpec {
    /// The tools that the agent may use, each once: those that its session permits. Never the one with which it could delegate
    /// further: whether it has that depends on where its task is ([`AgentSpec::delegation`]), and no list of tools gives it.
    pub fn allowed_tools(&self) -> impl Iterator<Item = &str> {
        let first = |(nth, name): &(usize, &String)| !self.tools[..*nth].contains(name);
        let names = self.tools.iter().enumerate().filter(first).map(|(_, name)| name.as_str());
        names.filter(|name| *name != SUBAGENT && self.permits(name))
    }

    /// Whether its session lets it use a tool of this name.
    pub(crate) fn permits(&self, tool: &str) -> bool {
        self.permissions.as_ref().is_none_or(|permissions| permissions.allows(tool))
    }

    /// What it is asked when its loop is done, unless that is blank.
    pub fn summary_prompt(&self) -> Option<&str> {
        self.summary_prompt.as_deref().filter(|prompt| !prompt.trim().is_empty())
    }
}

/// What may be spent; checked before each model call with what has been.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_input_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_nanousd: Option<i64>,
}

impl Budget {
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_list_of_tools_gives_an_agent_the_tool_to_delegate() {
        let tools = ["fetch", "subagent", "shared_context", "fetch"].map(str::to_owned).to_vec();
        let spec = AgentSpec { tools, ..AgentSpec::default() };
        assert_eq!(spec.allowed_tools().collect::<Vec<_>>(), ["fetch", "shared_context"]);
    }
}
