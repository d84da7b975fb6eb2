use adjutant_agent::{ActionForm, AgentConfig, Fields, Refusal, TaskNumber};
use serde_json::{Map, Value, json};

use crate::METADATA_DIALECT;
use crate::task_handle::task_to_wait_for;

/// Nobody can ask for more, and an operator may allow less.
pub const MAX_TURNS: i32 = 20;

/// Where a task says, in its metadata, which tools of its list it did not get.
pub(super) const DROPPED: &str = "dropped_tools";

const FORM: ActionForm =
    ActionForm { required: &["prompt"], optional: &["tool_allowlist", "model", "task_id"] };

/// A call whose arguments are all that they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    New(Delegation),
    /// Wait again for a task that an earlier call was about.
    WaitAgain(TaskNumber),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    pub prompt: String,
    /// None: whatever the parent has.
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
    /// What the child is, given what its parent has: its tools, or those of its list that the parent has; what it does not
    /// get of its list is said with the answer. `model` is one that exists.
    pub fn spec(&self, parent_tools: &[String], model: String) -> AgentConfig {
        let tools = match &self.tool_allowlist {
            None => parent_tools.to_vec(),
            Some(list) => list.iter().filter(|name| parent_tools.contains(name)).cloned().collect(),
        };
        AgentConfig { tools, model, max_turns: MAX_TURNS, ..AgentConfig::default() }
    }

    /// What the task remembers for its answer.
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
