use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{Replay, SHARED_CONTEXT, TextLimits, ToolDefinition, shared_context_tool};
use adjutant_dialects::Dialect;
use adjutant_store::{Abilities, PublishedTool};
use futures::FutureExt;
use futures::future::join_all;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::http_client::HttpClients;
use super::http_tool::HttpTool;
use super::mcp::Server;
use super::registry::ToolRegistry;
use super::{Catalogue, Tool, ToolCall, ToolsConfig, builtin, names};

/// All tools of this process. Dropping it ends the MCP servers that it started.
pub struct Toolbox {
    registry: Arc<ToolRegistry>,
    servers: Vec<Arc<Server>>,
    _connections: Vec<AbortOnDropHandle<()>>,
}

/// An invalid setting of a tool.
#[derive(Debug, thiserror::Error)]
#[error("tools.{setting}: {why}")]
pub struct ToolConfigError {
    pub setting: String,
    pub why: String,
}

impl ToolConfigError {
    pub(super) fn new(setting: impl Into<String>, why: impl ToString) -> Self {
        Self { setting: setting.into(), why: why.to_string() }
    }
}

impl Toolbox {
    /// Creates the tools of the config, adds those of the embedding program, and starts to connect
    /// to the MCP servers. It does not wait for them: their tools appear when they are connected.
    pub fn start(config: &ToolsConfig, own: Vec<Arc<dyn Tool>>) -> Result<Self, ToolConfigError> {
        let http = HttpClients::new().map_err(|error| ToolConfigError::new("http", error))?;
        let mut fixed = own;
        fixed.extend(builtin::tools(config, &http)?);
        for (name, config) in &config.http {
            fixed.push(Arc::new(HttpTool::new(name, config, &http)?));
        }
        check_names(&fixed, config)?;
        let servers: Vec<_> = config
            .mcp
            .iter()
            .map(|(name, config)| Server::new(name, config, &http).map(Arc::new))
            .collect::<Result<_, _>>()?;
        let registry = Arc::new(ToolRegistry::new(fixed, config.mcp.keys()));
        let connect = |server: &Arc<Server>| {
            AbortOnDropHandle::new(tokio::spawn(server.clone().run(registry.clone())))
        };
        Ok(Self { _connections: servers.iter().map(connect).collect(), registry, servers })
    }

    /// Resolves when every MCP server is connected or has failed once, or after `at_most`. Tasks
    /// that start before may miss tools.
    pub async fn settled(&self, at_most: Duration) {
        let all = join_all(self.servers.iter().map(|server| server.settled()));
        let _ = timeout(at_most, all).await;
    }

    /// Resolves when all of these tools exist, or when every MCP server is connected or has failed.
    pub async fn ready_for<'n>(&self, names: impl IntoIterator<Item = &'n str>) {
        let names: Vec<&str> = names.into_iter().collect();
        let mut catalogue = self.registry.watch();
        let all_exist =
            catalogue.wait_for(|tools| names.iter().all(|name| tools.definition(name).is_some()));
        tokio::select! {
            _ = all_exist => {}
            _ = join_all(self.servers.iter().map(|server| server.settled())) => {}
        }
    }

    /// The definitions of these tools for a task of this tenant, without those that do not exist.
    pub fn definitions<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
        tenant: Option<&str>,
    ) -> Vec<ToolDefinition> {
        let catalogue = self.registry.current();
        let is_usable =
            |name: &&str| catalogue.tool(name).is_some_and(|tool| is_for(tool.tenants(), tenant));
        names.into_iter().filter(is_usable).filter_map(|name| catalogue.definition(name)).collect()
    }

    /// Whether some tool is only for some tenants, so that calls have to say theirs.
    pub fn is_limited(&self) -> bool {
        self.registry.current().is_limited()
    }

    /// Whether a call of this tool may be repeated. `None` if there is no such tool.
    pub fn replay(&self, name: &str) -> Option<Replay> {
        self.registry.current().definition(name).map(|definition| definition.replay)
    }

    /// All tools that a worker offers to agents, with `shared_context`.
    pub fn catalogue(&self, limits: &TextLimits) -> Vec<PublishedTool> {
        let mut tools: Vec<PublishedTool> = self.registry.current().published().collect();
        tools.push(shared_context_tool(limits).into());
        tools
    }

    pub fn all_definitions(&self) -> Vec<ToolDefinition> {
        self.registry.current().definitions().cloned().collect()
    }

    /// What a worker with these tools and models can run. The tools of Adjutant itself are there,
    /// too.
    pub(crate) fn abilities(&self, models: Vec<String>) -> Abilities {
        let (mut tools, servers_down) = self.registry.state();
        let own = Dialect::ALL.iter().flat_map(|dialect| dialect.delegation_tools());
        tools.extend(own.chain([&SHARED_CONTEXT]).map(|name| (*name).to_owned()));
        Abilities { models: Some(models), tools: Some(tools.into_iter().collect()), servers_down }
    }

    /// Resolves when a tool or a server has changed and `is_wanted` holds, at once if it does now.
    pub(crate) async fn changed_until(&self, is_wanted: impl Fn() -> bool) {
        self.registry.changed_until(is_wanted).await;
    }

    /// Receives every change of the catalogue.
    pub fn watch(&self) -> watch::Receiver<Arc<Catalogue>> {
        self.registry.watch()
    }

    /// Runs a tool within its limits. The agent gets the text as a result or as an error.
    pub async fn call(&self, name: &str, call: ToolCall<'_>) -> Result<String, String> {
        let tool = self.registry.current().tool(name);
        let Some(tool) = tool.filter(|tool| is_for(tool.tenants(), call.tenant)) else {
            call.kind.set("unknown_tool");
            return Err("There is no tool of this name.".to_owned());
        };
        if !call.arguments.is_object() {
            call.kind.set("invalid_arguments");
            return Err("The arguments of a tool must be a JSON object.".to_owned());
        }
        let limits = tool.limits();
        // An async block, so that a panic before the first `.await` is caught too.
        let answer = AssertUnwindSafe(async { tool.call(call).await }).catch_unwind();
        let answer = match timeout(limits.time, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                tracing::error!(task.id = %call.task, tool.name = name, "tool {name} panicked");
                call.kind.set("panic");
                Err(format!("The tool panicked.{}", effect_unknown(tool.as_ref())))
            }
            Err(_) => {
                call.kind.set("timeout");
                let seconds = limits.time.as_secs_f64();
                Err(format!(
                    "The tool did not answer within {seconds} s.{}",
                    effect_unknown(tool.as_ref())
                ))
            }
        };
        match answer {
            Ok(text) => Ok(limits.truncate(text)),
            Err(text) => Err(limits.truncate(text)),
        }
    }
}

/// Whether a tool or a model with these tenants is for a task of this one.
pub(crate) fn is_for(tenants: Option<&[String]>, tenant: Option<&str>) -> bool {
    tenants.is_none_or(|tenants| tenants.iter().any(|known| Some(known.as_str()) == tenant))
}

/// The note on a failed call of a tool that may have had an effect.
pub(super) fn effect_unknown(tool: &dyn Tool) -> &'static str {
    match tool.definition().replay {
        Replay::Safe => "",
        Replay::Unsafe => " Whether it had an effect is not known.",
    }
}

pub(super) fn check_names(
    tools: &[Arc<dyn Tool>],
    config: &ToolsConfig,
) -> Result<(), ToolConfigError> {
    for name in config.http.keys() {
        names::check_http_tool_name(name)
            .map_err(|why| ToolConfigError::new(format!("http.{name}"), why))?;
    }
    let mut taken = HashSet::new();
    for tool in tools {
        let name = &tool.definition().name;
        names::check_name(name).map_err(|why| ToolConfigError::new(name, why))?;
        if !taken.insert(name) {
            return Err(ToolConfigError::new(name, "another tool has this name"));
        }
    }
    Ok(())
}
