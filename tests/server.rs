//! `adjutant serve` as a process: its HTTP routes, its MCP endpoint and its event streams.

pub mod events;
pub mod http;
pub mod mcp;
