//! Log events and spans of an attempt: identifiers, counts, sizes and times. The events of a
//! delegation (specification row 2.35) have texts too if payloads are logged.

use std::time::Duration;

use adjutant_agent::{FailureKind, TaskId, TaskNumber, Turn};
use adjutant_store::Spawned;
use chrono::Utc;
use tracing::Span;
use tracing::field::Empty;

use crate::{End, Stop, Task, payloads, trace};

/// The span of an attempt, in the trace that its task was spawned in.
pub(crate) fn attempt_span(task: &Task) -> Span {
    let assignment = task.assignment();
    let span = tracing::info_span!(
        "invoke_agent",
        otel.name = format!("invoke_agent {}", assignment.agent),
        otel.status_code = Empty,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = assignment.agent,
        gen_ai.conversation.id = %task.id(),
        gen_ai.provider.name = Empty,
        gen_ai.request.model = Empty,
        tenant = assignment.tenant,
        session.id = assignment.session_name,
        agent.name = assignment.agent,
        task.id = %task.id(),
        task.number = %assignment.number,
        task.attempt = task.attempt(),
        task.queued_ms = queued_ms(task),
        task.outcome = Empty,
        error.type = Empty,
    );
    trace::continue_from(&span, assignment.traceparent.as_deref());
    span
}

/// INFO for the first attempt: a task that goes on has started before.
pub(crate) fn log_start(task: &Task) {
    let (session, number) = (session(task), task.assignment().number);
    let text = &task.assignment().text;
    macro_rules! log {
        ($level:ident, $message:literal) => {
            tracing::$level!(
                action = "start",
                event.name = "delegation.started",
                correlation.id = %task.id(),
                traceparent = task.assignment().traceparent,
                session.id = session,
                task.id = %task.id(),
                task.number = %number,
                agent.name = task.assignment().agent,
                task.attempt = task.attempt(),
                task.queued_ms = queued_ms(task),
                delegation.task.id = %task.id(),
                delegation.task.bytes = text.len(),
                delegation.task.text = payloads::if_enabled(text),
                $message
            )
        };
    }
    match task.attempt() {
        1 => log!(info, "task {number} of {session} started"),
        _ => log!(debug, "task {number} of {session} goes on"),
    }
}

/// Logs inherited tools that the session does not have.
pub(crate) fn log_missing_tools(task: &Task, tools: &[String]) {
    if tools.is_empty() {
        return;
    }
    let (session, number) = (session(task), task.assignment().number);
    tracing::warn!(
        session.id = session,
        task.id = %task.id(),
        task.number = %number,
        agent.name = task.assignment().agent,
        tools.missing = tools.join(","),
        "task {number} of {session} runs without inherited tools that its session does not have"
    );
}

pub(crate) fn log_turn(task: &Task, turn: &Turn) {
    let (session, number) = (session(task), task.assignment().number);
    tracing::debug!(
        action = "turn",
        session.id = session,
        task.id = %task.id(),
        task.number = %number,
        agent.name = task.assignment().agent,
        turn.number = task.answers(),
        turn.kind = turn.kind.as_str(),
        model.name = turn.model,
        input_tokens = turn.usage.input_tokens,
        output_tokens = turn.usage.output_tokens,
        cost_nanousd = turn.usage.cost_nanousd,
        duration_ms = turn.duration_ms,
        "task {number} of {session} stored turn {}",
        task.answers()
    );
}

/// A tool call whose result is stored.
pub(crate) struct FinishedToolCall<'a> {
    pub(crate) name: &'a str,
    /// The kind of the error, if it failed.
    pub(crate) error: Option<&'static str>,
    pub(crate) took: Duration,
}

/// A call that failed is a warning, with its kind and without its text, which is a payload.
pub(crate) fn log_tool_call(task: &Task, tool: &FinishedToolCall<'_>) {
    let (session, number) = (session(task), task.assignment().number);
    macro_rules! log {
        ($level:ident, $($message:tt)+) => {
            tracing::$level!(
                action = "tool",
                session.id = session,
                task.id = %task.id(),
                task.number = %number,
                agent.name = task.assignment().agent,
                turn.number = task.answers(),
                tool.name = tool.name,
                tool.is_error = tool.error.is_some(),
                error.type = tool.error,
                duration_ms = in_ms(tool.took),
                $($message)+
            )
        };
    }
    match tool.error {
        None => log!(debug, "task {number} of {session} called {}", tool.name),
        Some(kind) => {
            log!(warn, "task {number} of {session}: tool {} failed ({kind})", tool.name);
        }
    }
}

pub(crate) fn log_spawned(task: &Task, children: &[Spawned]) {
    let session = session(task);
    for child in children {
        tracing::debug!(
            action = "spawn",
            session.id = session,
            task.id = %child.id,
            task.number = %child.number,
            task.parent = %task.id(),
            task.status = child.state.as_str(),
            "task {} of {session} spawned {}",
            task.assignment().number,
            child.number
        );
    }
}

/// Logs an attempt with which its task does not end. `None`: the task was cancelled or taken over.
/// Ends of tasks are logged when they are stored.
pub(crate) fn log_end(task: &Task, span: &Span, end: Option<&Result<End, Stop>>, took: Duration) {
    let (status, failure) = status(end);
    span.record("task.outcome", status);
    if let Some(failure) = failure {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", failure);
    }
    let (session, number) = (session(task), task.assignment().number);
    macro_rules! log {
        ($level:ident, $message:literal) => {
            tracing::$level!(
                action = "end",
                session.id = session,
                task.id = %task.id(),
                task.number = %number,
                agent.name = task.assignment().agent,
                task.attempt = task.attempt(),
                task.answers = task.answers(),
                task.status = status,
                duration_ms = in_ms(took),
                $message
            )
        };
    }
    match end {
        None | Some(Err(Stop::LeaseLost)) => {
            log!(info, "task {number} of {session} was cancelled or taken over");
        }
        Some(Ok(End::Released { .. } | End::Waiting { .. } | End::Paused { .. }))
        | Some(Err(Stop::HandOver)) => log!(debug, "task {number} of {session}: {status}"),
        Some(Ok(End::Completed { .. } | End::Failed { .. }) | Err(Stop::Store(_))) => {}
    }
}

/// The end event of a delegation. It is logged after the end is stored, so that its reader finds
/// the outcome in the database.
pub(crate) struct DelegationCompleted {
    tenant: Option<String>,
    session: String,
    task: TaskId,
    number: TaskNumber,
    agent: String,
    traceparent: Option<String>,
    assignment: LoggedText,
    /// `None` if it failed.
    result: Option<LoggedText>,
    failure: Option<FailureKind>,
    error: Option<LoggedText>,
    attempt: i32,
    answers: i32,
    took: Duration,
}

/// A text of which the log has the size, and the text itself only if payloads are logged.
struct LoggedText {
    bytes: usize,
    text: Option<String>,
}

impl LoggedText {
    fn of(text: &str) -> Self {
        Self { bytes: text.len(), text: payloads::if_enabled(text).map(str::to_owned) }
    }
}

impl DelegationCompleted {
    /// `None` if the delegation does not end with this attempt.
    pub(crate) fn of(task: &Task, end: Option<&Result<End, Stop>>, took: Duration) -> Option<Self> {
        let (result, failure, error) = match end? {
            Ok(End::Completed { result, .. }) => (Some(LoggedText::of(result)), None, None),
            Ok(End::Failed { failure, error, .. }) => {
                (None, Some(*failure), Some(LoggedText::of(error)))
            }
            Err(Stop::Store(error)) => {
                let error = LoggedText::of(&error.to_string());
                (None, Some(FailureKind::Internal), Some(error))
            }
            Ok(End::Released { .. } | End::Waiting { .. } | End::Paused { .. })
            | Err(Stop::HandOver | Stop::LeaseLost) => return None,
        };
        Some(Self {
            tenant: task.assignment().tenant.clone(),
            session: session(task).to_owned(),
            task: task.id(),
            number: task.assignment().number,
            agent: task.assignment().agent.clone(),
            traceparent: task.assignment().traceparent.clone(),
            assignment: LoggedText::of(&task.assignment().text),
            result,
            failure,
            error,
            attempt: task.attempt(),
            answers: task.answers(),
            took,
        })
    }

    /// A failed task is a warning, with the kind of its failure; its error is a payload.
    pub(crate) fn log(self) {
        let (session, number) = (&self.session, self.number);
        let failure = self.failure.map(FailureKind::as_str);
        macro_rules! log {
            ($level:ident, $status:literal, $message:literal) => {
                tracing::$level!(
                    action = "end",
                    event.name = "delegation.completed",
                    correlation.id = %self.task,
                    traceparent = self.traceparent,
                    tenant = self.tenant,
                    session.id = session,
                    task.id = %self.task,
                    task.number = %number,
                    agent.name = self.agent,
                    task.attempt = self.attempt,
                    task.answers = self.answers,
                    task.status = $status,
                    task.failure = failure,
                    duration_ms = in_ms(self.took),
                    delegation.success = self.result.is_some(),
                    delegation.task.id = %self.task,
                    delegation.task.bytes = self.assignment.bytes,
                    delegation.task.text = self.assignment.text,
                    delegation.result.id =
                        self.result.as_ref().map(|_| tracing::field::display(self.task)),
                    delegation.result.bytes = self.result.as_ref().map(|result| result.bytes),
                    delegation.result.text =
                        self.result.as_ref().and_then(|result| result.text.as_deref()),
                    delegation.failure = failure,
                    delegation.error.bytes = self.error.as_ref().map(|error| error.bytes),
                    delegation.error.text =
                        self.error.as_ref().and_then(|error| error.text.as_deref()),
                    $message
                )
            };
        }
        match failure {
            None => log!(info, "completed", "task {number} of {session} completed"),
            Some(kind) => log!(warn, "failed", "task {number} of {session} failed ({kind})"),
        }
    }
}

/// The status for logs, and the kind of failure if it failed.
fn status(end: Option<&Result<End, Stop>>) -> (&'static str, Option<&'static str>) {
    match end {
        None => ("taken_away", None),
        Some(Ok(End::Completed { .. })) => ("completed", None),
        Some(Ok(End::Failed { failure, .. })) => ("failed", Some(failure.as_str())),
        Some(Ok(End::Released { .. }) | Err(Stop::HandOver)) => ("released", None),
        Some(Ok(End::Waiting { .. } | End::Paused { .. })) => ("waiting", None),
        Some(Err(Stop::LeaseLost)) => ("lost", Some(FailureKind::Lost.as_str())),
        Some(Err(Stop::Store(_))) => ("failed", Some(FailureKind::Internal.as_str())),
    }
}

/// The time since the task was spawned in which it did not run: queued, waiting or between workers.
/// It is approximate, since it uses two clocks.
fn queued_ms(task: &Task) -> i64 {
    let since = (Utc::now() - task.assignment().created_at).num_milliseconds();
    (since - task.assignment().running_ms).max(0)
}

fn session(task: &Task) -> &str {
    task.assignment().session_name.as_deref().unwrap_or_default()
}

fn in_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
