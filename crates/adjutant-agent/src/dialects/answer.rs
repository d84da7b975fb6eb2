use serde_json::{Map, Value};

use crate::{Outcome, Spent, TaskNumber};

/// What a call of a tool gets, in the words of its dialect.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// As programs read it.
    pub value: Value,
    /// As models read it.
    pub text: String,
    pub is_error: bool,
    /// There is more to ask about it: the task that it is about goes on.
    pub goes_on: bool,
}

impl Answer {
    /// A value that models read as JSON.
    pub fn json(value: Value) -> Self {
        Self { text: value.to_string(), value, is_error: false, goes_on: false }
    }

    /// A text that is nothing but a text, for programs too.
    pub fn plain(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { value: Value::String(text.clone()), text, is_error: false, goes_on: false }
    }

    /// The same as an error of the tool's.
    pub fn as_error(self) -> Self {
        Self { is_error: true, ..self }
    }

    /// The same about a task that has not ended.
    pub fn of_what_goes_on(self) -> Self {
        Self { goes_on: true, ..self }
    }
}

/// A task that has ended, with all that an answer is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedTask {
    pub number: TaskNumber,
    pub agent: String,
    pub label: Option<String>,
    /// 0 for a task of the orchestrator's own.
    pub depth: i16,
    pub metadata: Map<String, Value>,
    pub outcome: Outcome,
    pub turns_used: i32,
    /// Model answers: its turns, and what was asked besides.
    pub answers: i32,
    pub spent: Spent,
}
