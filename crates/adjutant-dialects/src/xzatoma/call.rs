use adjutant_agent::{ActionForm, AgentConfig, Fields, Refusal, TaskNumber};
use serde_json::{Map, Value, json};

use super::{NAME, Settings};
use crate::METADATA_DIALECT;
use crate::parent::delegates;
use crate::task_handle::task_to_wait_for;

/// The summary prompt of calls that have none.
const SUMMARY_PROMPT: &str = "Summarize your findings concisely";

pub(super) const MAX_TURNS: std::ops::RangeInclusive<i64> = 1..=50;
/// The same as in `spec`.
const MAX_LABEL_CHARS: usize = 200;

const FORM: ActionForm = ActionForm {
    required: &["label", "task_prompt"],
    optional: &["summary_prompt", "allowed_tools", "max_turns", "task_id"],
};

/// A call with valid arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    New(Box<Delegation>),
    /// Waits again for the task of an earlier call.
    WaitAgain(TaskNumber),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    pub label: String,
    pub task_prompt: String,
    pub summary_prompt: String,
    /// `None` is every tool of the parent.
    pub allowed_tools: Option<Vec<String>>,
    /// 1 to 50.
    pub max_turns: Option<i32>,
}

/// The reason of a refusal, as a sentence for the answer.
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
        fields.refuse_unknown(&[FORM])?;
        if let Some(task) = task_to_wait_for(&mut fields)? {
            return Ok(Self::WaitAgain(task));
        }
        let label = fields.optional_text("label")?.ok_or_else(|| missing("label"))?;
        let task_prompt = fields.optional_text("task_prompt")?.unwrap_or_default();
        for (name, text) in [("label", label), ("task_prompt", task_prompt)] {
            if text.trim().is_empty() {
                return Err(Wrong(format!("{name} cannot be empty")));
            }
        }
        if label.chars().count() > MAX_LABEL_CHARS {
            return Err(Wrong(format!("label cannot have more than {MAX_LABEL_CHARS} characters")));
        }
        // A blank prompt counts as none.
        let summary_prompt =
            fields.optional_text("summary_prompt")?.filter(|prompt| !prompt.trim().is_empty());
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
    let Some(turns) = fields.integer("max_turns")? else { return Ok(None) };
    let turns = Some(turns)
        .filter(|turns| MAX_TURNS.contains(turns))
        .and_then(|turns| turns.try_into().ok());
    let (least, most) = (MAX_TURNS.start(), MAX_TURNS.end());
    turns.map(Some).ok_or_else(|| Wrong(format!("max_turns must be between {least} and {most}")))
}

impl Delegation {
    /// The child's configuration. `model` must exist.
    pub fn agent_config(
        &self,
        parent_tools: &[String],
        model: String,
        settings: &Settings,
    ) -> Result<AgentConfig, Wrong> {
        Ok(AgentConfig {
            tools: self.tools(parent_tools)?,
            model,
            max_turns: self.max_turns.unwrap_or(settings.default_max_turns),
            summary_prompt: Some(self.summary_prompt.clone()),
            may_delegate: true,
            delegation: Some(NAME.to_owned()),
            max_depth: i16::try_from(settings.max_depth).ok(),
            telemetry: settings.telemetry(),
            ..AgentConfig::default()
        })
    }

    fn tools(&self, parent_tools: &[String]) -> Result<Vec<String>, Wrong> {
        let Some(list) = &self.allowed_tools else { return Ok(parent_tools.to_vec()) };
        if let Some(tool) = list.iter().find(|name| delegates(name)) {
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

    /// The metadata that the answer is rendered from and the session's quotas are counted by.
    pub fn metadata(&self) -> Map<String, Value> {
        Map::from_iter([(METADATA_DIALECT.to_owned(), json!(NAME))])
    }
}
