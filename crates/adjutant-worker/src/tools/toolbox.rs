use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{Replay, ToolDefinition, shared_context_tool};
use futures::FutureExt;
use futures::future::join_all;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::catalogue::Shelf;
use super::fetch::Fetch;
use super::http::HttpTool;
use super::mcp::Server;
use super::web::Web;
use super::{Catalogue, Tool, ToolCall, ToolsConfig, files, names};

/// Every tool that this process has. Dropped, it ends the MCP servers that it started.
pub struct Toolbox {
    shelf: Arc<Shelf>,
    servers: Vec<Arc<Server>>,
    _keeping: Vec<AbortOnDropHandle<()>>,
}

/// A setting that no tool can be made of.
#[derive(Debug, thiserror::Error)]
#[error("tools.{setting}: {why}")]
pub struct BadTool {
    pub setting: String,
    pub why: String,
}

impl BadTool {
    pub(super) fn new(setting: impl Into<String>, why: impl ToString) -> Self {
        Self { setting: setting.into(), why: why.to_string() }
    }
}

impl Toolbox {
    /// Makes the tools of the config, adds those of the embedding program, and begins to connect to MCP servers: it waits for
    /// none of them, and their tools are there when they are.
    pub fn start(config: &ToolsConfig, own: Vec<Arc<dyn Tool>>) -> Result<Self, BadTool> {
        let web = Web::new().map_err(|error| BadTool::new("http", error))?;
        let mut fixed = own;
        if config.fetch.enabled {
            fixed.push(Arc::new(Fetch::new(&config.fetch, &web)));
        }
        if let Some(config) = &config.files {
            fixed.extend(files::tools(config).map_err(|why| BadTool::new("files.root", why))?);
        }
        for (name, config) in &config.http {
            fixed.push(Arc::new(HttpTool::new(name, config, &web)?));
        }
        check_names(&fixed)?;
        let servers: Vec<_> = config
            .mcp
            .iter()
            .map(|(name, config)| Server::new(name, config, &web).map(Arc::new))
            .collect::<Result<_, _>>()?;
        let shelf = Arc::new(Shelf::new(fixed));
        let keep =
            |server: &Arc<Server>| AbortOnDropHandle::new(tokio::spawn(server.clone().keep(shelf.clone())));
        Ok(Self { _keeping: servers.iter().map(keep).collect(), shelf, servers })
    }

    /// Resolves when every MCP server has been reached, or has failed for the first time, or when the time is up: tasks
    /// that begin before this may miss tools.
    pub async fn settled(&self, patience: Duration) {
        let all = join_all(self.servers.iter().map(|server| server.settled()));
        let _ = timeout(patience, all).await;
    }

    /// Resolves when all of these names stand for something, or when no server is left that has yet to be reached or to fail.
    pub async fn ready_for<'n>(&self, names: impl IntoIterator<Item = &'n str>) {
        let names: Vec<&str> = names.into_iter().collect();
        let mut catalogue = self.shelf.watch();
        let are_there = catalogue.wait_for(|tools| names.iter().all(|name| tools.definition(name).is_some()));
        tokio::select! {
            _ = are_there => {}
            _ = join_all(self.servers.iter().map(|server| server.settled())) => {}
        }
    }

    /// What these names stand for; those that stand for nothing are left out.
    pub fn definitions<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Vec<ToolDefinition> {
        let catalogue = self.shelf.now();
        names.into_iter().filter_map(|name| catalogue.definition(name)).collect()
    }

    /// Whether a call of this tool may be made again; none if there is no such tool.
    pub fn replay(&self, name: &str) -> Option<Replay> {
        self.shelf.now().definition(name).map(|definition| definition.replay)
    }

    /// What a worker with these tools offers: they, and the one that it has anyway.
    pub fn catalogue(&self) -> Vec<ToolDefinition> {
        let mut tools = self.definitions_all();
        tools.push(shared_context_tool());
        tools
    }

    pub fn definitions_all(&self) -> Vec<ToolDefinition> {
        self.shelf.now().definitions().cloned().collect()
    }

    /// Sees every change of the catalogue.
    pub fn watch(&self) -> watch::Receiver<Arc<Catalogue>> {
        self.shelf.watch()
    }

    /// Always comes back, with a text of bounded length: what the child reads, as a result or as an error.
    pub async fn call(&self, name: &str, call: ToolCall<'_>) -> Result<String, String> {
        let Some(tool) = self.shelf.now().tool(name) else {
            return Err("There is no tool of this name.".to_owned());
        };
        if !call.arguments.is_object() {
            return Err("The arguments of a tool are a JSON object.".to_owned());
        }
        let limits = tool.limits();
        // In a block of its own, so that a panic before the first `.await` is caught too.
        let answer = AssertUnwindSafe(async { tool.call(call).await }).catch_unwind();
        let answer = match timeout(limits.time, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                tracing::error!(task.id = %call.task, tool.name = name, "tool {name} panicked");
                Err(format!("The tool broke down.{}", unknown(tool.as_ref())))
            }
            Err(_) => {
                let seconds = limits.time.as_secs_f64();
                Err(format!("The tool did not answer within {seconds} s.{}", unknown(tool.as_ref())))
            }
        };
        match answer {
            Ok(text) => Ok(limits.cut(text)),
            Err(text) => Err(limits.cut(text)),
        }
    }
}

/// What to say about a call that may have had an effect.
pub(super) fn unknown(tool: &dyn Tool) -> &'static str {
    match tool.definition().replay {
        Replay::Safe => "",
        Replay::Unsafe => " Whether it had an effect is not known.",
    }
}

fn check_names(tools: &[Arc<dyn Tool>]) -> Result<(), BadTool> {
    let mut taken = std::collections::HashSet::new();
    for tool in tools {
        let name = &tool.definition().name;
        let why = if !names::is_valid(name) {
            "a tool's name has 1 to 64 letters, digits, `_` and `-`"
        } else if names::is_reserved(name) {
            "this name is Adjutant's own"
        } else if !taken.insert(name) {
            "another tool has this name"
        } else {
            continue;
        };
        return Err(BadTool::new(name, why));
    }
    Ok(())
}
