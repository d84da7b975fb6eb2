//! Renders tasks and agents for orchestrators and for agents that delegate.

use adjutant_agent::{AgentDefinition, Outcome, SPEC_TRUNCATION, TaskState};
use serde_json::{Map, Value, json};

use super::ReadCall;

/// The error of a cancelled task: the source has no state for it.
pub const CANCELLED: &str = "Task cancelled";

/// The source has three states: a task that has not ended is `running`.
pub fn word(state: TaskState) -> &'static str {
    match state {
        TaskState::Queued | TaskState::Running | TaskState::Waiting => "running",
        TaskState::Completed => "completed",
        TaskState::Failed | TaskState::Cancelled => "failed",
    }
}

/// The error of a task that has failed or was cancelled.
pub fn error(state: TaskState, error: Option<&str>) -> Option<&str> {
    match state {
        TaskState::Failed => error,
        TaskState::Cancelled => Some(CANCELLED),
        TaskState::Queued | TaskState::Running | TaskState::Waiting | TaskState::Completed => None,
    }
}

/// Adds a text under this name, truncated as the source says, with the length of the full text.
pub fn put_text(answer: &mut Map<String, Value>, name: &str, text: &str) {
    let shown = SPEC_TRUNCATION.apply(text);
    answer.insert(name.to_owned(), json!(shown.text));
    if shown.truncated {
        answer.insert("truncated".to_owned(), json!(true));
        answer.insert("result_chars".to_owned(), json!(shown.result_chars));
    }
}

/// Adds the texts of an outcome: the result with its summary, or the partial result.
pub(super) fn put_outcome(answer: &mut Map<String, Value>, outcome: &Outcome) {
    match outcome {
        Outcome::Completed { result, summary } => {
            put_text(answer, "result", result);
            if let Some(summary) = summary {
                answer.insert("summary".to_owned(), json!(SPEC_TRUNCATION.apply(summary).text));
            }
        }
        Outcome::Failed { partial_result, .. } | Outcome::Cancelled { partial_result } => {
            if let Some(text) = partial_result {
                put_text(answer, "partial_result", text);
            }
        }
    }
}

/// The answer of `read`.
pub fn page(call: &ReadCall, text: &str, next_offset: Option<i64>, result_chars: i64) -> Value {
    json!({
        "task_id": call.task_id.to_string(),
        "offset": call.offset,
        "text": text,
        "next_offset": next_offset,
        "result_chars": result_chars,
    })
}

/// An agent in the answer of `list_agents`, without its prompt.
pub fn agent(definition: &AgentDefinition, default_model: &str, max_turns_ceiling: i32) -> Value {
    let config = &definition.config;
    json!({
        "name": definition.name,
        "description": definition.description,
        "model": if config.model.is_empty() { default_model } else { &config.model },
        "max_turns": config.max_turns.min(max_turns_ceiling),
        "tools": config.tools,
    })
}
