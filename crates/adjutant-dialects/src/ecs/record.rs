//! Renders tasks in the words of the source. Times and excerpts are left out, because they would
//! only fill the conversation.

use std::time::Duration;

use adjutant_agent::{FailureKind, SUBAGENT, TaskId, TaskNumber, TaskState};
use serde_json::{Value, json};

use super::call::{RESULT, ReadMethod, STATUS};
use crate::Answer;

/// Results up to this size are part of the answer.
const INLINE_BYTES: usize = 8192;

const NO_SUMMARY: &str = "Summary not available for this session. Retry with read_method=\"full\".";
/// The error of a task that lost its worker and is not resumed.
const NOT_RESUMED: &str = "restored_without_live_task_handle";

adjutant_agent::word_enum! {
    /// The state of a session.
    Lifecycle {
        Queued = "queued",
        Running = "running",
        Succeeded = "succeeded",
        Failed = "failed",
        TimedOut = "timed_out",
        Cancelled = "cancelled",
    }
}

impl Lifecycle {
    /// A task that has run before counts as running, even while it is queued or waiting.
    pub fn of(state: TaskState, failure: Option<FailureKind>, attempt: i32) -> Self {
        match (state, failure) {
            (TaskState::Queued | TaskState::Waiting, _) if attempt == 0 => Self::Queued,
            (TaskState::Queued | TaskState::Waiting | TaskState::Running, _) => Self::Running,
            (TaskState::Completed, _) => Self::Succeeded,
            (TaskState::Failed, Some(FailureKind::Timeout)) => Self::TimedOut,
            (TaskState::Failed, _) => Self::Failed,
            (TaskState::Cancelled, _) => Self::Cancelled,
        }
    }

    pub fn is_terminal(self) -> bool {
        match self {
            Self::Queued | Self::Running => false,
            Self::Succeeded | Self::Failed | Self::TimedOut | Self::Cancelled => true,
        }
    }
}

/// A task that a background call has just spawned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Launched<'a> {
    pub number: TaskNumber,
    pub category: &'a str,
    pub timeout_s: Option<f64>,
}

impl Launched<'_> {
    /// The answer of the call, which comes at once.
    pub fn answer(&self, missing_skills: &[String]) -> Answer {
        let mut answer = json!({
            "session_id": self.number.to_string(), "status": "queued", "category": self.category,
            "lifecycle_status": Lifecycle::Queued,
        });
        add_timeout(&mut answer, self.timeout_s);
        if !missing_skills.is_empty() {
            answer["missing_skills"] = json!(missing_skills);
        }
        Answer::json(answer).of_running_task()
    }
}

fn add_timeout(answer: &mut Value, timeout_s: Option<f64>) {
    if let Some(seconds) = timeout_s {
        answer["timeout"] = json!(seconds);
    }
}

/// A task with the fields that answers are rendered from.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub id: TaskId,
    pub number: TaskNumber,
    pub category: String,
    pub lifecycle: Lifecycle,
    pub queue_position: Option<i32>,
    pub timeout_s: Option<f64>,
    pub result: Option<String>,
    pub summary: Option<String>,
    /// The stored error.
    pub error: Option<String>,
    /// It failed because its worker was lost and its agent is not resumed.
    pub not_resumed: bool,
}

impl Record {
    /// The answer of a foreground call whose task has ended.
    pub fn ended(&self) -> Answer {
        match (self.lifecycle, &self.result) {
            (Lifecycle::Succeeded, Some(result)) => Answer::plain(result.as_str()),
            (Lifecycle::TimedOut, _) => Answer::plain(self.why()).as_error(),
            (_, _) => {
                let text = format!("Error: Subagent '{}' failed: {}", self.category, self.why());
                Answer::plain(text).as_error()
            }
        }
    }

    /// The answer of a foreground call whose task takes longer than a call may.
    pub fn still_running(&self) -> Answer {
        let id = self.number;
        let message = format!(
            "It goes on in the background. Call subagent_wait(session_ids=[\"{id}\"]) or subagent_result(session_id=\"{id}\")."
        );
        let mut answer = json!({
            "session_id": id.to_string(), "status": self.lifecycle, "category": self.category,
            "lifecycle_status": self.lifecycle, "message": message,
        });
        add_timeout(&mut answer, self.timeout_s);
        Answer::json(answer).of_running_task()
    }

    pub fn status(&self) -> Answer {
        let mut answer = self.about("ok");
        answer["artifact_id"] = json!(self.artifact_id());
        answer["record_path"] = json!(self.record_path());
        answer["error"] = json!(self.error());
        Answer::json(answer)
    }

    /// The result of a session that has ended.
    pub fn result(&self, method: ReadMethod) -> Answer {
        if method == ReadMethod::Summary && self.summary.is_none() {
            return self.no_result(method, NO_SUMMARY.to_owned());
        }
        let succeeded = self.lifecycle == Lifecycle::Succeeded;
        let content = match method {
            ReadMethod::Full => self.inline_content(),
            ReadMethod::Summary => self.summary.clone(),
        };
        let answer = self.read_answer(
            method,
            if succeeded { "success" } else { "error" },
            content,
            self.error(),
        );
        if succeeded { Answer::json(answer) } else { Answer::json(answer).as_error() }
    }

    /// The answer of a wait of this length for a session that has not ended.
    pub fn not_ready(&self, method: ReadMethod, waited: Duration) -> Answer {
        self.no_result(
            method,
            format!("Timeout waiting for session result after {}s", waited.as_secs_f64()),
        )
        .of_running_task()
    }

    pub fn cancelled(&self) -> Answer {
        let id = self.number.to_string();
        Answer::json(
            json!({"status": "cancelled", "session_id": id, "lifecycle_status": Lifecycle::Cancelled}),
        )
    }

    pub fn already_terminal(&self) -> Answer {
        let mut answer = self.about("error");
        answer["error"] = json!(format!("Session already terminal: {}", self.lifecycle));
        Answer::json(answer).as_error()
    }

    /// The line of a notification.
    pub fn notification_line(&self) -> String {
        let (id, state) = (self.number, self.lifecycle);
        let read = format!("Call subagent_result(session_id=\"{id}\")");
        match (state, &self.summary) {
            (Lifecycle::Succeeded, Some(_)) => format!(
                "- {id} succeeded. {read} for the full result or subagent_result(session_id=\"{id}\", read_method=\"summary\") for the cached summary."
            ),
            (Lifecycle::Succeeded, None) => {
                format!("- {id} succeeded. {read} for the full result.")
            }
            (Lifecycle::Cancelled, _) => format!("- {id} cancelled. {read} for details."),
            (_, _) => format!("- {id} {state}: {}. {read} for details.", self.why()),
        }
    }

    fn no_result(&self, method: ReadMethod, error: String) -> Answer {
        Answer::json(self.read_answer(method, "error", None, Some(error))).as_error()
    }

    fn read_answer(
        &self,
        method: ReadMethod,
        status: &str,
        content: Option<String>,
        error: Option<String>,
    ) -> Value {
        let mut answer = self.about(status);
        answer["read_method"] = json!(method.as_str());
        answer["artifact_id"] = json!(self.artifact_id());
        answer["record_path"] = json!(self.record_path());
        answer["inline_content"] = json!(content);
        answer["error"] = json!(error);
        answer
    }

    /// The fields of every answer about a session.
    fn about(&self, status: &str) -> Value {
        let mut answer = json!({
            "status": status, "session_id": self.number.to_string(), "category": self.category,
            "lifecycle_status": self.lifecycle,
        });
        if let Some(position) = self.queue_position.filter(|_| self.lifecycle == Lifecycle::Queued)
        {
            answer["queue_position"] = json!(position);
        }
        answer
    }

    fn error(&self) -> Option<String> {
        match self.lifecycle {
            Lifecycle::Queued | Lifecycle::Running | Lifecycle::Succeeded => None,
            Lifecycle::Failed | Lifecycle::TimedOut | Lifecycle::Cancelled => Some(self.why()),
        }
    }

    fn why(&self) -> String {
        match self.lifecycle {
            Lifecycle::TimedOut => {
                let seconds =
                    self.timeout_s.map(|seconds| format!(" after {seconds}s")).unwrap_or_default();
                format!("Error: Subagent timeout{seconds}")
            }
            Lifecycle::Cancelled => "cancelled".to_owned(),
            Lifecycle::Queued | Lifecycle::Running | Lifecycle::Succeeded | Lifecycle::Failed => {
                let own = || self.error.clone().unwrap_or_else(|| "unknown error".to_owned());
                if self.not_resumed { NOT_RESUMED.to_owned() } else { own() }
            }
        }
    }

    /// The durable name of its result, from the first 24 digits of the task's id, which are unique.
    fn artifact_id(&self) -> Option<String> {
        let digits = self.id.0.simple().to_string();
        (self.lifecycle == Lifecycle::Succeeded).then(|| format!("subagent_{}", &digits[..24]))
    }

    fn record_path(&self) -> Option<String> {
        self.artifact_id().map(|id| format!("scratchbook/records/subagent/{id}"))
    }

    fn inline_content(&self) -> Option<String> {
        let result = self.result.as_ref()?;
        if result.len() <= INLINE_BYTES {
            return Some(result.clone());
        }
        self.record_path().map(|path| format!("Result persisted to {path}"))
    }
}

/// The refusal of a call, in the form of its tool.
pub fn refused(tool: &str, session_id: Option<&str>, message: &str) -> Answer {
    if tool == SUBAGENT {
        return Answer::plain(format!("Error: {message}")).as_error();
    }
    let mut answer = json!({"status": "error", "error": message});
    if let Some(id) = session_id {
        answer["session_id"] = json!(id);
    }
    Answer::json(answer).as_error()
}

/// The answer to a call that names an unknown session.
pub fn no_session(session_id: &str) -> Answer {
    let start: String = session_id.chars().take(64).collect();
    refused(STATUS, Some(&start), &format!("Session not found: {start}"))
}

/// The answer to a call with an unknown `read_method`.
pub fn bad_read_method(session_id: &str, word: &str) -> Answer {
    let start: String = word.chars().take(64).collect();
    let message = format!("Invalid read_method '{start}'. Expected one of: full, summary");
    refused(RESULT, Some(session_id), &message)
}
