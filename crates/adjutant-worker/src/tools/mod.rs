//! What children can call, but for `shared_context`, which writes under the lease.
//!
//! A [`Toolbox`] has the built-in tools, those of the config, those of people who embed this crate, and those of MCP servers,
//! which come and go. Whatever a tool does (fail, panic, hang, talk without end), the child gets a text of bounded length.

mod arguments;
mod catalogue;
mod config;
mod fetch;
mod files;
mod html;
mod http;
mod mcp;
mod names;
mod reach;
mod rust_tool;
mod tool;
mod toolbox;
pub(crate) mod web;

#[cfg(test)]
mod tests;

pub use catalogue::Catalogue;
pub use config::{FetchConfig, FilesConfig, HttpToolConfig, McpConfig, McpEndpoint, Setting, ToolsConfig};
pub use rust_tool::{RustCall, RustTool};
pub use tool::{Limits, Tool, ToolCall};
pub use toolbox::{BadTool, Toolbox};
