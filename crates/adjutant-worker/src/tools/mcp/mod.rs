//! MCP servers: each is connected to, listened to, and connected to again when it is gone, for as long as the toolbox lives.

mod connection;
mod content;
mod hold;
mod http;
mod tool;

use std::sync::Arc;
use std::time::{Duration, Instant};

use adjutant_agent::Replay;
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use rmcp::model::{CallToolRequestParams, CallToolResponse, PaginatedRequestParams};
use rmcp::{Peer, RoleClient, ServiceError};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::catalogue::Shelf;
use super::web::Web;
use super::{BadTool, McpConfig, Tool};
use connection::{Connection, Endpoint};
use tool::McpTool;

/// A server that lasted this long is not failing at its start.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// More than this is not a list of tools.
const MAX_PAGES: usize = 100;

/// A configured MCP server, up or down.
pub(super) struct Server {
    name: String,
    config: McpConfig,
    endpoint: Endpoint,
    link: watch::Sender<Link>,
    /// Its list may have changed, or it may be gone: listing shows which.
    list_again: Arc<Notify>,
}

#[derive(Clone)]
enum Link {
    Starting,
    Up(Peer<RoleClient>),
    Down,
}

impl Server {
    pub(super) fn new(name: &str, config: &McpConfig, web: &Web) -> Result<Self, BadTool> {
        let endpoint = Endpoint::new(name, &config.endpoint, web)?;
        Ok(Self {
            name: name.to_owned(),
            config: config.clone(),
            endpoint,
            link: watch::Sender::new(Link::Starting),
            list_again: Arc::default(),
        })
    }

    /// Never ends by itself.
    pub(super) async fn keep(self: Arc<Self>, shelf: Arc<Shelf>) {
        let mut pauses = backoff();
        let mut last_why = String::new();
        loop {
            let began = Instant::now();
            let why = match self.connect().await {
                Ok(connection) => self.stay(connection, &shelf).await,
                Err(why) => why,
            };
            self.link.send_replace(Link::Down);
            if began.elapsed() > LONGEST_PAUSE {
                pauses = backoff();
            }
            let server = &self.name;
            if why == last_why {
                tracing::debug!(mcp.server = server, "MCP server {server} is still not there: {why}");
            } else {
                tracing::warn!(mcp.server = server, "MCP server {server} is not there, trying again: {why}");
            }
            last_why = why;
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

    /// Until it is gone. Returns why.
    async fn stay(self: &Arc<Self>, connection: Connection, shelf: &Shelf) -> String {
        let peer = connection.peer();
        if let Err(why) = self.list(&peer, shelf).await {
            return why;
        }
        tracing::info!(mcp.server = self.name, "MCP server {} is there", self.name);
        self.link.send_replace(Link::Up(peer.clone()));
        let gone = connection.gone();
        tokio::pin!(gone);
        loop {
            tokio::select! {
                why = &mut gone => return why,
                () = self.list_again.notified() => {
                    if let Err(why) = self.list(&peer, shelf).await {
                        return why;
                    }
                }
            }
        }
    }

    async fn list(self: &Arc<Self>, peer: &Peer<RoleClient>, shelf: &Shelf) -> Result<(), String> {
        let tools = match timeout(self.config.start_timeout, list(peer)).await {
            Ok(tools) => tools.map_err(|error| format!("it does not list its tools: {error}"))?,
            Err(_) => {
                return Err(format!("it did not list its tools within {:?}", self.config.start_timeout));
            }
        };
        let wanted = tools.into_iter().filter(|tool| self.is_wanted(&tool.name));
        let tools = wanted.map(|tool| Arc::new(McpTool::new(self.clone(), tool)) as Arc<dyn Tool>);
        shelf.put(&self.name, tools.collect());
        Ok(())
    }

    fn is_wanted(&self, tool: &str) -> bool {
        let is_in = |list: &[String]| list.iter().any(|name| name == tool);
        self.config.allow.as_deref().is_none_or(is_in) && !is_in(&self.config.deny)
    }

    pub(super) async fn settled(&self) {
        let is_settled = |link: &Link| !matches!(link, Link::Starting);
        // It fails when the sender is gone, and that is ours.
        let _ = self.link.subscribe().wait_for(is_settled).await;
    }

    /// Calls the server when it is there. If it goes during the call, a call that may be repeated is, once.
    async fn call(&self, params: CallToolRequestParams, replay: Replay) -> Result<String, String> {
        let mut tries = match replay {
            Replay::Safe => 2,
            Replay::Unsafe => 1,
        };
        loop {
            // Something is left to say so, before the call's own time is up.
            let Ok(peer) = timeout(self.config.timeout.mul_f64(0.9), self.peer()).await else {
                return Err("The tool's server is not running; it will be started again.".to_owned());
            };
            tries -= 1;
            match peer.call_tool_once(params.clone()).await {
                Ok(CallToolResponse::Complete(result)) => return content::text(result),
                Ok(_) => {
                    return Err("The tool wants a dialogue, and there is nobody to have it with.".to_owned());
                }
                Err(ServiceError::McpError(error)) => {
                    return Err(format!("The tool's server refused: {} ({})", error.message, error.code.0));
                }
                Err(_) if tries > 0 => self.list_again.notify_one(),
                Err(_) => {
                    self.list_again.notify_one();
                    let unknown = match replay {
                        Replay::Safe => "",
                        Replay::Unsafe => " Whether the call had an effect is not known.",
                    };
                    return Err(format!("The tool's server went away during the call.{unknown}"));
                }
            }
        }
    }

    async fn peer(&self) -> Peer<RoleClient> {
        let mut link = self.link.subscribe();
        loop {
            match link.borrow_and_update().clone() {
                // It may be gone without anyone having noticed yet.
                Link::Up(peer) if !peer.is_transport_closed() => return peer,
                Link::Up(_) | Link::Starting | Link::Down => {}
            }
            // It fails when the sender is gone, and that is ours.
            let _ = link.changed().await;
        }
    }
}

async fn list(peer: &Peer<RoleClient>) -> Result<Vec<rmcp::model::Tool>, ServiceError> {
    let mut tools = Vec::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let page = peer.list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor))).await?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(tools)
}

/// The first time at once, since most restarts succeed.
fn backoff() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(100))
        .with_max_delay(LONGEST_PAUSE)
        .with_jitter()
        .without_max_times()
        .build()
}
