use serde_json::Value;

/// The answer to a call of a tool, in the words of its dialect.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// For programs.
    pub value: Value,
    /// For models.
    pub text: String,
    pub is_error: bool,
    /// The task that the answer is about has not ended, so the caller has to call again.
    pub still_running: bool,
}

impl Answer {
    /// A value whose text for models is its JSON.
    pub fn json(value: Value) -> Self {
        Self { text: value.to_string(), value, is_error: false, still_running: false }
    }

    /// A text, for programs too.
    pub fn plain(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { value: Value::String(text.clone()), text, is_error: false, still_running: false }
    }

    /// The same as an error of the tool.
    pub fn as_error(self) -> Self {
        Self { is_error: true, ..self }
    }

    /// The same about a task that has not ended.
    pub fn of_running_task(self) -> Self {
        Self { still_running: true, ..self }
    }
}
