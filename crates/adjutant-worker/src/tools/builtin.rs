//! The built-in tools.
//!
//! To add one: write its file in this folder and add its line to [`BUILT_IN_TOOLS`], from which the
//! worker registers it and the config file knows its name. If it has settings, they go into
//! [`ToolsConfig`].

mod arguments;
pub(super) mod fetch;
mod files;
mod html;

use std::sync::Arc;

use super::http_client::HttpClients;
use super::{Tool, ToolConfigError, ToolsConfig};

/// A built-in tool, whether or not a config enables it.
pub struct BuiltInTool {
    pub name: &'static str,
    pub enabled: Enabled,
    new: NewTool,
}

/// Creates a tool; `None` if the config does not enable it.
type NewTool = fn(&ToolsConfig, &HttpClients) -> Result<Option<Arc<dyn Tool>>, ToolConfigError>;

/// When a built-in tool exists, by the dotted name of the setting that decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enabled {
    Always,
    /// Unless this setting is `false`.
    Unless(&'static str),
    /// If this setting has a value.
    If(&'static str),
}

/// Every built-in tool, except `shared_context`, which writes under the lease.
pub const BUILT_IN_TOOLS: &[BuiltInTool] = &[
    BuiltInTool {
        name: fetch::NAME,
        enabled: Enabled::Unless("tools.fetch.enabled"),
        new: fetch::tool,
    },
    file_tool(files::READ_FILE, files::read_file),
    file_tool(files::LIST_FILES, files::list_files),
    file_tool(files::SEARCH_FILES, files::search_files),
];

const fn file_tool(name: &'static str, new: NewTool) -> BuiltInTool {
    BuiltInTool { name, enabled: Enabled::If("tools.files.root"), new }
}

/// The built-in tools that the config enables.
pub(super) fn tools(
    config: &ToolsConfig,
    http: &HttpClients,
) -> Result<Vec<Arc<dyn Tool>>, ToolConfigError> {
    BUILT_IN_TOOLS.iter().filter_map(|tool| (tool.new)(config, http).transpose()).collect()
}
