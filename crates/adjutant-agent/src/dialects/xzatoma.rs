//! `subagent` of seed 003: a labelled task, a summary of it, and an object that says how it went. Its messages are fixed.

mod settings;

pub use settings::{Quota, Settings};

use serde_json::{Map, Value, json};

use super::go_on::{ABOUT_TASK_ID, how_to_go_on, task_to_go_on_with};
use super::{Answer, DELEGATION_TOOLS, DIALECT, EndedTask};
use crate::fields::Fields;
use crate::{
    ActionForm, AgentSpec, FailureKind, Length, Outcome, Refusal, Replay, SUBAGENT, TaskNumber,
    ToolDefinition, View,
};

/// What the child is asked at the end if its caller does not say.
const SUMMARY_PROMPT: &str = "Summarize your findings concisely";
const TRUNCATED: &str = "[Output truncated]";
const CANCELLED: &str = "Task cancelled";

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

/// How it went. A task that ran out of turns is a success that is incomplete.
pub fn ended(task: &EndedTask, settings: &Settings) -> Answer {
    let view = settings.view();
    match &task.outcome {
        Outcome::Completed { result, summary } => {
            let output = summary.as_deref().unwrap_or(result);
            success(&view.of(output).text, how_far(task, Completion::Complete))
        }
        Outcome::Failed { failure: FailureKind::MaxTurns, partial_result, .. } => {
            let output = partial_result.as_deref().unwrap_or_default();
            success(&view.of(output).text, how_far(task, Completion::Incomplete))
        }
        Outcome::Failed { error, .. } => failure(&failed(error), who(task.label.as_deref(), task.depth)),
        Outcome::Cancelled { .. } => failure(&failed(CANCELLED), who(task.label.as_deref(), task.depth)),
    }
}

/// A task whose end put its session over a quota.
pub fn over_quota(task: &EndedTask, wrong: &Wrong) -> Answer {
    failure(&wrong.0, who(task.label.as_deref(), task.depth))
}

/// The answer to who has waited as long as a call may take.
pub fn goes_on(task: TaskNumber, label: Option<&str>) -> Answer {
    let mut metadata = who(label, 0);
    metadata.insert("completion_status".to_owned(), json!(Completion::Incomplete.as_str()));
    metadata.insert("task_id".to_owned(), json!(task.to_string()));
    let output = format!("The subagent has not ended yet. {}", how_to_go_on(SUBAGENT, task));
    success(&output, metadata).of_what_goes_on()
}

/// The answer to a call that cannot be granted; nothing ran.
pub fn refused(wrong: &Wrong, label: Option<&str>) -> Answer {
    let label = label.map(|label| ("subagent_label".to_owned(), json!(label)));
    failure(&wrong.0, label.into_iter().collect())
}

fn failed(error: &str) -> String {
    format!("Subagent execution failed: {error}")
}

#[derive(Clone, Copy)]
enum Completion {
    Complete,
    Incomplete,
}

impl Completion {
    fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
        }
    }
}

/// The source counts an orchestrator as 0.
fn who(label: Option<&str>, depth: i16) -> Map<String, Value> {
    Map::from_iter([
        ("subagent_label".to_owned(), json!(label.unwrap_or_default())),
        ("recursion_depth".to_owned(), json!((depth + 1).to_string())),
    ])
}

fn how_far(task: &EndedTask, completion: Completion) -> Map<String, Value> {
    let tokens = task.spent.input_tokens.saturating_add(task.spent.output_tokens);
    let reached = matches!(completion, Completion::Incomplete);
    let mut metadata = who(task.label.as_deref(), task.depth);
    for (name, text) in [
        ("completion_status", completion.as_str().to_owned()),
        ("turns_used", user_messages(task).to_string()),
        ("max_turns_reached", reached.to_string()),
        ("tokens_consumed", tokens.to_string()),
    ] {
        metadata.insert(name.to_owned(), Value::String(text));
    }
    metadata
}

/// The source counts what is said to the child, and not its answers: the task, and what is asked after it.
fn user_messages(task: &EndedTask) -> i32 {
    1 + (task.answers - task.turns_used).max(0)
}

fn success(output: &str, metadata: Map<String, Value>) -> Answer {
    Answer::json(json!({"success": true, "output": output, "error": null, "metadata": metadata}))
}

fn failure(error: &str, metadata: Map<String, Value>) -> Answer {
    Answer::json(json!({"success": false, "output": "", "error": error, "metadata": metadata})).as_error()
}

impl Settings {
    /// How much of an output is shown.
    fn view(&self) -> View {
        let most = Length::Bytes(self.output_max_size);
        View { longest: most, kept: most, notice: TRUNCATED }
    }
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
