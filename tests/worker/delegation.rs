//! Agents that delegate further: real workers run whole trees of them, and die on the way. Whatever
//! happens, every task is done once, every parent gets what its children found, and who waits holds
//! nothing.

pub mod agents;
pub mod bounds;
pub mod calls;
pub mod deaths;
pub mod prompts;
pub mod trees;
pub mod waits;
