//! `subagent` of seed 003: a labelled task, a summary of it, and an object that says how it went. Its messages are fixed.

mod answers;
mod events;
mod settings;
mod telemetry;

pub use answers::{ended, goes_on, over_quota, refused};
pub use events::{Event, of_end};
pub use settings::{OVER_QUOTA, Quota, Settings};
pub use telemetry::Telemetry;

use serde_json::{Map, Value, json};

use super::go_on::{ABOUT_TASK_ID, task_to_go_on_with};
use super::{DELEGATION_TOOLS, DIALECT};
use crate::fields::Fields;
use crate::{ActionForm, AgentSpec, DelegationForm, Refusal, Replay, SUBAGENT, TaskNumber, ToolDefinition};

/// What the child is asked at the end if its caller does not say.
const SUMMARY_PROMPT: &str = "Summarize your findings concisely";

const MAX_TURNS: std::ops::RangeInclusive<i64> = 1..=50;
/// As long as labels are everywhere.
const MAX_LABEL_CHARS: usize = 200;

const FORM: ActionForm = ActionForm {
    needed: &["label", "task_prompt"],
    optional: &["summary_prompt", "allowed_tools", "max_turns", "task_id"],
};

/// A call whose arguments are all that they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    New(Box<Delegation>),
    /// Wait again for a task that an earlier call was about.
    GoOn(TaskNumber),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    pub label: String,
    pub task_prompt: String,
    pub summary_prompt: String,
    /// None: whatever the parent has.
    pub allowed_tools: Option<Vec<String>>,
    /// 1 to 50.
    pub max_turns: Option<i32>,
}

/// Why a call is refused: the sentence that its answer has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(pub String);

impl From<Refusal> for Wrong {
    fn from(refusal: Refusal) -> Self {
        Self(format!("Invalid input: {}", refusal.message))
    }
}

impl Call {
    pub fn parse(arguments: &Value) -> Result<Self, Wrong> {
        let mut fields = Fields::of(arguments)?;
        fields.only(&[FORM])?;
        if let Some(task) = task_to_go_on_with(&mut fields)? {
            return Ok(Self::GoOn(task));
        }
        let label = fields.text_if_any("label")?.ok_or_else(|| missing("label"))?;
        let task_prompt = fields.text_if_any("task_prompt")?.unwrap_or_default();
        for (name, text) in [("label", label), ("task_prompt", task_prompt)] {
            if text.trim().is_empty() {
                return Err(Wrong(format!("{name} cannot be empty")));
            }
        }
        if label.chars().count() > MAX_LABEL_CHARS {
            return Err(Wrong(format!("label cannot have more than {MAX_LABEL_CHARS} characters")));
        }
        // A blank one would ask for nothing.
        let summary_prompt = fields.text_if_any("summary_prompt")?.filter(|prompt| !prompt.trim().is_empty());
        Ok(Self::New(Box::new(Delegation {
            label: label.to_owned(),
            task_prompt: task_prompt.to_owned(),
            summary_prompt: summary_prompt.unwrap_or(SUMMARY_PROMPT).to_owned(),
            allowed_tools: fields
                .texts("allowed_tools")?
                .map(|names| names.into_iter().map(str::to_owned).collect()),
            max_turns: max_turns(&mut fields)?,
        })))
    }
}

fn missing(field: &str) -> Wrong {
    Wrong(format!("Invalid input: missing field `{field}`"))
}

fn max_turns(fields: &mut Fields) -> Result<Option<i32>, Wrong> {
    let Some(turns) = fields.whole("max_turns")? else { return Ok(None) };
    let turns = Some(turns).filter(|turns| MAX_TURNS.contains(turns)).and_then(|turns| turns.try_into().ok());
    let (least, most) = (MAX_TURNS.start(), MAX_TURNS.end());
    turns.map(Some).ok_or_else(|| Wrong(format!("max_turns must be between {least} and {most}")))
}

impl Delegation {
    /// What the child is, given what its parent has. `model` is one that exists.
    pub fn spec(
        &self,
        parent_tools: &[String],
        model: String,
        settings: &Settings,
    ) -> Result<AgentSpec, Wrong> {
        Ok(AgentSpec {
            tools: self.tools(parent_tools)?,
            model,
            max_turns: self.max_turns.unwrap_or(settings.default_max_turns),
            summary_prompt: Some(self.summary_prompt.clone()),
            may_delegate: true,
            delegation: DelegationForm::Xzatoma,
            max_depth: i16::try_from(settings.max_depth).ok(),
            telemetry: settings.telemetry(),
            ..AgentSpec::default()
        })
    }

    fn tools(&self, parent_tools: &[String]) -> Result<Vec<String>, Wrong> {
        let Some(list) = &self.allowed_tools else { return Ok(parent_tools.to_vec()) };
        if let Some(tool) = list.iter().find(|name| DELEGATION_TOOLS.contains(&name.as_str())) {
            return Err(Wrong(format!("Tool '{tool}' cannot be used by subagents")));
        }
        match list.iter().find(|name| !parent_tools.contains(name)) {
            Some(unknown) => {
                let start: String = unknown.chars().take(64).collect();
                Err(Wrong(format!("Unknown tool in allowed_tools: {start}")))
            }
            None => Ok(list.clone()),
        }
    }

    /// What the task remembers for its answer, and for the quotas of its session.
    pub fn metadata(&self) -> Map<String, Value> {
        Map::from_iter([(DIALECT.to_owned(), json!("xzatoma"))])
    }
}

/// Whether somebody at this depth, 0 for an orchestrator, may delegate.
pub fn check_depth(current: i32, max_depth: i32) -> Result<(), Wrong> {
    if current < max_depth {
        return Ok(());
    }
    Err(Wrong(format!(
        "Maximum subagent recursion depth ({max_depth}) exceeded. Current depth: {current}. Cannot spawn nested subagent."
    )))
}

pub fn tool() -> ToolDefinition {
    ToolDefinition {
        name: SUBAGENT.to_owned(),
        description: "Gives a focused task to an agent with a conversation of its own, waits for it, and returns its summary. Use it to look into a part of a problem without filling this conversation.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "label": {"type": "string", "minLength": 1, "description": "A name to recognise this subagent by."},
                "task_prompt": {"type": "string", "minLength": 1, "description": "What it is to do, with all that it has to know."},
                "summary_prompt": {"type": ["string", "null"], "description": "How it is to sum up what it found; that is what you get."},
                "allowed_tools": {"type": ["array", "null"], "items": {"type": "string"}, "description": "The tools that it may use; all of yours but this one if you name none."},
                "max_turns": {"type": ["integer", "null"], "minimum": MAX_TURNS.start(), "maximum": MAX_TURNS.end(), "description": "How many turns it may take."},
                "task_id": {"type": ["string", "null"], "description": ABOUT_TASK_ID},
            },
            "required": ["label", "task_prompt"],
            "additionalProperties": false,
        }),
        replay: Replay::Unsafe,
    }
}
