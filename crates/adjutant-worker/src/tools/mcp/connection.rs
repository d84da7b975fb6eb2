//! How a server is reached: as a child process, or over HTTP.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use adjutant_agent::Reach;
use process_wrap::tokio::{CommandWrap, ProcessGroup};
use reqwest::Url;
use reqwest::header::HeaderMap;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation};
use rmcp::service::{NotificationContext, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, Peer, RoleClient, ServiceExt};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::sync::Notify;

use super::hold::Hold;
use crate::payloads;
use crate::tools::http::headers;
use crate::tools::web::Web;
use crate::tools::{BadTool, McpEndpoint};

/// What every program may know of our environment. The rest has our keys in it.
const INHERITED: [&str; 10] =
    ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// The longest line of a server's standard error that is logged as one.
const LONGEST_LINE: usize = 2000;

/// Where a server is, with everything that was asked for looked up.
pub(super) enum Endpoint {
    Command { program: String, arguments: Vec<String>, env: Vec<(String, String)>, cwd: Option<PathBuf> },
    Url { url: Url, headers: HeaderMap, client: reqwest::Client },
}

impl Endpoint {
    pub(super) fn new(server: &str, endpoint: &McpEndpoint, web: &Web) -> Result<Self, BadTool> {
        let bad = |setting: &str, why: String| BadTool::new(format!("mcp.{server}.{setting}"), why);
        match endpoint {
            McpEndpoint::Command { command, env, cwd } => {
                let Some((program, arguments)) = command.split_first() else {
                    return Err(bad("command", "it names no program".to_owned()));
                };
                let value = |(name, setting): (&String, &crate::tools::Setting)| match setting.value() {
                    Ok(value) => Ok((name.clone(), value)),
                    Err(why) => Err(bad(&format!("env.{name}"), why)),
                };
                Ok(Self::Command {
                    program: program.clone(),
                    arguments: arguments.to_vec(),
                    env: env.iter().map(value).collect::<Result<_, _>>()?,
                    cwd: cwd.clone(),
                })
            }
            McpEndpoint::Url { url, headers: settings } => {
                let url = Url::parse(url).map_err(|error| bad("url", error.to_string()))?;
                // It is the operator's, not a model's.
                Reach::Anywhere.check(&url).map_err(|why| bad("url", why))?;
                let headers =
                    headers(settings).map_err(|(header, why)| bad(&format!("headers.{header}"), why))?;
                Ok(Self::Url { url, headers, client: web.client(Reach::Anywhere).clone() })
            }
        }
    }

    pub(super) async fn connect(&self, server: &str, list_again: Arc<Notify>) -> Result<Connection, String> {
        let listener = Listener { list_again };
        match self {
            Self::Command { program, arguments, env, cwd } => {
                let mut command = Command::new(program);
                let inherited = INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
                command
                    .args(arguments)
                    .env_clear()
                    .envs(inherited)
                    .envs(env.iter().cloned())
                    .kill_on_drop(true);
                if let Some(cwd) = cwd {
                    command.current_dir(cwd);
                }
                let mut command = CommandWrap::from(command);
                // What it starts ends with it, and Ctrl-C in the terminal is for us: we may still need it.
                command.wrap(ProcessGroup::leader());
                let spawned = TokioChildProcess::builder(command).stderr(Stdio::piped()).spawn();
                let (process, stderr) =
                    spawned.map_err(|error| format!("{program} does not start: {error}"))?;
                let hold = process.id().map(Hold::on).transpose().map_err(|error| error.to_string())?;
                let has_begun = Arc::new(AtomicBool::new(false));
                if let Some(stderr) = stderr {
                    tokio::spawn(log_lines(server.to_owned(), stderr, has_begun.clone()));
                }
                let running = listener.serve(process).await.map_err(|error| error.to_string())?;
                has_begun.store(true, Ordering::Relaxed);
                Ok(Connection { running, _hold: hold })
            }
            Self::Url { url, headers, client } => {
                let headers: HashMap<_, _> =
                    headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                let config =
                    StreamableHttpClientTransportConfig::with_uri(url.as_str()).custom_headers(headers);
                let transport =
                    StreamableHttpClientTransport::with_client(super::http::Http(client.clone()), config);
                let running =
                    listener.serve(transport).await.map_err(|error| without(url, &error.to_string()))?;
                Ok(Connection { running, _hold: None })
            }
        }
    }
}

/// A URL may have a key in it.
fn without(url: &Url, text: &str) -> String {
    text.replace(url.as_str(), "its URL")
}

/// A server that has answered. Dropped, it ends: a child's input is closed first.
pub(super) struct Connection {
    running: RunningService<RoleClient, Listener>,
    _hold: Option<Hold>,
}

impl Connection {
    pub(super) fn peer(&self) -> Peer<RoleClient> {
        self.running.peer().clone()
    }

    pub(super) async fn gone(self) -> String {
        match self.running.waiting().await {
            Ok(_) => "the connection ended".to_owned(),
            Err(error) => error.to_string(),
        }
    }
}

/// Hears what servers say unasked.
struct Listener {
    list_again: Arc<Notify>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("adjutant", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_again.notify_one();
    }
}

/// In pieces of bounded length, whatever the server writes, and until its end: nobody may be kept waiting by a full pipe.
/// Once it has begun, its lines may have what it is called with in them, and are payload.
async fn log_lines(server: String, mut stderr: impl AsyncRead + Unpin, has_begun: Arc<AtomicBool>) {
    let log = |line: &[u8]| {
        if !has_begun.load(Ordering::Relaxed) || payloads::are_logged() {
            log_line(&server, line);
        }
    };
    let mut buffer = Vec::new();
    while stderr.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) {
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            log(&buffer[..end]);
            buffer.drain(..=end);
        }
        if buffer.len() > LONGEST_LINE {
            log(&buffer);
            buffer.clear();
        }
    }
    log(&buffer);
}

fn log_line(server: &str, line: &[u8]) {
    let line = String::from_utf8_lossy(&line[..line.len().min(LONGEST_LINE)]);
    if !line.trim().is_empty() {
        tracing::debug!(mcp.server = server, "{server}: {}", line.trim_end());
    }
}
