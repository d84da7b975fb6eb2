use std::path::{Path, PathBuf};

use clap::CommandFactory;

use super::assemble::assemble;
use super::check::check;
use super::environment::Environment;
use super::files::{Files, PathBase, Stamps, read_text};
use super::problem::{ConfigError, Findings, Problem};
use super::tree::{Table, read_toml};
use super::{Config, Role};
use crate::cli::Cli;

/// The commented example with every setting.
pub const EXAMPLE: &str = include_str!("../../../../adjutant.example.toml");

const DEFAULT_FILE: &str = "adjutant.toml";

/// The file and the environment that a config is loaded from.
#[derive(Debug, Clone)]
pub struct Origin {
    pub path: Option<PathBuf>,
    pub environment: Environment,
    pub role: Role,
}

/// A config without the settings that have errors, and the errors.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub config: Config,
    pub errors: Vec<Problem>,
}

impl Origin {
    pub fn from_process(path: Option<&Path>, role: Role) -> Self {
        let environment = Environment::from_process(variables_of_flags());
        let path = path
            .map(Path::to_owned)
            .or_else(|| environment.get("ADJUTANT_CONFIG").map(PathBuf::from))
            .or_else(|| Some(PathBuf::from(DEFAULT_FILE)).filter(|path| path.exists()));
        Self { path, environment, role }
    }

    fn base(&self) -> PathBase {
        let folder = self.path.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        let home = self.environment.get("HOME").map(PathBuf::from);
        PathBase { folder: folder.to_owned(), home }
    }

    /// Loads everything. With a running config, parts that are unreadable or invalid keep the value
    /// that they have there.
    pub fn load(&self, running: Option<&Config>) -> Loaded {
        let mut findings = Findings::of(self.role);
        let mut table = self.read_file(&mut findings);
        let base = self.base();
        if findings.errors.is_empty() {
            self.environment.overlay(&mut table, &mut findings);
            table = check(table, &mut findings);
        } else {
            table = running.map(|running| running.source.clone()).unwrap_or_default();
        }
        let files = Files::gather(&table, &base, &mut findings);
        let config = assemble(table, &files, &base, running, &mut findings);
        findings.sort();
        let config = Config {
            path: self.path.clone(),
            role: self.role,
            warnings: findings.warnings,
            ..config
        };
        Loaded { config, errors: findings.errors }
    }

    fn read_file(&self, findings: &mut Findings) -> Table {
        let Some(path) = &self.path else { return Table::new() };
        match read_text(path) {
            Ok(text) => read_toml(&path.display().to_string().into(), &text, findings),
            Err(problem) => {
                findings.errors.push(problem);
                Table::new()
            }
        }
    }

    /// The current stamps of the files that this config was read from.
    pub fn stamps(&self, config: &Config) -> Stamps {
        Stamps::take(self.path.as_deref(), &config.source, &self.base())
    }
}

impl Loaded {
    /// Loads as [`Config::load`] does, but keeps a config that has errors.
    pub fn from_process(path: Option<&Path>, role: Role) -> Self {
        Origin::from_process(path, role).load(None)
    }

    pub fn into_config(self) -> Result<Config, ConfigError> {
        if self.errors.is_empty() { Ok(self.config) } else { Err(ConfigError(self.errors)) }
    }
}

fn variables_of_flags() -> Vec<String> {
    fn collect(command: &clap::Command, names: &mut Vec<String>) {
        let variables = command.get_arguments().filter_map(|argument| argument.get_env());
        names.extend(variables.map(|name| name.to_string_lossy().into_owned()));
        command.get_subcommands().for_each(|command| collect(command, names));
    }
    let mut names = Vec::new();
    collect(&Cli::command(), &mut names);
    names
}
