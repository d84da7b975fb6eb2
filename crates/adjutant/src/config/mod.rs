//! The config: `adjutant.toml`, the environment over it, and the agents in the folders that it names.
//!
//! Reading is IO (`files`), everything else is pure: a file becomes a tree that knows its lines (`tree`), the environment is
//! laid over it (`environment`), names and values are checked (`check`, by the list in `schema`), and what is left is
//! understood (`understand`, `agents`). All that is wrong is found at once.

pub mod agents;
mod check;
mod dialects;
mod ecs;
mod environment;
mod files;
mod free_form;
mod front_matter;
pub mod known;
mod load;
mod nearest;
mod problem;
mod schema;
mod server;
pub mod skills;
mod tree;
mod understand;
pub mod watch;
mod webhooks;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use adjutant_agent::{AgentDefinition, DEFAULT_MAX_DEPTH};
use adjutant_server::Dialects;
use adjutant_store::Operator;
use adjutant_worker::WebhookSettings;
use adjutant_worker::model::ModelConfig;
use adjutant_worker::tools::ToolsConfig;

pub use load::{EXAMPLE, Loaded};
pub use problem::{Place, Problem, Refused};

use agents::{Agents, Known};
use known::{ModelNames, ToolNames};
use skills::Skills;
use tree::Table;

/// Everything that the operator decides, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file that was read, if one was.
    pub path: Option<PathBuf>,
    pub models: BTreeMap<String, ModelConfig>,
    /// Which of them a name means.
    pub model_names: ModelNames,
    pub agents: Agents,
    pub skills: Skills,
    /// What a name that nobody registered stands for, if the operator allows it.
    pub free_form: Option<AgentDefinition>,
    pub tools: ToolsConfig,
    /// What agents may name, as far as it is known without asking MCP servers.
    pub tool_names: ToolNames,
    pub limits: Limits,
    pub server: Server,
    pub webhooks: WebhookSettings,
    pub dialects: Dialects,
    pub lease_seconds: u64,
    /// The debug mode of contract G30: texts of tasks appear in logs.
    pub log_payloads: bool,
    /// What is odd, but no reason to refuse the config.
    pub warnings: Vec<Problem>,
    /// As it was written, with what is wrong left out.
    written: Table,
}

/// What sessions and tasks may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// The fleet-wide cap of a database that has none yet.
    pub cap: i32,
    pub session_max_active: i32,
    pub session_max_queued: i32,
    pub max_turns_ceiling: i32,
    /// How many levels of tasks there may be: 1 is the orchestrator's own.
    pub max_depth: i16,
    /// Whether sessions may define agents that delegate.
    pub define_may_delegate: bool,
    /// For agents that have none.
    pub task_timeout_s: Option<f64>,
    pub task_timeout_max_s: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cap: 5,
            session_max_active: 5,
            session_max_queued: 1000,
            max_turns_ceiling: 25,
            max_depth: DEFAULT_MAX_DEPTH,
            define_may_delegate: false,
            task_timeout_s: None,
            task_timeout_max_s: None,
        }
    }
}

/// What holds for those who come in by HTTP; `None` is no limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    pub listen: String,
    pub max_body_bytes: usize,
    pub tenant_max_sessions: Option<i64>,
    pub tenant_max_active: Option<i64>,
    pub tenant_max_queued: Option<i64>,
    /// At each server.
    pub tenant_requests_per_s: Option<f64>,
    pub session_status_per_s: Option<f64>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7433".to_owned(),
            max_body_bytes: 1 << 20,
            tenant_max_sessions: None,
            tenant_max_active: None,
            tenant_max_queued: None,
            tenant_requests_per_s: None,
            session_status_per_s: None,
        }
    }
}

impl Config {
    /// The file at `path`, else the one that `ADJUTANT_CONFIG` names, else `adjutant.toml` here if there is one, else nothing
    /// but defaults; over it the environment. It says everything that is wrong, and not only the first.
    pub fn load(path: Option<&Path>) -> Result<Self, Refused> {
        Loaded::of_process(path).into_config()
    }

    /// What it says where callers and agents say nothing, and the most that they can say.
    pub fn operator(&self) -> Operator {
        Operator {
            default_model: self.model_names.default.clone().unwrap_or_default(),
            max_turns_ceiling: self.limits.max_turns_ceiling,
            default_timeout_s: self.limits.task_timeout_s,
            max_timeout_s: self.limits.task_timeout_max_s,
            free_form: self.free_form.clone(),
        }
    }

    /// What agents may name.
    fn known(&self) -> Known<'_> {
        Known {
            models: &self.model_names,
            tools: &self.tool_names,
            skills: &self.skills,
            max_turns_ceiling: self.limits.max_turns_ceiling,
        }
    }

    /// Once the log is there to hear it.
    pub fn log_warnings(&self) {
        for warning in &self.warnings {
            tracing::warn!(warning.place = %warning.place, "{warning}");
        }
    }
}
