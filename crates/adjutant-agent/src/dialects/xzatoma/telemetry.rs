//! The source's events in the log, if the operator wants them.

use serde::{Deserialize, Serialize};

use super::{Event, Quota, Settings};

/// What is to be known to tell how a subagent ended. Its configuration has it if that is to be told: whoever ends it finds it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Telemetry {
    /// The most bytes of an output that are shown.
    pub output_max_size: usize,
    /// Of all subagents of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_total_tokens: Option<i64>,
}

impl Settings {
    /// None if nothing is told.
    pub fn telemetry(&self) -> Option<Telemetry> {
        let (output_max_size, max_total_tokens) = (self.output_max_size, self.quota.max_total_tokens);
        self.telemetry_enabled.then_some(Telemetry { output_max_size, max_total_tokens })
    }
}

impl Telemetry {
    /// What there is to tell if the subagents of a session have used so many tokens by the end of one.
    pub fn of_tokens(&self, used: i64) -> Option<Event> {
        let quota = Quota { max_total_tokens: self.max_total_tokens, ..Quota::default() };
        quota.check_tokens(used).is_err().then_some(Event::QuotaExceeded)
    }
}

impl Event {
    /// Writes it to the log. The label is there to be logged: that is what the source has it for.
    pub fn tell(&self, label: &str) {
        let name = self.as_str();
        macro_rules! tell {
            ($message:literal $(, $field:literal = $value:expr)*) => {
                tracing::info!(subagent.event = name, subagent.label = label, $($field = $value,)* $message)
            };
        }
        match self {
            Self::Spawn { depth, max_turns, allowed_tools } => tell!(
                "a subagent begins",
                "subagent.depth" = depth,
                "subagent.max_turns" = max_turns,
                "subagent.allowed_tools" = allowed_tools.join(",")
            ),
            Self::Complete { depth, turns_used, tokens_consumed, status } => tell!(
                "a subagent is done",
                "subagent.depth" = depth,
                "subagent.turns_used" = turns_used,
                "subagent.tokens_consumed" = tokens_consumed,
                "subagent.status" = status
            ),
            Self::Error { depth, error } => {
                tell!("a subagent failed", "subagent.depth" = depth, "subagent.error" = error);
            }
            Self::MaxTurnsExceeded { depth, max_turns } => tell!(
                "a subagent has used up its turns",
                "subagent.depth" = depth,
                "subagent.max_turns" = max_turns
            ),
            Self::Truncation { original_size, truncated_size } => tell!(
                "what a subagent said is cut",
                "subagent.original_size" = original_size,
                "subagent.truncated_size" = truncated_size
            ),
            Self::DepthLimit { current_depth, max_depth } => tell!(
                "a subagent may not delegate further",
                "subagent.current_depth" = current_depth,
                "subagent.max_depth" = max_depth
            ),
            Self::QuotaExceeded => tell!("the subagents of a session have used what they may"),
        }
    }
}
