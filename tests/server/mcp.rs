//! MCP as its clients meet it. What the tools answer is tested in `spec`, over these wires too.

pub mod access;
pub mod bad_input;
pub mod first_start;
pub mod reconnects;
pub mod resources;
pub mod schemas;
pub mod sessions;
pub mod tasks;
