//! The built-in tools.
//!
//! To add one: write its file in this folder and add it to [`tools`]. If it has settings, they go
//! into [`ToolsConfig`].

mod arguments;
pub(super) mod fetch;
mod files;
mod html;

use std::sync::Arc;

use super::http_client::HttpClients;
use super::{Tool, ToolConfigError, ToolsConfig};
use fetch::Fetch;

/// The built-in tools that the config enables.
pub(super) fn tools(
    config: &ToolsConfig,
    http: &HttpClients,
) -> Result<Vec<Arc<dyn Tool>>, ToolConfigError> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    if config.fetch.enabled {
        tools.push(Arc::new(Fetch::new(&config.fetch, http)));
    }
    if let Some(config) = &config.files {
        let files = files::tools(config);
        tools.extend(files.map_err(|why| ToolConfigError::new("files.root", why))?);
    }
    Ok(tools)
}
