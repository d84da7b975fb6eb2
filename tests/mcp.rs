//! MCP as its clients meet it. What the tools answer is tested in `spec`, over these wires too.

mod bad_input;
pub mod client;
mod doors;
mod first;
mod reading;
mod reconnected;
mod schemas;
mod sessions;
mod tasks;
