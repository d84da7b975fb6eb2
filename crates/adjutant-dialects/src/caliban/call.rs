use adjutant_agent::{ActionForm, AgentConfig, Fields, Refusal, TaskNumber};
use serde_json::{Map, Value, json};

use crate::METADATA_DIALECT;
use crate::task_handle::task_to_wait_for;

/// The source has no argument for it; the operator's ceiling may be lower.
pub const MAX_TURNS: i32 = 20;

/// The metadata field with the listed tools that the child did not get.
pub(super) const DROPPED: &str = "dropped_tools";

const FORM: ActionForm =
    ActionForm { required: &["prompt"], optional: &["tool_allowlist", "model", "task_id"] };

/// A call with valid arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    New(Delegation),
    /// Waits again for the task of an earlier call.
    WaitAgain(TaskNumber),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    pub prompt: String,
    /// `None` is every tool of the parent.
    pub tool_allowlist: Option<Vec<String>>,
    pub model: Option<String>,
}

impl Call {
    pub fn parse(arguments: &Value) -> Result<Self, Refusal> {
        let mut fields = Fields::of(arguments)?;
        fields.refuse_unknown(&[FORM])?;
        if let Some(task) = task_to_wait_for(&mut fields)? {
            return Ok(Self::WaitAgain(task));
        }
        Ok(Self::New(Delegation {
            prompt: fields.non_empty_text("prompt")?.to_owned(),
            tool_allowlist: fields
                .texts("tool_allowlist")?
                .map(|names| names.into_iter().map(str::to_owned).collect()),
            model: fields.short_text("model", 128)?.map(str::to_owned),
        }))
    }
}

impl Delegation {
    /// The child's configuration. It gets the tools of its parent, or those of its list that the
    /// parent has; the answer names the others. `model` must exist.
    pub fn agent_config(&self, parent_tools: &[String], model: String) -> AgentConfig {
        let tools = match &self.tool_allowlist {
            None => parent_tools.to_vec(),
            Some(list) => list.iter().filter(|name| parent_tools.contains(name)).cloned().collect(),
        };
        AgentConfig { tools, model, max_turns: MAX_TURNS, ..AgentConfig::default() }
    }

    /// The metadata that the answer is rendered from.
    pub fn metadata(&self, parent_tools: &[String]) -> Map<String, Value> {
        let list = self.tool_allowlist.iter().flatten();
        let mut dropped: Vec<&String> = list.filter(|name| !parent_tools.contains(name)).collect();
        dropped.dedup();
        let mut metadata = Map::from_iter([(METADATA_DIALECT.to_owned(), json!("caliban"))]);
        if !dropped.is_empty() {
            metadata.insert(DROPPED.to_owned(), json!(dropped));
        }
        metadata
    }
}
