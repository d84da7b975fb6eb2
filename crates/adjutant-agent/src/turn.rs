use serde::{Deserialize, Serialize};

use crate::Answer;
use crate::words::{word_schema, words};

/// What model calls consumed, as the provider counts it; the cost in billionths of a US dollar, so that sums are exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All of the prompt, those read from or written to the provider's cache included.
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// The part of `input_tokens` that came from the provider's cache.
    pub cache_read_tokens: i64,
    /// The part of `input_tokens` that was written to the provider's cache.
    pub cache_write_tokens: i64,
    pub cost_nanousd: i64,
}

/// What was used over several calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_nanousd: i64,
}

words! {
    /// What a model was called for. Only turns of the loop count as turns used.
    #[derive(Default)]
    TurnKind {
        #[default]
        Turn = "turn",
        /// The last answer was empty: the one more try.
        AskAgain = "ask_again",
        /// The loop is done, and the model is asked to sum up.
        Summary = "summary",
    }
}

word_schema!(TurnKind);

/// One model call's answer: the stored unit of progress.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn {
    pub kind: TurnKind,
    pub answer: Answer,
    /// The name by which the config knows the model.
    pub model: Option<String>,
    pub usage: Usage,
    pub duration_ms: i64,
}

/// What one tool call of a turn gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// The call's id in the turn's answer.
    pub call: String,
    pub content: String,
    pub is_error: bool,
    pub duration_ms: i64,
}

/// A turn as it was stored, with the tool results that came.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoredTurn {
    /// 1, 2, 3 ... over all attempts and kinds.
    pub number: i32,
    pub attempt: i32,
    pub turn: Turn,
    pub tool_results: Vec<ToolResult>,
}
