//! The vocabulary of delegation: what a task is called, which states it has, how it ends, what can be refused.
//!
//! Nothing here does IO. The other crates speak in these words; each of them has one meaning everywhere.

mod answer;
mod context_call;
mod error_code;
mod fields;
mod ids;
mod outcome;
mod request;
mod spec;
mod tokens;
mod tool;
mod turn;
mod words;

pub use answer::{Answer, Arguments, Block, StopReason, ToolUse};
pub use context_call::{ContextAction, ContextCall, ContextKey, ContextValue};
pub use error_code::{ErrorCode, Refusal};
pub use ids::{LeaseId, SessionId, TaskId, TaskNumber, WorkerId};
pub use outcome::{FailureKind, Outcome, TaskState};
pub use request::{Message, Request, ToolOutput};
pub use spec::{AgentSpec, Budget, DEFAULT_MAX_TURNS};
pub use tokens::{MAX_PROMPT_TOKENS, MAX_TASK_TOKENS, estimate_tokens};
pub use tool::{Replay, ToolDefinition};
pub use turn::{Spent, StoredTurn, ToolResult, Turn, TurnKind, Usage};
pub use words::UnknownWord;
