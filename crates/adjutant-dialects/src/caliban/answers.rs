use adjutant_agent::{EndedTask, FailureKind, Length, Outcome, Refusal, TaskNumber, Truncation};
use serde_json::{Value, json};

use super::call::DROPPED;
use super::tool::AGENT_TOOL;
use crate::Answer;
use crate::task_handle::how_to_wait_again;

const VIEW: Truncation = Truncation {
    max: Length::Chars(5_000),
    kept: Length::Chars(5_000),
    notice: "\n\n[sub-agent output truncated]",
};
const EXHAUSTED: &str = "[sub-agent exhausted max_turns without completing]\n\n";
const CANCELLED: &str = "Sub-agent cancelled";

/// The child's last text, or its error.
pub(super) fn ended(task: &EndedTask) -> Answer {
    let answer = match &task.outcome {
        Outcome::Completed { result, .. } => block(&VIEW.apply(result).text),
        Outcome::Failed { failure: FailureKind::MaxTurns, partial_result, .. } => {
            let said = partial_result.as_deref().unwrap_or_default();
            block(&format!("{EXHAUSTED}{}", VIEW.apply(said).text))
        }
        Outcome::Failed { error, .. } => error_block(error),
        Outcome::Cancelled { .. } => error_block(CANCELLED),
    };
    with_dropped(answer, task.metadata.get(DROPPED))
}

/// The answer after the longest time that a call may take.
pub(super) fn still_running(task: TaskNumber) -> Answer {
    let mut answer = block(&format!(
        "The sub-agent has not ended yet. {}",
        how_to_wait_again(AGENT_TOOL, task, json!({"prompt": "wait"}))
    ));
    answer.value["task_id"] = json!(task.to_string());
    answer.of_running_task()
}

/// The refusal of a call.
pub(super) fn refused(refusal: &Refusal) -> Answer {
    error_block(&format!("Invalid input: {}", refusal.message))
}

/// One block of text.
fn block(text: &str) -> Answer {
    Answer { value: json!({"type": "text", "text": text}), ..Answer::plain(text) }
}

/// One block of text that is an error of the tool.
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
