//! How the sources of the contract write a call and read an answer. A dialect renames fields, sets options and
//! renders what became of a task; all of that is pure, so that a server, and a worker whose agent delegates further, say the
//! same.

mod answer;
pub mod caliban;
pub mod ecs;
mod go_on;
pub mod spec;
#[cfg(test)]
mod tests;
pub mod weakincentives;
pub mod xzatoma;

pub use answer::{Answer, EndedTask};

use crate::SUBAGENT;

/// With these an orchestrator delegates. Nobody gets them who is not meant to delegate further.
pub const DELEGATION_TOOLS: [&str; 7] = [
    SUBAGENT,
    caliban::AGENT_TOOL,
    weakincentives::DISPATCH_SUBAGENT,
    ecs::CANCEL,
    ecs::RESULT,
    ecs::STATUS,
    ecs::WAIT,
];

/// Where a task says, in its metadata, which dialect it was called in.
pub const DIALECT: &str = "dialect";
