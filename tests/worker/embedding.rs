//! The crates inside somebody else's program: every example runs, and hooks and subscribers keep
//! what they promise.

pub mod examples;
pub mod hooks;
pub mod subscriptions;
pub mod tools;
