//! Reading a script from a file, or from its text.

use std::path::{Path, PathBuf};

use crate::form::ScriptForm;
use crate::script::Script;

/// A script that cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// Displays as `file:line: message`.
    #[error("{}:{line}: {message}", path.display())]
    Wrong { path: PathBuf, line: usize, message: String },
}

impl Script {
    /// Reads a file: JSON if its name ends in `.json`, else TOML.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScriptError::Unreadable { path: path.to_owned(), source })?;
        let parsed =
            if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
                from_json(&text)
            } else {
                from_toml(&text)
            };
        parsed.map_err(|(line, message)| ScriptError::Wrong {
            path: path.to_owned(),
            line,
            message,
        })
    }

    /// Reads TOML that is part of a program.
    pub fn from_toml(text: &str) -> Result<Self, ScriptError> {
        from_toml(text).map_err(|(line, message)| ScriptError::Wrong {
            path: "script".into(),
            line,
            message,
        })
    }

    /// Reads JSON that is part of a program.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        from_json(text).map_err(|(line, message)| ScriptError::Wrong {
            path: "script".into(),
            line,
            message,
        })
    }
}

fn from_toml(text: &str) -> Result<Script, (usize, String)> {
    let form: ScriptForm = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = 1 + text.bytes().take(start).filter(|byte| *byte == b'\n').count();
        (line, error.message().trim().replace('\n', ", "))
    })?;
    form.try_into().map_err(|message: &str| (1, message.to_owned()))
}

fn from_json(text: &str) -> Result<Script, (usize, String)> {
    let form: ScriptForm =
        serde_json::from_str(text).map_err(|error| (error.line().max(1), error.to_string()))?;
    form.try_into().map_err(|message: &str| (1, message.to_owned()))
}
