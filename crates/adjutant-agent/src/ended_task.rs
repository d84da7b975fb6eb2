use serde_json::{Map, Value};

use crate::{Depth, Outcome, Spent, TaskNumber};

/// An ended task, with everything that a dialect needs to render an answer or an event.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedTask {
    pub number: TaskNumber,
    pub agent: String,
    pub label: Option<String>,
    pub depth: Depth,
    pub metadata: Map<String, Value>,
    pub outcome: Outcome,
    pub turns_used: i32,
    /// The number of stored model answers of every kind.
    pub answers: i32,
    pub spent: Spent,
}
