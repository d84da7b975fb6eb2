use std::path::{Path, PathBuf};

use clap::CommandFactory;

use super::Config;
use super::check::check;
use super::environment::Environment;
use super::files::{Base, Files, Stamps, read_text};
use super::problem::{Findings, Problem, Refused};
use super::tree::{Table, read_toml};
use super::understand::understand;
use crate::cli::Cli;

/// The commented config that has every setting.
pub const EXAMPLE: &str = include_str!("../../../../adjutant.example.toml");

/// What a folder has if nobody says otherwise.
const USUAL: &str = "adjutant.toml";

/// Where a config comes from; it can be read again.
#[derive(Debug, Clone)]
pub struct Origin {
    pub path: Option<PathBuf>,
    pub environment: Environment,
}

/// A config as far as it could be understood, and what is wrong with it.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub config: Config,
    pub errors: Vec<Problem>,
}

impl Origin {
    pub fn of_process(path: Option<&Path>) -> Self {
        let environment = Environment::of_process(variables_of_flags());
        let path = path
            .map(Path::to_owned)
            .or_else(|| environment.get("ADJUTANT_CONFIG").map(PathBuf::from))
            .or_else(|| Some(PathBuf::from(USUAL)).filter(|path| path.exists()));
        Self { path, environment }
    }

    fn base(&self) -> Base {
        let folder = self.path.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        Base { folder: folder.to_owned(), home: self.environment.get("HOME").map(PathBuf::from) }
    }

    /// Reads everything. With a running config, what cannot be read or is wrong stays as it is there.
    pub fn load(&self, running: Option<&Config>) -> Loaded {
        let mut findings = Findings::default();
        let mut table = self.read_file(&mut findings);
        let base = self.base();
        if findings.errors.is_empty() {
            self.environment.overlay(&mut table, &mut findings);
            table = check(table, &mut findings);
        } else {
            table = running.map(|running| running.written.clone()).unwrap_or_default();
        }
        let files = Files::gather(&table, &base, &mut findings);
        let config = understand(table, &files, &base, running, &mut findings);
        findings.sort();
        let config = Config { path: self.path.clone(), warnings: findings.warnings, ..config };
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

    /// What the files that this config was read from look like now.
    pub fn stamps(&self, config: &Config) -> Stamps {
        Stamps::take(self.path.as_deref(), &config.written, &self.base())
    }
}

impl Loaded {
    /// As `Config::load` finds it, whatever is wrong with it.
    pub fn of_process(path: Option<&Path>) -> Self {
        Origin::of_process(path).load(None)
    }

    pub fn into_config(self) -> Result<Config, Refused> {
        if self.errors.is_empty() { Ok(self.config) } else { Err(Refused(self.errors)) }
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
