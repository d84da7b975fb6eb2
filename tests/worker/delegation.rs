//! Agents that delegate further. Real workers run trees of tasks and die on the way: every task
//! completes once, every parent gets the results of its children, and a waiting task holds no slot.

pub mod agents;
pub mod bounds;
pub mod calls;
pub mod deaths;
pub mod prompts;
pub mod trees;
pub mod waits;
