use serde::Serialize;

use super::Wrong;

/// What an operator says about this dialect.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How deep subagents may nest, 1 to 10, within what is allowed for all.
    pub max_depth: i32,
    /// For calls that do not say, 1 to 100.
    pub default_max_turns: i32,
    /// The most bytes of an output that are shown, at least 1024.
    pub output_max_size: usize,
    /// Whether what happens to subagents is told in the log.
    pub telemetry_enabled: bool,
    pub quota: Quota,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_depth: 3,
            default_max_turns: 10,
            output_max_size: 4_096,
            telemetry_enabled: true,
            quota: Quota::default(),
        }
    }
}

/// What is said first of a quota that is used up.
pub const OVER_QUOTA: &str = "Resource quota exceeded";

/// What all subagents of one session may use together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Quota {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_executions: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_total_tokens: Option<i64>,
    /// In seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_total_time: Option<f64>,
}

impl Quota {
    /// None if nothing is limited.
    pub fn if_any(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }

    /// After a task has ended, with what all have used until then. The number of tasks and their time are looked at before one
    /// begins.
    pub fn check_tokens(&self, used: i64) -> Result<(), Wrong> {
        match self.max_total_tokens {
            Some(most) if used > most => {
                Err(Wrong(format!("{OVER_QUOTA}: {used} tokens used, and there are {most}")))
            }
            Some(_) | None => Ok(()),
        }
    }
}
