//! Logs the source's events, if the operator enables them.

use adjutant_store::{LoggedEnd, Quota, Store};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::events::{Event, of_end};
use super::{NAME, Settings};
use crate::Result;
use crate::error::bug;
use crate::implementation::EndLog;

/// The settings for logging the end of a subagent. They are part of its configuration, so that the
/// process that stores the end can read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Telemetry {
    /// The most bytes of an output in an answer.
    pub output_max_size: usize,
    /// The limit of all subagents of the session together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_total_tokens: Option<i64>,
}

impl Settings {
    /// `None` if nothing is logged.
    pub(super) fn telemetry(&self) -> Option<Value> {
        let (output_max_size, max_total_tokens) =
            (self.output_max_size, self.quota.max_total_tokens);
        self.telemetry_enabled.then(|| json!(Telemetry { output_max_size, max_total_tokens }))
    }
}

/// The log entries for the end of a subagent, and for a token quota that it has used up.
pub(super) async fn end_log(store: &Store, end: &LoggedEnd) -> Result<EndLog> {
    let telemetry = Telemetry::deserialize(&end.telemetry).map_err(|error| bug(&error))?;
    let mut events = of_end(&end.task, end.max_turns, &telemetry);
    if telemetry.max_total_tokens.is_some() {
        let used = store.tokens_until(end.session, NAME, end.finished_at).await?;
        events.extend(telemetry.of_tokens(used));
    }
    let label = end.task.label.clone().unwrap_or_default();
    Ok(Box::new(move || events.iter().for_each(|event| event.log(&label))))
}

impl Telemetry {
    /// The quota event, if the session's subagents have used more tokens than they may.
    pub fn of_tokens(&self, used: i64) -> Option<Event> {
        let quota = Quota { max_total_tokens: self.max_total_tokens, ..Quota::default() };
        quota.check_tokens(used).is_err().then_some(Event::QuotaExceeded)
    }
}

impl Event {
    /// Logs the event. The label is logged too: the source defines it for logs.
    pub fn log(&self, label: &str) {
        let name = self.as_str();
        macro_rules! log {
            ($message:literal $(, $field:literal = $value:expr)*) => {
                tracing::info!(subagent.event = name, subagent.label = label, $($field = $value,)* $message)
            };
        }
        match self {
            Self::Spawn { depth, max_turns, allowed_tools } => log!(
                "subagent started",
                "subagent.depth" = depth.0,
                "subagent.max_turns" = max_turns,
                "subagent.allowed_tools" = allowed_tools.join(",")
            ),
            Self::Complete { depth, turns_used, tokens_consumed, status } => log!(
                "subagent completed",
                "subagent.depth" = depth.0,
                "subagent.turns_used" = turns_used,
                "subagent.tokens_consumed" = tokens_consumed,
                "subagent.status" = status
            ),
            Self::Error { depth, error } => {
                log!("subagent failed", "subagent.depth" = depth.0, "subagent.error" = error);
            }
            Self::MaxTurnsExceeded { depth, max_turns } => log!(
                "subagent ran out of turns",
                "subagent.depth" = depth.0,
                "subagent.max_turns" = max_turns
            ),
            Self::Truncation { original_size, truncated_size } => log!(
                "subagent output truncated",
                "subagent.original_size" = original_size,
                "subagent.truncated_size" = truncated_size
            ),
            Self::DepthLimit { current_depth, max_depth } => log!(
                "subagent delegation refused: depth limit",
                "subagent.current_depth" = current_depth.0,
                "subagent.max_depth" = max_depth
            ),
            Self::QuotaExceeded => log!("subagent quota exceeded"),
        }
    }
}
