use std::fmt;
use std::sync::Arc;

use super::Role;

/// Where a setting was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// An environment variable.
    Variable(Arc<str>),
    /// A file as a whole, for example one that cannot be read.
    File(Arc<str>),
    /// Lines and columns count from 1, columns in characters.
    Line { file: Arc<str>, line: usize, column: usize },
}

impl Location {
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::Variable(_) => None,
            Self::File(file) | Self::Line { file, .. } => Some(file),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => f.write_str(name),
            Self::File(file) => f.write_str(file),
            Self::Line { file, line, column } => write!(f, "{file}:{line}:{column}"),
        }
    }
}

/// An error or a warning about the config. Its text contains names and numbers from the config but
/// no other values, because these may be secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub location: Location,
    /// The setting's dotted name; empty if the problem is not about a setting.
    pub name: String,
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.location)?;
        if !self.name.is_empty() {
            write!(f, "{}: ", self.name)?;
        }
        f.write_str(&self.text)
    }
}

/// The problems found while loading: a config with errors is refused, one with warnings is not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    role: Role,
    pub errors: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

impl Findings {
    pub fn of(role: Role) -> Self {
        Self { role, ..Self::default() }
    }

    /// Reports what no worker can run. For a server it is a warning: its workers may have configs
    /// of their own.
    pub fn unusable(
        &mut self,
        location: &Location,
        name: impl Into<String>,
        text: impl Into<String>,
    ) {
        match self.role {
            Role::Worker => self.error(location, name, text),
            Role::Server => {
                let text: String = text.into();
                let text = text.trim_end_matches('.');
                let text = format!("{text}; tasks need a worker whose config allows it");
                self.warning(location, name, text);
            }
        }
    }

    /// Whether names that the config does not know may be known to workers.
    pub fn keeps_unknown_names(&self) -> bool {
        self.role == Role::Server
    }

    pub fn error(&mut self, location: &Location, name: impl Into<String>, text: impl Into<String>) {
        let (name, text) = (name.into(), text.into());
        self.errors.push(Problem { location: location.clone(), name, text });
    }

    /// Reports a missing setting, unless the setting is only missing because it had an error.
    pub fn missing(
        &mut self,
        location: &Location,
        name: impl Into<String>,
        text: impl Into<String>,
    ) {
        let name = name.into();
        let had_error = |problem: &Problem| {
            // Names in front matter are not dotted, and every file has the same ones.
            let same_file = name.contains('.') || problem.location.file() == location.file();
            problem.name == name && same_file
        };
        if !self.errors.iter().any(had_error) {
            self.error(location, name, text);
        }
    }

    pub fn warning(
        &mut self,
        location: &Location,
        name: impl Into<String>,
        text: impl Into<String>,
    ) {
        let (name, text) = (name.into(), text.into());
        self.warnings.push(Problem { location: location.clone(), name, text });
    }

    /// Sorts by location, so that problems appear in the order of the files.
    pub fn sort(&mut self) {
        self.errors.sort();
        self.errors.dedup();
        self.warnings.sort();
        self.warnings.dedup();
    }
}

/// A config that cannot be used, with all its errors, one on each line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(pub Vec<Problem>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the config is invalid")?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for ConfigError {}
