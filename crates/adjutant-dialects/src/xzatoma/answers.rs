//! The answers of the source's tool: an object with the outcome.

use adjutant_agent::{
    Depth, EndedTask, FailureKind, Length, Outcome, SUBAGENT, TaskNumber, Truncation,
};
use serde_json::{Map, Value, json};

use super::Settings;
use super::call::Wrong;
use crate::Answer;
use crate::task_handle::how_to_wait_again;

/// The error of a cancelled task.
const CANCELLED: &str = "Task cancelled";
const TRUNCATED: &str = "[Output truncated]";

/// The outcome of a task. One that ran out of turns is an incomplete success.
pub fn ended(task: &EndedTask, settings: &Settings) -> Answer {
    match output(task) {
        Ok((output, completion)) => {
            success(&view(settings.output_max_size).apply(output).text, progress(task, completion))
        }
        Err(error) => failure(
            &format!("Subagent execution failed: {error}"),
            identity(task.label.as_deref(), task.depth),
        ),
    }
}

/// The output of a success, complete or not, or the error.
pub(super) fn output(task: &EndedTask) -> Result<(&str, Completion), &str> {
    match &task.outcome {
        Outcome::Completed { result, summary } => {
            Ok((summary.as_deref().unwrap_or(result), Completion::Complete))
        }
        Outcome::Failed { failure: FailureKind::MaxTurns, partial_result, .. } => {
            Ok((partial_result.as_deref().unwrap_or_default(), Completion::Incomplete))
        }
        Outcome::Failed { error, .. } => Err(error),
        Outcome::Cancelled { .. } => Err(CANCELLED),
    }
}

/// The answer for a task whose end exceeded a quota of its session.
pub fn over_quota(task: &EndedTask, wrong: &str) -> Answer {
    failure(wrong, identity(task.label.as_deref(), task.depth))
}

/// The answer after the longest time that a call may take.
pub fn still_running(task: TaskNumber, label: Option<&str>) -> Answer {
    let mut metadata = identity(label, Depth::TOP);
    metadata.insert("completion_status".to_owned(), json!(Completion::Incomplete.as_str()));
    metadata.insert("task_id".to_owned(), json!(task.to_string()));
    let label = label.filter(|label| !label.is_empty()).unwrap_or("wait");
    let required = json!({"label": label, "task_prompt": "wait"});
    let output =
        format!("The subagent has not ended yet. {}", how_to_wait_again(SUBAGENT, task, required));
    success(&output, metadata).of_running_task()
}

/// The refusal of a call.
pub fn refused(wrong: &Wrong, label: Option<&str>) -> Answer {
    let label = label.map(|label| ("subagent_label".to_owned(), json!(label)));
    failure(&wrong.0, label.into_iter().collect())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completion {
    Complete,
    Incomplete,
}

impl Completion {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
        }
    }
}

fn identity(label: Option<&str>, depth: Depth) -> Map<String, Value> {
    Map::from_iter([
        ("subagent_label".to_owned(), json!(label.unwrap_or_default())),
        ("recursion_depth".to_owned(), json!(depth.to_string())),
    ])
}

fn progress(task: &EndedTask, completion: Completion) -> Map<String, Value> {
    let reached = matches!(completion, Completion::Incomplete);
    let mut metadata = identity(task.label.as_deref(), task.depth);
    for (name, text) in [
        ("completion_status", completion.as_str().to_owned()),
        ("turns_used", user_messages(task).to_string()),
        ("max_turns_reached", reached.to_string()),
        ("tokens_consumed", tokens(task).to_string()),
    ] {
        metadata.insert(name.to_owned(), Value::String(text));
    }
    metadata
}

/// The source counts the messages to the child, not its answers: the task and each message after
/// it.
pub(super) fn user_messages(task: &EndedTask) -> i32 {
    1 + (task.answers - task.turns_used).max(0)
}

pub(super) fn tokens(task: &EndedTask) -> i64 {
    task.spent.input_tokens.saturating_add(task.spent.output_tokens)
}

fn success(output: &str, metadata: Map<String, Value>) -> Answer {
    Answer::json(json!({"success": true, "output": output, "error": null, "metadata": metadata}))
}

fn failure(error: &str, metadata: Map<String, Value>) -> Answer {
    Answer::json(json!({"success": false, "output": "", "error": error, "metadata": metadata}))
        .as_error()
}

/// How an output is truncated.
pub(super) fn view(output_max_size: usize) -> Truncation {
    let most = Length::Bytes(output_max_size);
    Truncation { max: most, kept: most, notice: TRUNCATED }
}
