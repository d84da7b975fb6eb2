use serde_json::{Map, Value};

use crate::{Depth, Outcome, Spent, TaskNumber};

/// A task that has ended, with everything that a dialect renders an answer or an event from.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedTask {
    pub number: TaskNumber,
    pub agent: String,
    pub label: Option<String>,
    pub depth: Depth,
    pub metadata: Map<String, Value>,
    pub outcome: Outcome,
    pub turns_used: i32,
    /// Stored model answers: the turns, the summary, and repeated questions.
    pub answers: i32,
    pub spent: Spent,
}
