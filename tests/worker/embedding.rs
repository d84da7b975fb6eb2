//! The crates embedded in another program: examples, tools, hooks and subscribers.

pub mod examples;
pub mod hooks;
pub mod subscriptions;
pub mod tools;
