//! Agents that delegate further. A worker runs their calls under the lease of their own task.

use adjutant_agent::{
    AgentConfig, Arguments, Delegation, Depth, EndedTask, Refusal, SUBAGENT, TextLimits,
    ToolDefinition, ToolUse,
};
use adjutant_store::{NewDelegation, Operator};
use serde_json::Value;

use crate::spec::nested::{ChildCall, actions_tool};
use crate::{Answer, Dialect, DialectSettings, Result};

/// How an agent delegates.
#[derive(Clone, Copy)]
pub enum NestedCalls {
    /// With the actions of the default dialect: spawn, wait, collect.
    Actions,
    /// Each call spawns one child and waits for it.
    Blocking(&'static dyn BlockingTool),
}

/// The tool of a dialect whose nested calls wait for the child that they spawn.
pub trait BlockingTool: Sync {
    fn tool(&self) -> ToolDefinition;

    /// Whether the call spawns a child, and so waits.
    fn spawns(&self, arguments: &Value) -> bool;

    /// The child that a call asks for, or the answer to a call that spawns none.
    fn plan(&self, arguments: &Value, parent: &NestedParent<'_>) -> Result<PlannedChild, Answer>;

    /// Logs that this call has stored the child.
    fn log_spawned(&self, child: &PlannedChild, parent: &NestedParent<'_>);

    /// The answer to a call whose child the store refuses.
    fn refused(&self, child: &PlannedChild, parent: &NestedParent<'_>, refusal: &Refusal)
    -> Answer;

    /// The answer to a call whose child has ended.
    fn ended(&self, child: &EndedTask, parent: &NestedParent<'_>) -> Answer;
}

/// The task whose agent calls.
#[derive(Clone, Copy)]
pub struct NestedParent<'a> {
    pub agent: &'a AgentConfig,
    pub depth: Depth,
    pub pool: &'a str,
    pub delegation: Delegation,
    pub operator: &'a Operator,
    pub settings: &'a DialectSettings,
}

/// A child before it is stored; its specification is given.
pub struct PlannedChild {
    pub delegation: NewDelegation,
}

impl NestedCalls {
    /// How the agent delegates, by the dialect in its configuration.
    pub fn of(agent: &AgentConfig) -> Self {
        let named = agent.delegation.as_deref();
        let dialect = Dialect::ALL.into_iter().find(|dialect| Some(dialect.as_str()) == named);
        dialect.and_then(Dialect::nested).map_or(Self::Actions, Self::Blocking)
    }

    /// The tool with which the agent delegates.
    pub fn tool(self, limits: &TextLimits) -> ToolDefinition {
        match self {
            Self::Actions => actions_tool(limits),
            Self::Blocking(tool) => tool.tool(),
        }
    }
}

/// Whether the agent's task waits for the children of this call, instead of running a tool.
pub fn waits(agent: &AgentConfig, call: &ToolUse) -> bool {
    let Arguments::Json(arguments) = &call.arguments else { return false };
    agent.may_delegate
        && call.name == SUBAGENT
        && match NestedCalls::of(agent) {
            // A call that waits has no long text.
            NestedCalls::Actions => {
                matches!(ChildCall::parse(arguments, &TextLimits::DEFAULT), Ok(ChildCall::Wait(_)))
            }
            NestedCalls::Blocking(tool) => tool.spawns(arguments),
        }
}
