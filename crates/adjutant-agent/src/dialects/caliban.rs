//! `AgentTool`: a prompt, and the child's last text. It has no queue and no states; whoever calls it waits.

use serde_json::{Map, Value, json};

use super::go_on::{ABOUT_TASK_ID, how_to_go_on, task_to_go_on_with};
use super::{Answer, DIALECT, EndedTask};
use crate::fields::Fields;
use crate::{
    ActionForm, AgentSpec, FailureKind, Length, Outcome, Refusal, Replay, TaskNumber, ToolDefinition, View,
};

pub const AGENT_TOOL: &str = "AgentTool";

/// Nobody can ask for more, and an operator may allow less.
pub const MAX_TURNS: i32 = 20;

const VIEW: View = View {
    longest: Length::Chars(5_000),
    kept: Length::Chars(5_000),
    notice: "\n\n[sub-agent output truncated]",
};
const EXHAUSTED: &str = "[sub-agent exhausted max_turns without completing]\n\n";
const CANCELLED: &str = "Sub-agent cancelled";

/// Where a task says, in its metadata, which tools of its list it did not get.
const DROPPED: &str = "dropped_tools";

const FORM: ActionForm =
    ActionForm { needed: &["prompt"], optional: &["tool_allowlist", "model", "task_id"] };

/// A call whose arguments are all that they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    New(Delegation),
    /// Wait again for a task that an earlier call was about.
    GoOn(TaskNumber),
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
        fields.only(&[FORM])?;
        if let Some(task) = task_to_go_on_with(&mut fields)? {
            return Ok(Self::GoOn(task));
        }
        Ok(Self::New(Delegation {
            prompt: fields.filled("prompt")?.to_owned(),
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
    pub fn spec(&self, parent_tools: &[String], model: String) -> AgentSpec {
        let tools = match &self.tool_allowlist {
            None => parent_tools.to_vec(),
            Some(list) => list.iter().filter(|name| parent_tools.contains(name)).cloned().collect(),
        };
        AgentSpec { tools, model, max_turns: MAX_TURNS, ..AgentSpec::default() }
    }

    /// What the task remembers for its answer.
    pub fn metadata(&self, parent_tools: &[String]) -> Map<String, Value> {
        let list = self.tool_allowlist.iter().flatten();
        let mut dropped: Vec<&String> = list.filter(|name| !parent_tools.contains(name)).collect();
        dropped.dedup();
        let mut metadata = Map::from_iter([(DIALECT.to_owned(), json!("caliban"))]);
        if !dropped.is_empty() {
            metadata.insert(DROPPED.to_owned(), json!(dropped));
        }
        metadata
    }
}

/// The child's last text, or why there is none.
pub fn ended(task: &EndedTask) -> Answer {
    let answer = match &task.outcome {
        Outcome::Completed { result, .. } => block(&VIEW.of(result).text),
        Outcome::Failed { failure: FailureKind::MaxTurns, partial_result, .. } => {
            let said = partial_result.as_deref().unwrap_or_default();
            block(&format!("{EXHAUSTED}{}", VIEW.of(said).text))
        }
        Outcome::Failed { error, .. } => error_block(error),
        Outcome::Cancelled { .. } => error_block(CANCELLED),
    };
    with_dropped(answer, task.metadata.get(DROPPED))
}

/// The answer to who has waited as long as a call may take.
pub fn goes_on(task: TaskNumber) -> Answer {
    let mut answer = block(&format!("The sub-agent has not ended yet. {}", how_to_go_on(AGENT_TOOL, task)));
    answer.value["task_id"] = json!(task.to_string());
    answer.of_what_goes_on()
}

/// The answer to a call that cannot be granted.
pub fn refused(refusal: &Refusal) -> Answer {
    error_block(&format!("Invalid input: {}", refusal.message))
}

/// One block of text.
fn block(text: &str) -> Answer {
    Answer { value: json!({"type": "text", "text": text}), ..Answer::plain(text) }
}

/// The same for an error of the tool's.
fn error_block(text: &str) -> Answer {
    let mut answer = block(text).as_error();
    answer.value["is_error"] = json!(true);
    answer
}

fn with_dropped(mut answer: Answer, dropped: Option<&Value>) -> Answer {
    if let Some(dropped) = dropped {
        answer.value[DROPPED] = dropped.clone();
    }
    answer
}

pub fn tool() -> ToolDefinition {
    ToolDefinition {
        name: AGENT_TOOL.to_owned(),
        description: "Gives a subtask to a sub-agent with a context of its own, waits for it, and returns its last text. It sees your prompt and nothing of this conversation. Use it for searches and investigations whose steps you do not need to see.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "description": "What the sub-agent is to do, with all that it has to know."},
                "tool_allowlist": {"type": ["array", "null"], "items": {"type": "string"}, "description": "The tools that it may use; all of yours but this one if you name none."},
                "model": {"type": ["string", "null"], "description": "The model that it uses; yours if you name none."},
                "task_id": {"type": ["string", "null"], "description": ABOUT_TASK_ID},
            },
            "required": ["prompt"],
            "additionalProperties": false,
        }),
        replay: Replay::Unsafe,
    }
}
