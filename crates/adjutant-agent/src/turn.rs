use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What model calls consumed; the cost in billionths of a US dollar, so that sums are exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_nanousd: i64,
}

/// One model call's answer: the stored unit of progress.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The answer as the model gave it.
    pub message: Value,
    /// Its text, if it has any.
    pub text: Option<String>,
    pub model: Option<String>,
    #[serde(flatten)]
    pub usage: Usage,
    pub duration_ms: i64,
}

/// What one tool call of a turn gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// The call's id in the turn's message.
    pub call: String,
    pub content: String,
    pub is_error: bool,
    pub duration_ms: i64,
}
