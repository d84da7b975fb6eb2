//! MCP servers. Each is connected and listed, and reconnected after a failure, for as long as the
//! toolbox lives.

mod connection;
mod content;
mod http;
mod list_tools;
mod process_guard;
mod tool;

use std::sync::Arc;
use std::time::{Duration, Instant};

use adjutant_agent::Replay;
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use rmcp::model::{CallToolRequestParams, CallToolResponse, PaginatedRequestParams};
use rmcp::{Peer, RoleClient, ServiceError};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::http_client::HttpClients;
use super::registry::ToolRegistry;
use super::{FailureKindCell, McpConfig, Tool, ToolConfigError};
use connection::{Connection, Endpoint};
use tool::McpTool;

pub use list_tools::list_tools;

/// The longest pause before a reconnect. A connection that lasted longer resets the pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The most pages of a tool list that are read.
const MAX_PAGES: usize = 100;

/// A configured MCP server, connected or not.
pub(super) struct Server {
    name: String,
    config: McpConfig,
    endpoint: Endpoint,
    status: watch::Sender<Status>,
    /// The tool list may have changed or the connection may be broken: listing again shows which.
    list_again: Arc<Notify>,
}

#[derive(Clone)]
enum Status {
    Starting,
    Connected(Peer<RoleClient>),
    Disconnected,
}

impl Server {
    pub(super) fn new(
        name: &str,
        config: &McpConfig,
        http: &HttpClients,
    ) -> Result<Self, ToolConfigError> {
        let endpoint = Endpoint::new(name, &config.endpoint, http)?;
        Ok(Self {
            name: name.to_owned(),
            config: config.clone(),
            endpoint,
            status: watch::Sender::new(Status::Starting),
            list_again: Arc::default(),
        })
    }

    /// Keeps the server connected. Never returns.
    pub(super) async fn run(self: Arc<Self>, registry: Arc<ToolRegistry>) {
        let mut pauses = backoff();
        let mut last_reason = String::new();
        loop {
            let started = Instant::now();
            let why = match self.connect().await {
                Ok(connection) => self.serve(connection, &registry).await,
                Err(why) => why,
            };
            self.status.send_replace(Status::Disconnected);
            registry.set_server_down(&self.name, &why);
            if started.elapsed() > LONGEST_PAUSE {
                pauses = backoff();
            }
            let server = &self.name;
            if why == last_reason {
                tracing::debug!(
                    mcp.server = server,
                    "MCP server {server} still not connected: {why}"
                );
            } else {
                tracing::warn!(
                    mcp.server = server,
                    "MCP server {server} not connected, retrying: {why}"
                );
            }
            last_reason = why;
            tokio::time::sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
        }
    }

    async fn connect(&self) -> Result<Connection, String> {
        let connecting = self.endpoint.connect(&self.name, self.list_again.clone());
        match timeout(self.config.start_timeout, connecting).await {
            Ok(connection) => connection,
            Err(_) => Err(format!("it did not answer within {:?}", self.config.start_timeout)),
        }
    }

    /// Updates the tool list until the connection ends. Returns the reason.
    async fn serve(self: &Arc<Self>, connection: Connection, registry: &ToolRegistry) -> String {
        let peer = connection.peer();
        if let Err(why) = self.update_tools(&peer, registry).await {
            return why;
        }
        tracing::info!(mcp.server = self.name, "MCP server {} connected", self.name);
        registry.set_server_up(&self.name);
        self.status.send_replace(Status::Connected(peer.clone()));
        let closed = connection.closed();
        tokio::pin!(closed);
        loop {
            tokio::select! {
                why = &mut closed => return why,
                () = self.list_again.notified() => {
                    if let Err(why) = self.update_tools(&peer, registry).await {
                        return why;
                    }
                }
            }
        }
    }

    async fn update_tools(
        self: &Arc<Self>,
        peer: &Peer<RoleClient>,
        registry: &ToolRegistry,
    ) -> Result<(), String> {
        let tools = match timeout(self.config.start_timeout, list(peer)).await {
            Ok(tools) => tools.map_err(|error| format!("listing its tools failed: {error}"))?,
            Err(_) => {
                return Err(format!(
                    "listing its tools timed out after {:?}",
                    self.config.start_timeout
                ));
            }
        };
        let enabled = tools.into_iter().filter(|tool| self.is_enabled(&tool.name));
        let tools = enabled.map(|tool| Arc::new(McpTool::new(self.clone(), tool)) as Arc<dyn Tool>);
        registry.set_server_tools(&self.name, tools.collect());
        Ok(())
    }

    fn is_enabled(&self, tool: &str) -> bool {
        let is_in = |list: &[String]| list.iter().any(|name| name == tool);
        self.config.allow.as_deref().is_none_or(is_in) && !is_in(&self.config.deny)
    }

    /// Resolves when the server is connected or has failed once.
    pub(super) async fn settled(&self) {
        let is_settled = |status: &Status| !matches!(status, Status::Starting);
        // This fails only when the sender, which `self` owns, is dropped.
        let _ = self.status.subscribe().wait_for(is_settled).await;
    }

    /// Calls the server when it is connected. If the connection breaks during the call, a call that
    /// may be repeated is repeated once.
    async fn call(
        &self,
        params: CallToolRequestParams,
        replay: Replay,
        kind: &FailureKindCell,
    ) -> Result<String, String> {
        let mut attempts = match replay {
            Replay::Safe => 2,
            Replay::Unsafe => 1,
        };
        loop {
            // Returns this error before the timeout of the call itself.
            let Ok(peer) = timeout(self.config.timeout.mul_f64(0.9), self.peer()).await else {
                kind.set("unreachable");
                return Err(
                    "The MCP server of the tool is not running; it is being restarted.".to_owned()
                );
            };
            attempts -= 1;
            match peer.call_tool_once(params.clone()).await {
                Ok(CallToolResponse::Complete(result)) => return content::text(result),
                Ok(_) => {
                    return Err("The tool asked for user input, which is not available.".to_owned());
                }
                Err(ServiceError::McpError(error)) => {
                    kind.set("mcp_error");
                    return Err(format!(
                        "The MCP server of the tool returned an error: {} ({})",
                        error.message, error.code.0
                    ));
                }
                Err(_) if attempts > 0 => self.list_again.notify_one(),
                Err(_) => {
                    kind.set("unreachable");
                    self.list_again.notify_one();
                    let unknown = match replay {
                        Replay::Safe => "",
                        Replay::Unsafe => " Whether the call had an effect is not known.",
                    };
                    return Err(format!(
                        "The MCP server of the tool disconnected during the call.{unknown}"
                    ));
                }
            }
        }
    }

    async fn peer(&self) -> Peer<RoleClient> {
        let mut status = self.status.subscribe();
        loop {
            match status.borrow_and_update().clone() {
                // The connection may be closed, and `run` has not noticed yet.
                Status::Connected(peer) if !peer.is_transport_closed() => return peer,
                Status::Connected(_) | Status::Starting | Status::Disconnected => {}
            }
            // This fails only when the sender, which `self` owns, is dropped.
            let _ = status.changed().await;
        }
    }
}

async fn list(peer: &Peer<RoleClient>) -> Result<Vec<rmcp::model::Tool>, ServiceError> {
    let mut tools = Vec::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let page =
            peer.list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor))).await?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(tools)
}

/// The first retry is almost immediate, since most restarts succeed.
fn backoff() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(100))
        .with_max_delay(LONGEST_PAUSE)
        .with_jitter()
        .without_max_times()
        .build()
}
