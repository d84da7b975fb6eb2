//! Agents that delegate further: real workers run whole trees of them, and die on the way. Whatever happens, every task is done
//! once, every parent gets what its children found, and who waits holds nothing.

mod bounds;
mod calls;
mod deaths;
pub mod family;
mod prompts;
mod trees;
mod waits;
mod xzatoma;
