//! Checks of `[tools]` that start nothing.

use std::collections::BTreeMap;

use reqwest::Client;

use super::http_client::HttpClients;
use super::http_tool::HttpTool;
use super::mcp::Server;
use super::toolbox::check_names;
use super::{McpEndpoint, Setting, ToolConfigError, ToolsConfig, builtin};

/// The errors for which [`super::Toolbox::start`] would refuse the config, at most one for each
/// tool and server.
pub fn check(config: &ToolsConfig) -> Vec<ToolConfigError> {
    let http = match client() {
        Ok(http) => http,
        Err(error) => return vec![ToolConfigError::new("http", error)],
    };
    let mut errors = Vec::new();
    let mut tools = builtin::tools(config, &http).unwrap_or_else(|error| {
        errors.push(error);
        Vec::new()
    });
    for (name, tool) in &config.http {
        match HttpTool::new(name, tool, &http) {
            Ok(tool) => tools.push(std::sync::Arc::new(tool)),
            Err(error) => errors.push(error),
        }
    }
    errors.extend(check_names(&tools, config).err());
    let servers = config.mcp.iter().map(|(name, server)| Server::new(name, server, &http));
    errors.extend(servers.filter_map(Result::err));
    errors
}

impl ToolsConfig {
    /// The same config without what differs between machines: environment variables and folders.
    pub fn without_environment(&self) -> Self {
        let mut config = self.clone();
        config.files = None;
        config.http.values_mut().for_each(|tool| blank(&mut tool.headers));
        for server in config.mcp.values_mut() {
            match &mut server.endpoint {
                McpEndpoint::Command { env, .. } => blank(env),
                McpEndpoint::Url { headers, .. } => blank(headers),
            }
        }
        config
    }
}

fn blank(settings: &mut BTreeMap<String, Setting>) {
    for setting in settings.values_mut() {
        if let Setting::Env(_) = setting {
            *setting = Setting::Literal("-".to_owned());
        }
    }
}

/// Makes no calls, so it needs no certificates, which take long to load.
fn client() -> Result<HttpClients, reqwest::Error> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().tls_certs_only([]).build()?;
    Ok(HttpClients { public: client.clone(), anywhere: client })
}
