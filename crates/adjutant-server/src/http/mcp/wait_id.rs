//! The ids of MCP tasks. An id contains everything that a server needs to answer a poll, so that an
//! MCP task has no row of its own and any server can answer.

use adjutant_agent::{TaskNumber, WaitMode};
use chrono::{DateTime, SecondsFormat, TimeZone, Utc};
use rmcp::model::{Task, TaskStatus};

use super::resources::{decoded, encoded};
use crate::{Dialect, Result};

/// When a client should poll again: a task takes seconds.
const POLL_INTERVAL_MS: u64 = 2_000;

/// The most tasks of one wait.
pub(super) const MAX_TASKS: usize = 100;

/// How a wait chose its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitTarget {
    /// The call named them.
    Named,
    /// They were the active tasks of the session at the time of the call.
    Session,
}

/// The id of an MCP task, which stands for one wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WaitId {
    pub(super) dialect: Dialect,
    pub(super) target: WaitTarget,
    /// The time of the call, in whole milliseconds.
    pub(super) since: DateTime<Utc>,
    pub(super) mode: WaitMode,
    pub(super) tasks: Vec<TaskNumber>,
    pub(super) session: String,
}

impl std::fmt::Display for WaitId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tasks: Vec<String> = self.tasks.iter().map(TaskNumber::to_string).collect();
        let (since, session) = (self.since.timestamp_millis(), encoded(&self.session));
        write!(
            f,
            "{}.{since}.{}.{}.{session}",
            prefix(self.dialect, self.target),
            self.mode.as_str(),
            tasks.join("+")
        )
    }
}

/// The first part of an id. Other dialects than `spec` wait only in the call that spawns the task.
fn prefix(dialect: Dialect, target: WaitTarget) -> &'static str {
    match (dialect, target) {
        (Dialect::Spec, WaitTarget::Named) => "wait",
        (Dialect::Spec, WaitTarget::Session) => "session",
        (dialect, WaitTarget::Named | WaitTarget::Session) => dialect.as_str(),
    }
}

impl WaitId {
    pub(super) fn parse(id: &str) -> Option<Self> {
        let parts: Vec<&str> = id.split('.').collect();
        let [first, since, mode, tasks, session] = parts[..] else { return None };
        let tasks =
            tasks.split('+').map(str::parse).collect::<Result<Vec<TaskNumber>, _>>().ok()?;
        let mut kinds = Dialect::ALL
            .into_iter()
            .flat_map(|dialect| [(dialect, WaitTarget::Named), (dialect, WaitTarget::Session)]);
        let (dialect, target) =
            kinds.find(|(dialect, target)| prefix(*dialect, *target) == first)?;
        let parsed = Self {
            dialect,
            target,
            since: Utc.timestamp_millis_opt(since.parse().ok()?).single()?,
            mode: mode.parse().ok()?,
            tasks,
            session: decoded(session)?,
        };
        // Only the canonical form is an id, so that a wait has one id.
        (parsed.to_string() == id && parsed.tasks.len() <= MAX_TASKS).then_some(parsed)
    }

    /// The MCP task with this id.
    pub(super) fn task(&self, status: TaskStatus, updated: DateTime<Utc>) -> Task {
        Task::new(self.to_string(), status, rfc3339(self.since), rfc3339(updated.max(self.since)))
            .with_poll_interval_ms(POLL_INTERVAL_MS)
    }
}

fn rfc3339(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Rounds a time down to the precision of an id.
pub(super) fn whole_ms(at: DateTime<Utc>) -> DateTime<Utc> {
    Utc.timestamp_millis_opt(at.timestamp_millis()).single().unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_contains_everything_about_its_wait() {
        let id = WaitId {
            dialect: Dialect::Spec,
            target: WaitTarget::Named,
            since: Utc.timestamp_millis_opt(1_790_000_000_123).unwrap(),
            mode: WaitMode::All,
            tasks: vec![TaskNumber(1), TaskNumber(100)],
            session: "é. +1".to_owned(),
        };
        let text = id.to_string();
        assert_eq!(text, "wait.1790000000123.all.t_01+t_100.%C3%A9%2E%20%2B1");
        assert_eq!(WaitId::parse(&text), Some(id.clone()));
        let id = WaitId { target: WaitTarget::Session, ..id };
        assert_eq!(id.to_string(), "session.1790000000123.all.t_01+t_100.%C3%A9%2E%20%2B1");
        assert_eq!(WaitId::parse(&id.to_string()), Some(id));
        for wrong in [
            "",
            "wait",
            "wait.1.any..a",
            "wait.1.some.t_01.a",
            "wait.x.any.t_01.a",
            "wait.1.any.t_1.a",
            "wait.01.any.t_01.a",
            "wait.1.any.t_01.a.b",
            "786512e2-9e0d-44bd-8f29-789f320fe840",
        ] {
            assert_eq!(WaitId::parse(wrong), None, "{wrong}");
        }
    }
}
