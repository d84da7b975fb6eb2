//! The configuration: `adjutant.toml`, environment variables that override it, and the agents and
//! skills in the folders that it names.
//!
//! `files` reads from disk; everything else is pure. A file is parsed into a `tree` in which every
//! value knows its line. `environment` puts the variables over it. `check` compares names and types
//! with the list of settings in `schema`. `assemble` builds the [`Config`], with one module for
//! each section. All errors are collected and reported together.

pub mod agents;
mod assemble;
mod check;
mod dialects;
mod environment;
mod files;
mod free_form;
mod front_matter;
mod inheritance;
mod limits;
mod load;
mod machine;
mod models;
mod problem;
pub mod reload;
mod schema;
mod server;
pub mod skills;
mod suggest;
mod tools;
mod tree;
mod validate;
mod webhooks;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use adjutant_agent::AgentDefinition;
use adjutant_dialects::DialectSettings;
use adjutant_store::{DEFAULT_CONFIG, Operator};
use adjutant_worker::WebhookSettings;
use adjutant_worker::model::ModelConfig;
use adjutant_worker::tools::ToolsConfig;

pub use limits::Limits;
pub use load::{EXAMPLE, Loaded};
pub use problem::{ConfigError, Location, Problem};
pub use server::Server;

use agents::{Agents, KnownNames};
use models::ModelNames;
use schema::{Kind, Setting, settings};
use skills::Skills;
use tools::ToolNames;
use tree::Table;

use crate::table::count_noun;

const GENERAL: &[Setting] = settings! {
    "name" => Kind::Text,
    "agents_dir" => Kind::PathList,
    "skills_dir" => Kind::PathList,
    "log_payloads" => Kind::Boolean,
};

const LEASE: &[Setting] = settings! {
    "lease.seconds" => Kind::Integer { min: 2, max: 3600 },
};

/// What a process does with a config.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// It accepts tasks, and workers with configs of their own may run them: what only workers need
    /// is not an error.
    Server,
    /// It runs tasks, alone or beside a server.
    #[default]
    Worker,
}

/// All settings of the operator, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file that was read, if any.
    pub path: Option<PathBuf>,
    /// What the process does with it.
    role: Role,
    /// The name under which it publishes its agents.
    pub name: String,
    pub models: BTreeMap<String, ModelConfig>,
    pub model_names: ModelNames,
    pub agents: Agents,
    pub skills: Skills,
    /// The definition of agents whose name is not registered, if the operator has enabled it.
    pub free_form: Option<AgentDefinition>,
    pub tools: ToolsConfig,
    /// The tools that agents may name, as far as they are known without asking MCP servers.
    pub tool_names: ToolNames,
    pub limits: Limits,
    pub server: Server,
    pub webhooks: WebhookSettings,
    pub dialects: DialectSettings,
    pub lease_seconds: u64,
    /// The debug mode of rule G30: the texts of tasks are logged.
    pub log_payloads: bool,
    pub warnings: Vec<Problem>,
    /// The tree that the config was built from, without the settings that had errors.
    source: Table,
}

impl Config {
    /// Loads the file at `path`, else the one that `ADJUTANT_CONFIG` names, else `./adjutant.toml`
    /// if it exists, else the defaults. Environment variables override the file. The error lists
    /// all problems.
    pub fn load(path: Option<&Path>, role: Role) -> Result<Self, ConfigError> {
        Loaded::from_process(path, role).into_config()
    }

    /// The operator's defaults and upper limits for spawned tasks.
    pub fn operator(&self) -> Operator {
        Operator {
            default_model: self.model_names.default.clone().unwrap_or_default(),
            max_turns_ceiling: self.limits.max_turns_ceiling,
            default_timeout_s: self.limits.task_timeout_s,
            max_timeout_s: self.limits.task_timeout_max_s,
            max_tree_tasks: self.limits.max_tree_tasks,
            texts: self.limits.texts(),
            free_form: self.free_form.clone(),
        }
    }

    fn known_names(&self) -> KnownNames<'_> {
        KnownNames {
            models: &self.model_names,
            tools: &self.tool_names,
            skills: &self.skills,
            max_turns_ceiling: self.limits.max_turns_ceiling,
        }
    }

    /// To be called when logging has been set up: which program starts with which config, and what
    /// is odd about it.
    pub fn log_start(&self, command: &str) {
        let (version, name) = (env!("CARGO_PKG_VERSION"), &self.name);
        let file = self.path.as_ref().map(|path| path.display().to_string());
        let from = file.as_deref().unwrap_or("defaults, without a config file");
        tracing::info!(
            adjutant.version = version,
            config.name = name,
            config.file = file,
            "adjutant {version} {command} starts: config {name} from {from}, {}, {}",
            count_noun(len(self.models.len()), "model"),
            count_noun(len(self.agents.len()), "agent"),
        );
        for warning in &self.warnings {
            tracing::warn!(warning.location = %warning.location, "{warning}");
        }
    }
}

fn len(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The name of the config: agents belong to it.
fn name(table: &Table, findings: &mut problem::Findings) -> String {
    let Some((node, name)) = table.get("name").and_then(|node| Some((node, node.as_text()?)))
    else {
        return DEFAULT_CONFIG.to_owned();
    };
    if let Err(refusal) = adjutant_agent::check_pool("name", name) {
        let text = refusal.message.trim_start_matches("name: ").to_owned();
        findings.error(&node.location, "name", text);
    }
    name.to_owned()
}
