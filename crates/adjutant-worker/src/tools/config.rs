//! The `[tools]` section of the config file.

use std::collections::BTreeMap;
use std::env::VarError;
use std::path::PathBuf;
use std::time::Duration;

use adjutant_agent::Replay;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::Limits;

/// The configured tools, besides `shared_context`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsConfig {
    /// Enables `read_file`, `list_files` and `search_files`.
    pub files: Option<FilesConfig>,
    pub fetch: FetchConfig,
    /// HTTP tools by name.
    pub http: BTreeMap<String, HttpToolConfig>,
    /// MCP servers by name. The name prefixes the names of tools that are not unique.
    pub mcp: BTreeMap<String, McpConfig>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesConfig {
    /// The folder that the tools can read. They cannot read anything outside of it.
    pub root: PathBuf,
    /// The most bytes that are read of a file.
    #[serde(default = "eight_mebibytes")]
    pub max_bytes: usize,
    /// The tenants whose tasks may use the tools; `None` is all of them.
    pub tenants: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FetchConfig {
    pub enabled: bool,
    /// The most bytes that are read of a page.
    pub max_bytes: usize,
    #[serde(rename = "timeout_s", deserialize_with = "seconds")]
    pub timeout: Duration,
    /// Lets models reach private networks and this machine.
    pub allow_private: bool,
    /// The tenants whose tasks may use it; `None` is all of them.
    pub tenants: Option<Vec<String>>,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            max_bytes: 2 << 20,
            timeout: Duration::from_secs(30),
            allow_private: false,
            tenants: None,
        }
    }
}

/// A tool that POSTs its arguments to a URL. The body of the response is the result.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpToolConfig {
    pub description: String,
    pub url: String,
    #[serde(default = "any_object")]
    pub input_schema: Value,
    #[serde(default)]
    pub replay: Replay,
    /// Allows a private address.
    #[serde(default)]
    pub allow_private: bool,
    #[serde(default)]
    pub headers: BTreeMap<String, Setting>,
    #[serde(rename = "timeout_s", default = "default_time", deserialize_with = "seconds")]
    pub timeout: Duration,
    /// The most bytes of a result.
    #[serde(default = "default_bytes")]
    pub max_bytes: usize,
    /// The tenants whose tasks may use it; `None` is all of them.
    pub tenants: Option<Vec<String>>,
}

/// An MCP server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "McpTable")]
pub struct McpConfig {
    pub endpoint: McpEndpoint,
    /// For all tools of the server. Default: the annotations of each tool.
    pub replay: Option<Replay>,
    pub timeout: Duration,
    /// Timeout of starting the server and of listing its tools.
    pub start_timeout: Duration,
    /// The most bytes of a result.
    pub max_bytes: usize,
    /// Only these tools of the server, by its own names.
    pub allow: Option<Vec<String>>,
    pub deny: Vec<String>,
    /// The tenants whose tasks may use its tools; `None` is all of them.
    pub tenants: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum McpEndpoint {
    Command {
        /// The program and its arguments.
        command: Vec<String>,
        /// Further variables. Of the worker's own environment the server gets only basic ones,
        /// without API keys.
        env: BTreeMap<String, Setting>,
        cwd: Option<PathBuf>,
    },
    Url {
        url: String,
        headers: BTreeMap<String, Setting>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct McpTable {
    command: Option<Vec<String>>,
    url: Option<String>,
    env: Option<BTreeMap<String, Setting>>,
    headers: Option<BTreeMap<String, Setting>>,
    cwd: Option<PathBuf>,
    replay: Option<Replay>,
    #[serde(rename = "timeout_s", default = "default_time", deserialize_with = "seconds")]
    timeout: Duration,
    #[serde(rename = "start_timeout_s", default = "default_time", deserialize_with = "seconds")]
    start_timeout: Duration,
    #[serde(default = "default_bytes")]
    max_bytes: usize,
    allow: Option<Vec<String>>,
    #[serde(default)]
    deny: Vec<String>,
    tenants: Option<Vec<String>>,
}

impl TryFrom<McpTable> for McpConfig {
    type Error = &'static str;

    fn try_from(table: McpTable) -> Result<Self, Self::Error> {
        let endpoint = match (table.command, table.url) {
            (Some(_), _) if table.headers.is_some() => {
                return Err("`headers` goes with `url`, not with `command`");
            }
            (Some(command), None) if command.first().is_some_and(|program| !program.is_empty()) => {
                McpEndpoint::Command { command, env: table.env.unwrap_or_default(), cwd: table.cwd }
            }
            (Some(_), None) => return Err("`command` must name a program"),
            (None, Some(_)) if table.env.is_some() || table.cwd.is_some() => {
                return Err("`env` and `cwd` go with `command`, not with `url`");
            }
            (None, Some(url)) => {
                McpEndpoint::Url { url, headers: table.headers.unwrap_or_default() }
            }
            (Some(_), Some(_)) | (None, None) => return Err("either `command` or `url` is needed"),
        };
        Ok(Self {
            endpoint,
            replay: table.replay,
            timeout: table.timeout,
            start_timeout: table.start_timeout,
            max_bytes: table.max_bytes,
            allow: table.allow,
            deny: table.deny,
            tenants: table.tenants,
        })
    }
}

/// A literal value, or `{ env = "NAME" }`, which keeps a secret out of the file.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a string or { env = \"NAME\" }")]
pub enum Setting {
    Literal(String),
    Env(FromEnv),
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromEnv {
    pub env: String,
}

impl Setting {
    pub(super) fn value(&self) -> Result<String, String> {
        match self {
            Self::Literal(text) => Ok(text.clone()),
            Self::Env(FromEnv { env }) => {
                // The message of `VarError` may contain the value.
                std::env::var(env).map_err(|error| match error {
                    VarError::NotPresent => format!("the environment variable {env} is not set"),
                    VarError::NotUnicode(_) => {
                        format!("the environment variable {env} is not UTF-8")
                    }
                })
            }
        }
    }
}

/// The value may be a secret.
impl std::fmt::Debug for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Literal(_) => f.write_str("Literal(..)"),
            Self::Env(from) => std::fmt::Debug::fmt(from, f),
        }
    }
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero() && *time <= Duration::from_secs(24 * 60 * 60))
        .ok_or_else(|| serde::de::Error::custom("seconds must be more than 0 and at most 86400"))
}

fn default_time() -> Duration {
    Limits::default().time
}

fn default_bytes() -> usize {
    Limits::default().bytes
}

fn eight_mebibytes() -> usize {
    8 << 20
}

fn any_object() -> Value {
    json!({ "type": "object" })
}
