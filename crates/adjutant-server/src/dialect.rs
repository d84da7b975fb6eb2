//! The front doors: whose contract a call is written in, and what every one of them needs. A dialect reads arguments, makes tasks
//! and shows what became of them in its own words; it has no queue, no state and no loop of its own.

mod begin;
mod blocking;
mod parent;
mod request;

use adjutant_agent::dialects::{caliban, ecs, weakincentives, xzatoma};
use adjutant_agent::{Refusal, ToolDefinition, shared_context_tool, subagent_tool};

pub(crate) use begin::{Begun, Seat, said_by_tool};
pub(crate) use blocking::{Made, Unnamed, ended_task};
pub(crate) use parent::Parent;
pub(crate) use request::Request;

/// A front door that renders one source's tool contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// `subagent` and `shared_context`, as the specification has them.
    #[default]
    Spec,
    /// `AgentTool`: a prompt, and the last text of the child.
    Caliban,
    /// `subagent` and four more: sessions in the foreground and in the background.
    Ecs,
    /// `subagent`: a labelled task and its summary.
    Xzatoma,
    /// `dispatch_subagent`: a step of a plan.
    Weakincentives,
}

impl Dialect {
    pub const ALL: [Self; 5] = [Self::Spec, Self::Caliban, Self::Ecs, Self::Xzatoma, Self::Weakincentives];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Caliban => "caliban",
            Self::Ecs => "ecs",
            Self::Xzatoma => "xzatoma",
            Self::Weakincentives => "weakincentives",
        }
    }

    /// The tools that an orchestrator is given.
    pub fn tools(self) -> Vec<ToolDefinition> {
        match self {
            Self::Spec => vec![subagent_tool(), shared_context_tool()],
            Self::Caliban => vec![caliban::tool()],
            Self::Ecs => ecs::tools(),
            Self::Xzatoma => vec![xzatoma::tool()],
            Self::Weakincentives => vec![weakincentives::tool()],
        }
    }

    /// The argument that names the session of a call over MCP. In `ecs`, `session_id` is what the source calls a task.
    pub(crate) fn session_argument(self) -> &'static str {
        match self {
            Self::Ecs => "adjutant_session_id",
            Self::Spec | Self::Caliban | Self::Xzatoma | Self::Weakincentives => "session_id",
        }
    }
}

impl std::str::FromStr for Dialect {
    type Err = Refusal;

    fn from_str(word: &str) -> Result<Self, Refusal> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == word).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            Refusal::invalid("dialect", format_args!("must be one of: {known}"))
        })
    }
}
