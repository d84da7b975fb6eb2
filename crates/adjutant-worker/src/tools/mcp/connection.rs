//! Connections to MCP servers: child processes and HTTP.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use adjutant_agent::NetworkPolicy;
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

use super::process_guard::ProcessGuard;
use crate::payloads;
use crate::tools::http_client::HttpClients;
use crate::tools::http_tool::headers;
use crate::tools::{McpEndpoint, ToolConfigError};

/// The environment variables that servers inherit. The others may contain keys.
const INHERITED: [&str; 10] =
    ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// The longest part of a line of standard error that is logged at once.
const MAX_LINE: usize = 2000;

/// How to reach a server, with the environment variables of the config resolved.
pub(super) enum Endpoint {
    Command {
        program: String,
        arguments: Vec<String>,
        env: Vec<(String, String)>,
        cwd: Option<PathBuf>,
    },
    Url {
        url: Url,
        headers: HeaderMap,
        client: reqwest::Client,
    },
}

impl Endpoint {
    pub(super) fn new(
        server: &str,
        endpoint: &McpEndpoint,
        http: &HttpClients,
    ) -> Result<Self, ToolConfigError> {
        let bad = |setting: &str, why: String| {
            ToolConfigError::new(format!("mcp.{server}.{setting}"), why)
        };
        match endpoint {
            McpEndpoint::Command { command, env, cwd } => {
                let Some((program, arguments)) = command.split_first() else {
                    return Err(bad("command", "must name a program".to_owned()));
                };
                let value =
                    |(name, setting): (&String, &crate::tools::Setting)| match setting.value() {
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
                // The URL comes from the operator, not from a model.
                NetworkPolicy::Anywhere.check(&url).map_err(|why| bad("url", why))?;
                let headers = headers(settings)
                    .map_err(|(header, why)| bad(&format!("headers.{header}"), why))?;
                Ok(Self::Url { url, headers, client: http.client(NetworkPolicy::Anywhere).clone() })
            }
        }
    }

    pub(super) async fn connect(
        &self,
        server: &str,
        list_again: Arc<Notify>,
    ) -> Result<Connection, String> {
        let listener = Listener { list_again };
        match self {
            Self::Command { program, arguments, env, cwd } => {
                let mut command = Command::new(program);
                let inherited =
                    INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
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
                // A process group of its own: its children end with it, and Ctrl-C in the terminal
                // does not end the server while the worker drains.
                command.wrap(ProcessGroup::leader());
                let spawned = TokioChildProcess::builder(command).stderr(Stdio::piped()).spawn();
                let (process, stderr) =
                    spawned.map_err(|error| format!("starting {program} failed: {error}"))?;
                let guard = process
                    .id()
                    .map(ProcessGuard::new)
                    .transpose()
                    .map_err(|error| error.to_string())?;
                let has_started = Arc::new(AtomicBool::new(false));
                if let Some(stderr) = stderr {
                    tokio::spawn(log_lines(server.to_owned(), stderr, has_started.clone()));
                }
                let running = listener.serve(process).await.map_err(|error| error.to_string())?;
                has_started.store(true, Ordering::Relaxed);
                Ok(Connection { running, _guard: guard })
            }
            Self::Url { url, headers, client } => {
                let headers: HashMap<_, _> =
                    headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .custom_headers(headers);
                let transport = StreamableHttpClientTransport::with_client(
                    super::http::Http(client.clone()),
                    config,
                );
                let running = listener
                    .serve(transport)
                    .await
                    .map_err(|error| without(url, &error.to_string()))?;
                Ok(Connection { running, _guard: None })
            }
        }
    }
}

/// The URL may contain a key.
fn without(url: &Url, text: &str) -> String {
    text.replace(url.as_str(), "its URL")
}

/// An initialized connection. Dropping it ends the server: the stdin of a child process is closed
/// first.
pub(super) struct Connection {
    running: RunningService<RoleClient, Listener>,
    _guard: Option<ProcessGuard>,
}

impl Connection {
    pub(super) fn peer(&self) -> Peer<RoleClient> {
        self.running.peer().clone()
    }

    pub(super) async fn closed(self) -> String {
        match self.running.waiting().await {
            Ok(_) => "the connection ended".to_owned(),
            Err(error) => error.to_string(),
        }
    }
}

/// Handles notifications of the server.
struct Listener {
    list_again: Arc<Notify>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let client = Implementation::new("adjutant", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), client)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_again.notify_one();
    }
}

/// Logs the standard error of a server in pieces of bounded length, and reads it to the end, so
/// that the pipe never fills up. Lines after the start may quote arguments of calls, so they are
/// payload.
async fn log_lines(
    server: String,
    mut stderr: impl AsyncRead + Unpin,
    has_started: Arc<AtomicBool>,
) {
    let log = |line: &[u8]| {
        let line = String::from_utf8_lossy(&line[..line.len().min(MAX_LINE)]);
        let line = line.trim_end();
        if line.is_empty() {
        } else if has_started.load(Ordering::Relaxed) {
            payloads::log_mcp_stderr(&server, line);
        } else {
            tracing::debug!(mcp.server = server, "{server}: {line}");
        }
    };
    let mut buffer = Vec::new();
    while stderr.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) {
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            log(&buffer[..end]);
            buffer.drain(..=end);
        }
        if buffer.len() > MAX_LINE {
            log(&buffer);
            buffer.clear();
        }
    }
    log(&buffer);
}
