//! The tools that agents can call, except `shared_context` and delegation, which write under the
//! lease (see `agent_loop`).
//!
//! A [`Toolbox`] holds the built-in tools (`builtin.rs`), the HTTP tools of the config, the tools
//! of the embedding program ([`Tool`], [`RustTool`]), and those of MCP servers, which may come and
//! go. Whatever a tool does (fail, panic, hang, return endless text), the agent gets a text of
//! bounded length within the tool's time limit.

mod builtin;
mod check;
mod config;
pub(crate) mod http_client;
mod http_tool;
mod mcp;
mod names;
mod public_dns;
mod registry;
mod rust_tool;
mod tool;
mod toolbox;

#[cfg(test)]
mod tests;

pub use builtin::{BUILT_IN_TOOLS, BuiltInTool, Enabled};
pub use check::check;
pub use config::{
    FetchConfig, FilesConfig, HttpToolConfig, McpConfig, McpEndpoint, Setting, ToolsConfig,
};
pub use mcp::list_tools;
pub use names::{agent_names, check_characters, check_http_tool_name, possible_names};
pub use registry::Catalogue;
pub use rust_tool::{RustCall, RustTool};
pub use tool::{FailureKindCell, Limits, Tool, ToolCall};
pub(crate) use toolbox::is_for;
pub use toolbox::{ToolConfigError, Toolbox};
