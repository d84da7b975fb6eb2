//! How the sources of the contract other than our own write a call and read an answer. A dialect renames fields, sets options and
//! renders what became of a task; all of that is pure, so that a server, and a worker whose agent delegates further, say the
//! same.

mod answer;
pub mod caliban;
mod go_on;
#[cfg(test)]
mod tests;
pub mod xzatoma;

pub use answer::{Answer, EndedTask};

use crate::SUBAGENT;

/// With these an orchestrator delegates. Nobody gets them who is not meant to delegate further.
pub const DELEGATION_TOOLS: [&str; 7] = [
    SUBAGENT,
    caliban::AGENT_TOOL,
    "dispatch_subagent",
    "subagent_cancel",
    "subagent_result",
    "subagent_status",
    "subagent_wait",
];

/// Where a task says, in its metadata, which dialect it was called in.
pub const DIALECT: &str = "dialect";
