//! The telemetry events of the source.

use adjutant_agent::{AgentConfig, Depth, EndedTask, Outcome};

use super::answers::{output, tokens, user_messages, view};
use super::telemetry::Telemetry;

/// An event in the life of a subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Spawn {
        depth: Depth,
        max_turns: i32,
        allowed_tools: Vec<String>,
    },
    Complete {
        depth: Depth,
        turns_used: i32,
        tokens_consumed: i64,
        status: &'static str,
    },
    /// Has the kind of the failure, because an error text may contain anything.
    Error {
        depth: Depth,
        error: &'static str,
    },
    MaxTurnsExceeded {
        depth: Depth,
        max_turns: i32,
    },
    /// Sizes in bytes.
    Truncation {
        original_size: usize,
        truncated_size: usize,
    },
    DepthLimit {
        current_depth: Depth,
        max_depth: i16,
    },
    QuotaExceeded,
}

impl Event {
    /// The spawn of a subagent. The operator's ceiling limits its turns.
    pub fn of_spawn(config: &AgentConfig, depth: Depth, ceiling: i32) -> Self {
        Self::Spawn {
            depth,
            max_turns: config.max_turns.min(ceiling),
            allowed_tools: config.tools.clone(),
        }
    }

    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Spawn { .. } => "spawn",
            Self::Complete { .. } => "complete",
            Self::Error { .. } => "error",
            Self::MaxTurnsExceeded { .. } => "max_turns_exceeded",
            Self::Truncation { .. } => "truncation",
            Self::DepthLimit { .. } => "depth_limit",
            Self::QuotaExceeded => "quota_exceeded",
        }
    }
}

/// The events of the end of a task with this limit of turns.
pub fn of_end(task: &EndedTask, max_turns: i32, telemetry: &Telemetry) -> Vec<Event> {
    let depth = task.depth;
    let mut events = Vec::new();
    let Ok((text, completion)) = output(task) else {
        let error = match &task.outcome {
            Outcome::Failed { failure, .. } => failure.as_str(),
            Outcome::Cancelled { .. } | Outcome::Completed { .. } => "cancelled",
        };
        return vec![Event::Error { depth, error }];
    };
    if matches!(task.outcome, Outcome::Failed { .. }) {
        events.push(Event::MaxTurnsExceeded { depth, max_turns });
    }
    if text.len() > telemetry.output_max_size {
        let kept = view(telemetry.output_max_size).kept.prefix_of(text);
        events.push(Event::Truncation { original_size: text.len(), truncated_size: kept.len() });
    }
    events.push(Event::Complete {
        depth,
        turns_used: user_messages(task),
        tokens_consumed: tokens(task),
        status: completion.as_str(),
    });
    events
}
