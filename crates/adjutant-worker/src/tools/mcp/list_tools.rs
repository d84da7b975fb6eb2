use tokio::time::timeout;

use super::{McpConfig, Server, list};
use crate::tools::http_client::HttpClients;

/// Starts or reaches an MCP server, lists the tools that the config allows, by the server's own
/// names, and disconnects. The error says why it did not answer in its `start_timeout_s`.
pub async fn list_tools(name: &str, config: &McpConfig) -> Result<Vec<String>, String> {
    let http = HttpClients::new().map_err(|error| error.to_string())?;
    let server = Server::new(name, config, &http).map_err(|error| error.why)?;
    let connection = server.connect().await?;
    let listing = timeout(config.start_timeout, async { list(&connection.peer()).await });
    let tools = listing
        .await
        .map_err(|_| format!("listing its tools timed out after {:?}", config.start_timeout))?
        .map_err(|error| format!("listing its tools failed: {error}"))?;
    let names = tools.into_iter().map(|tool| tool.name.into_owned());
    Ok(names.filter(|tool| server.is_enabled(tool)).collect())
}
