//! The strict parser of `subagent` calls: an unknown field or a wrong type refuses the whole call.
//! Agents, tools and tasks are not looked up here.

mod define;
mod follow;
mod spawn;
#[cfg(test)]
mod tests;

use adjutant_agent::{ErrorCode, Fields, Refusal, TextLimits};
use serde_json::Value;

pub use define::DefineCall;
pub use follow::{CancelCall, CollectCall, RaiseCall, ReadCall, StatusCall, WaitCall};
pub use spawn::{
    BatchCall, BatchItem, ContinueCall, ItemDependency, SpawnCall, TaskOptions, new_delegation,
};

adjutant_agent::word_enum! {
    /// The actions of `subagent`: the five of the source, and our extensions.
    SubagentAction {
        ListAgents = "list_agents",
        Define = "define",
        Spawn = "spawn",
        Status = "status",
        Collect = "collect",
        Wait = "wait",
        Read = "read",
        Cancel = "cancel",
        Continue = "continue",
        Batch = "batch",
        Raise = "raise",
    }
}

/// A call of `subagent` with valid arguments.
#[derive(Debug, Clone, PartialEq)]
pub enum SubagentCall {
    ListAgents,
    Define(Box<DefineCall>),
    Spawn(Box<SpawnCall>),
    Status(StatusCall),
    Collect(CollectCall),
    Wait(WaitCall),
    Read(ReadCall),
    Cancel(CancelCall),
    Continue(Box<ContinueCall>),
    /// Many spawns at once, all or none.
    Batch(BatchCall),
    Raise(RaiseCall),
}

impl SubagentCall {
    /// Parses the arguments of a call. A refusal names the first wrong field: the action, then
    /// unknown fields, then the known fields in their order.
    pub fn parse(arguments: &Value, limits: &TextLimits) -> Result<Self, Refusal> {
        let mut fields = Fields::of(arguments)?;
        let action = action(&mut fields)?;
        fields.refuse_unknown(action.forms())?;
        let call = match action {
            SubagentAction::ListAgents => Self::ListAgents,
            SubagentAction::Define => Self::Define(Box::new(DefineCall::read(&mut fields)?)),
            SubagentAction::Spawn => Self::Spawn(Box::new(SpawnCall::read(&mut fields, limits)?)),
            SubagentAction::Status => Self::Status(StatusCall::read(&mut fields)?),
            SubagentAction::Collect => Self::Collect(CollectCall::read(&mut fields)?),
            SubagentAction::Wait => Self::Wait(WaitCall::read(&mut fields)?),
            SubagentAction::Read => Self::Read(ReadCall::read(&mut fields)?),
            SubagentAction::Cancel => Self::Cancel(CancelCall::read(&mut fields)?),
            SubagentAction::Continue => {
                Self::Continue(Box::new(ContinueCall::read(&mut fields, limits)?))
            }
            SubagentAction::Batch => Self::Batch(BatchCall::read(&mut fields, limits)?),
            SubagentAction::Raise => Self::Raise(RaiseCall::read(&mut fields)?),
        };
        fields.end()?;
        Ok(call)
    }

    pub fn action(&self) -> SubagentAction {
        match self {
            Self::ListAgents => SubagentAction::ListAgents,
            Self::Define(_) => SubagentAction::Define,
            Self::Spawn(_) => SubagentAction::Spawn,
            Self::Status(_) => SubagentAction::Status,
            Self::Collect(_) => SubagentAction::Collect,
            Self::Wait(_) => SubagentAction::Wait,
            Self::Read(_) => SubagentAction::Read,
            Self::Cancel(_) => SubagentAction::Cancel,
            Self::Continue(_) => SubagentAction::Continue,
            Self::Batch(_) => SubagentAction::Batch,
            Self::Raise(_) => SubagentAction::Raise,
        }
    }
}

fn action(fields: &mut Fields) -> Result<SubagentAction, Refusal> {
    let word = fields.text("action")?;
    word.parse().map_err(|_| {
        let valid: Vec<_> = SubagentAction::ALL.iter().map(|action| action.as_str()).collect();
        let start: String = word.chars().take(64).collect();
        Refusal::new(
            ErrorCode::InvalidAction,
            format!("Unknown action {start:?}; valid actions are: {}", valid.join(", ")),
        )
    })
}
