//! The vocabulary of delegation: what a task is called, which states it has, how it ends, what can be refused.
//!
//! Nothing here does IO. The other crates speak in these words; each of them has one meaning everywhere.

mod error_code;
mod ids;
mod outcome;
mod turn;
mod words;

pub use error_code::{ErrorCode, Refusal};
pub use ids::{LeaseId, SessionId, TaskId, TaskNumber, WorkerId};
pub use outcome::{FailureKind, Outcome, TaskState};
pub use turn::{ToolResult, Turn, Usage};
pub use words::UnknownWord;
