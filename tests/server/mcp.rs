//! The MCP server. Answers of the tools are tested in `dialects`, over MCP too.

pub mod access;
pub mod bad_input;
pub mod first_start;
pub mod reconnects;
pub mod resources;
pub mod schemas;
pub mod sessions;
pub mod tasks;
