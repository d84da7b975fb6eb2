//! What the log tells of the calls of orchestrators, over every wire alike. Only words that we know ourselves are written
//! down: a text that a caller made up may be anything.

use std::time::Duration;

use adjutant_agent::{ContextAction, SHARED_CONTEXT, SUBAGENT, TaskNumber, check_agent_name};
use adjutant_dialects::spec::SubagentAction;
use adjutant_dialects::{Answer, Dialect, ParsedCall, ToolCall};
use serde_json::Value;

use crate::{Error, Result};

/// For a tool or an action that is not ours.
const UNKNOWN: &str = "unknown";

/// A call that has been answered.
pub(crate) struct Call<'a> {
    pub(crate) session: &'a str,
    pub(crate) dialect: Dialect,
    pub(crate) call: &'a ToolCall,
    /// The one that was waited for.
    pub(crate) task: Option<TaskNumber>,
    pub(crate) answer: &'a Result<Answer>,
    pub(crate) took: Duration,
}

impl<'a> Call<'a> {
    pub(crate) fn of(
        session: &'a str,
        parsed: &'a ParsedCall,
        task: Option<TaskNumber>,
        answer: &'a Result<Answer>,
        took: Duration,
    ) -> Self {
        Self { session, dialect: parsed.dialect, call: &parsed.call, task, answer, took }
    }

    pub(crate) fn note(&self) {
        match self.answer {
            Err(error) => self.refused(error),
            Ok(answer) if self.dialect != Dialect::Spec => self.in_dialect(answer),
            Ok(answer) => match answer.value["tasks"].as_array() {
                Some(tasks) if !tasks.is_empty() => tasks.iter().for_each(|task| self.one(task)),
                Some(_) | None => self.one(&answer.value),
            },
        }
    }

    fn tool(&self) -> &'static str {
        let delegates = Dialect::ALL.iter().flat_map(|dialect| dialect.delegation_tools());
        let mut known = delegates.copied().chain([SHARED_CONTEXT]);
        known.find(|tool| *tool == self.call.tool).unwrap_or(UNKNOWN)
    }

    fn action(&self) -> &'static str {
        if self.dialect != Dialect::Spec {
            return self.tool();
        }
        let word = self.call.arguments["action"].as_str().unwrap_or_default();
        let action = match self.tool() {
            SUBAGENT => word.parse().ok().map(SubagentAction::as_str),
            SHARED_CONTEXT => word.parse().ok().map(ContextAction::as_str),
            _ => None,
        };
        action.unwrap_or(UNKNOWN)
    }

    fn duration_ms(&self) -> f64 {
        self.took.as_secs_f64() * 1e3
    }

    /// An answer, or one of the tasks in it.
    fn one(&self, answer: &Value) {
        let (tool, action, session) = (self.tool(), self.action(), self.session);
        let task = answer["task_id"].as_str();
        tracing::info!(
            tool.name = tool,
            action,
            session.id = session,
            task.number = task,
            task.id = answer["id"].as_str(),
            agent.name = answer["agent"].as_str(),
            task.status = answer["status"].as_str(),
            turns_used = answer["turns_used"].as_i64(),
            duration_ms = self.duration_ms(),
            "{action} in {session}: {}",
            task.unwrap_or("done")
        );
    }

    /// An answer whose form is another source's.
    fn in_dialect(&self, answer: &Answer) {
        let (tool, session, dialect) = (self.tool(), self.session, self.dialect.as_str());
        let task = self.task.map(|task| task.to_string());
        let status = match answer {
            Answer { still_running: true, .. } => "running",
            Answer { is_error: true, .. } => "failed",
            Answer { .. } => "completed",
        };
        tracing::info!(
            tool.name = tool,
            dialect,
            session.id = session,
            task.number = task,
            task.status = status,
            duration_ms = self.duration_ms(),
            "{tool} of {dialect} in {session}: {}",
            task.as_deref().unwrap_or(status)
        );
    }

    fn refused(&self, error: &Error) {
        let (tool, action, session) = (self.tool(), self.action(), self.session);
        let code = error.code().as_str();
        let (task, agent) = (self.word("task_id"), self.word("agent"));
        tracing::info!(
            tool.name = tool,
            action,
            session.id = session,
            task.number = task.filter(|name| name.parse::<TaskNumber>().is_ok()),
            agent.name = agent.filter(|name| check_agent_name(name).is_ok()),
            duration_ms = self.duration_ms(),
            error.code = code,
            "{action} in {session}: {code}"
        );
    }

    /// An argument of a call that was understood as far as its action.
    fn word(&self, argument: &str) -> Option<&str> {
        if self.action() == UNKNOWN { None } else { self.call.arguments[argument].as_str() }
    }
}
