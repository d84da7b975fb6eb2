use adjutant_agent::{EndedTask, ErrorCode, Outcome, Refusal, TaskNumber};
use serde_json::json;

use super::artifacts;
use super::call::{Mode, PROMPT_KEY, PROMPT_NS};
use super::tool::DISPATCH_SUBAGENT;
use crate::Answer;
use crate::task_handle::how_to_wait_again;

/// The error of a cancelled task.
const CANCELLED: &str = "Task cancelled";

/// The child's summary and artifacts, or its error. `tools_used` comes from
/// [`adjutant_agent::tools_used`].
pub(super) fn ended(task: &EndedTask, tools_used: &[String]) -> Answer {
    match &task.outcome {
        Outcome::Completed { result, summary } => {
            let (said, artifacts) = artifacts::split(result);
            let summary = summary.as_deref().unwrap_or(said);
            let value = json!({
                "success": true,
                "message": summary,
                PROMPT_NS: task.metadata.get(PROMPT_NS),
                PROMPT_KEY: task.metadata.get(PROMPT_KEY),
                "message_summary": summary,
                "artifacts": artifacts,
                "tools_used": tools_used,
            });
            Answer { value, ..Answer::plain(summary) }
        }
        Outcome::Failed { error, .. } => aborted(error),
        Outcome::Cancelled { .. } => aborted(CANCELLED),
    }
}

/// The answer after the longest time that a call may take.
pub(super) fn still_running(task: TaskNumber, agent: &str) -> Answer {
    let (prompt_ns, prompt_key) = agent.split_once("--").unwrap_or((agent, agent));
    let required = json!({
        "mode": Mode::AdHoc.as_str(), PROMPT_NS: prompt_ns, PROMPT_KEY: prompt_key, "instructions": "wait",
    });
    let again = how_to_wait_again(DISPATCH_SUBAGENT, task, required);
    let message = format!("The subagent has not ended yet. {again}");
    let value = json!({"message": message, "task_id": task.to_string()});
    Answer { value, ..Answer::plain(message) }.of_running_task()
}

/// The answer to invalid arguments, an unknown prompt, or a snapshot that cannot be made.
pub(super) fn invalid(refusal: &Refusal) -> Answer {
    failure("ToolValidationError", &refusal.message)
}

/// The refusal of a call.
pub(super) fn refused(refusal: &Refusal) -> Answer {
    if matches!(refusal.code, ErrorCode::AgentNotFound | ErrorCode::InvalidArgument) {
        return invalid(refusal);
    }
    failure(refusal.code.as_str(), &refusal.message)
}

/// The answer of a run that ended without a result.
fn aborted(error: &str) -> Answer {
    failure("DispatchSubagentError", &format!("Subagent execution failed: {error}"))
}

/// A message without a result.
fn failure(error: &str, message: &str) -> Answer {
    let value = json!({"success": false, "error": error, "message": message});
    Answer { value, ..Answer::plain(message) }.as_error()
}
