//! The crates inside somebody else's program: every example runs, and hooks and subscribers keep what they promise.

mod examples;
mod hooks;
mod subscriptions;
mod tools;
