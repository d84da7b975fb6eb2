use serde::{Deserialize, Serialize};

use crate::Answer;
use crate::word_enum::{word_enum, word_schema};

/// The use of model calls, as the provider reports it. The cost is in nanodollars, so that sums are
/// exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All tokens of the prompt, including those read from or written to the provider's cache.
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// The part of `input_tokens` that came from the provider's cache.
    pub cache_read_tokens: i64,
    /// The part of `input_tokens` that was written to the provider's cache.
    pub cache_write_tokens: i64,
    pub cost_nanousd: i64,
    /// The provider did not report all tokens, so some are estimated.
    #[serde(default)]
    pub estimated: bool,
}

/// The use of several model calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_nanousd: i64,
}

word_enum! {
    /// Why a model call has no stored answer.
    BreakReason {
        /// The server or the connection broke it off.
        Failed = "failed",
        /// Its task ended, or its worker did.
        Stopped = "stopped",
        /// It was answered, but the worker had lost the lease.
        Unstored = "unstored",
    }
}

word_enum! {
    /// The purpose of a model call. Only `turn` counts against the limit of turns.
    #[derive(Default)]
    TurnKind {
        #[default]
        Turn = "turn",
        /// Repeats the request once after an empty answer.
        AskAgain = "ask_again",
        /// Asks for a summary after the loop is done.
        Summary = "summary",
        /// Asks for a text that replaces the conversation so far, because that nears the context
        /// window.
        Compaction = "compaction",
    }
}

word_schema!(TurnKind);

/// One model call's answer: the stored unit of progress.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn {
    pub kind: TurnKind,
    pub answer: Answer,
    /// The name of the model in the config.
    pub model: Option<String>,
    pub usage: Usage,
    pub duration_ms: i64,
}

/// The result of one tool call of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// The call's id in the turn's answer.
    pub call: String,
    pub content: String,
    pub is_error: bool,
    pub duration_ms: i64,
}

/// A stored turn with the tool results so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoredTurn {
    /// 1, 2, 3 ... over all attempts and kinds.
    pub number: i32,
    pub attempt: i32,
    pub turn: Turn,
    pub tool_results: Vec<ToolResult>,
}
