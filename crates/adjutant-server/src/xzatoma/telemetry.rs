//! The source's events in the log, if the operator wants them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use adjutant_agent::TaskId;
use adjutant_agent::dialects::xzatoma::{Event, Settings};
use uuid::Uuid;

/// How many ends are remembered; those of the oldest tasks are forgotten first.
const MANY: usize = 10_000;

/// The ends that this process has told of: one that is shown again is not told again.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<BTreeSet<Uuid>>);

impl Told {
    fn is_first(&self, task: TaskId) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = told.insert(task.0);
        if told.len() > MANY {
            told.pop_first();
        }
        is_first
    }
}

/// Where the events of one subagent go.
pub(super) struct Events<'a> {
    label: &'a str,
    is_enabled: bool,
}

impl<'a> Events<'a> {
    /// The label is there to be logged: that is what the source has it for.
    pub(super) fn of(settings: &Settings, label: &'a str) -> Self {
        Self { label, is_enabled: settings.telemetry_enabled }
    }

    /// For the end of a task, which is told once.
    pub(super) fn if_first(self, told: &Told, task: TaskId) -> Self {
        Self { is_enabled: self.is_enabled && told.is_first(task), ..self }
    }

    pub(super) fn tell(&self, event: &Event) {
        if !self.is_enabled {
            return;
        }
        let (name, label) = (event.as_str(), self.label);
        macro_rules! tell {
            ($message:literal $(, $field:literal = $value:expr)*) => {
                tracing::info!(subagent.event = name, subagent.label = label, $($field = $value,)* $message)
            };
        }
        match event {
            Event::Spawn { depth, max_turns, allowed_tools } => tell!(
                "a subagent begins",
                "subagent.depth" = depth,
                "subagent.max_turns" = max_turns,
                "subagent.allowed_tools" = allowed_tools.join(",")
            ),
            Event::Complete { depth, turns_used, tokens_consumed, status } => tell!(
                "a subagent is done",
                "subagent.depth" = depth,
                "subagent.turns_used" = turns_used,
                "subagent.tokens_consumed" = tokens_consumed,
                "subagent.status" = status
            ),
            Event::Error { depth, error } => {
                tell!("a subagent failed", "subagent.depth" = depth, "subagent.error" = error);
            }
            Event::MaxTurnsExceeded { depth, max_turns } => tell!(
                "a subagent has used up its turns",
                "subagent.depth" = depth,
                "subagent.max_turns" = max_turns
            ),
            Event::Truncation { original_size, truncated_size } => tell!(
                "what a subagent said is cut",
                "subagent.original_size" = original_size,
                "subagent.truncated_size" = truncated_size
            ),
            Event::DepthLimit { current_depth, max_depth } => tell!(
                "a subagent may not delegate further",
                "subagent.current_depth" = current_depth,
                "subagent.max_depth" = max_depth
            ),
            Event::QuotaExceeded => tell!("the subagents of a session have used what they may"),
        }
    }
}
