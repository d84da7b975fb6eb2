//! One log line for each tool call, over every transport, at DEBUG. It has no text of the caller,
//! which may be secret: only names that were checked, and words of a fixed vocabulary.

use std::time::Duration;

use adjutant_agent::{ContextAction, SHARED_CONTEXT, SUBAGENT, TaskNumber, check_agent_name};
use adjutant_dialects::spec::SubagentAction;
use adjutant_dialects::{Answer, Dialect, ParsedCall, ToolCall};
use serde_json::Value;

use crate::{Error, Result};

/// Stands for the name of a tool or an action that does not exist.
const UNKNOWN: &str = "unknown";

/// A tool call and its answer.
pub(crate) struct CallLog<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) session: &'a str,
    pub(crate) dialect: Dialect,
    pub(crate) call: &'a ToolCall,
    /// The task that the call waited for.
    pub(crate) task: Option<TaskNumber>,
    pub(crate) answer: &'a Result<Answer>,
    pub(crate) duration: Duration,
}

impl<'a> CallLog<'a> {
    pub(crate) fn of(
        tenant: &'a str,
        session: &'a str,
        parsed: &'a ParsedCall,
        task: Option<TaskNumber>,
        answer: &'a Result<Answer>,
        duration: Duration,
    ) -> Self {
        Self {
            tenant,
            session,
            dialect: parsed.dialect,
            call: &parsed.call,
            task,
            answer,
            duration,
        }
    }

    pub(crate) fn write(&self) {
        match self.answer {
            Err(error) => self.write_refusal(error),
            Ok(answer) if self.dialect != Dialect::Spec => self.write_dialect_answer(answer),
            Ok(answer) => match answer.value["tasks"].as_array() {
                Some(tasks) if !tasks.is_empty() => {
                    tasks.iter().for_each(|task| self.write_task(task))
                }
                Some(_) | None => self.write_task(&answer.value),
            },
        }
    }

    fn tool(&self) -> &'static str {
        let delegation_tools = Dialect::ALL.iter().flat_map(|dialect| dialect.delegation_tools());
        let mut known = delegation_tools.copied().chain([SHARED_CONTEXT]);
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
        self.duration.as_secs_f64() * 1e3
    }

    /// Logs an answer of `spec`, or one of the tasks in it.
    fn write_task(&self, answer: &Value) {
        let (tool, action, session) = (self.tool(), self.action(), self.session);
        let task = answer["task_id"].as_str();
        tracing::debug!(
            tool.name = tool,
            action,
            tenant = self.tenant,
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

    /// Logs an answer of another dialect than `spec`.
    fn write_dialect_answer(&self, answer: &Answer) {
        let (tool, session, dialect) = (self.tool(), self.session, self.dialect.as_str());
        let task = self.task.map(|task| task.to_string());
        let status = match answer {
            Answer { still_running: true, .. } => "running",
            Answer { is_error: true, .. } => "failed",
            Answer { .. } => "completed",
        };
        tracing::debug!(
            tool.name = tool,
            dialect,
            tenant = self.tenant,
            session.id = session,
            task.number = task,
            task.status = status,
            duration_ms = self.duration_ms(),
            "{tool} of {dialect} in {session}: {}",
            task.as_deref().unwrap_or(status)
        );
    }

    fn write_refusal(&self, error: &Error) {
        let (tool, action, session) = (self.tool(), self.action(), self.session);
        let code = error.code().as_str();
        let (task, agent) = (self.argument("task_id"), self.argument("agent"));
        tracing::debug!(
            tool.name = tool,
            action,
            tenant = self.tenant,
            session.id = session,
            task.number = task.filter(|name| name.parse::<TaskNumber>().is_ok()),
            agent.name = agent.filter(|name| check_agent_name(name).is_ok()),
            duration_ms = self.duration_ms(),
            error.code = code,
            "{action} in {session}: {code}"
        );
    }

    /// An argument, if the action of the call is known.
    fn argument(&self, name: &str) -> Option<&str> {
        if self.action() == UNKNOWN { None } else { self.call.arguments[name].as_str() }
    }
}
