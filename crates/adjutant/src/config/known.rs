//! The models and tools that agents may name.

use std::collections::{BTreeMap, BTreeSet};

use adjutant_agent::SHARED_CONTEXT;

use super::nearest::suggestion;

/// The names that a model goes by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelNames {
    /// What agents and sessions without a model use.
    pub default: Option<String>,
    pub models: BTreeSet<String>,
    /// Other names for them; `*` stands for every name that is not there.
    pub aliases: BTreeMap<String, String>,
}

impl ModelNames {
    /// The model of this name, or the one that the operator lets it stand for.
    pub fn resolve(&self, name: &str) -> Option<&str> {
        let model = self.models.get(name);
        model.or_else(|| self.aliases.get(name)).or_else(|| self.aliases.get("*")).map(String::as_str)
    }

    pub fn suggestion(&self, wrong: &str) -> String {
        let names = self.models.iter().chain(self.aliases.keys());
        suggestion(wrong, names.map(String::as_str).collect::<Vec<_>>())
    }
}

/// The tools that can be known before any MCP server was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolNames {
    pub tools: BTreeSet<String>,
    /// MCP servers, which have tools of their own.
    pub servers: BTreeSet<String>,
}

/// What can be said of a tool's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Here,
    /// A server may have it; only a worker that asked it can tell.
    Perhaps,
    /// Why it is not there, and what to do.
    No(String),
}

/// Tools that come with the program, but for those that need a folder.
pub const BUILT_IN: [&str; 2] = [SHARED_CONTEXT, "fetch"];

/// Tools that need `tools.files.root`.
pub const OF_FILES: [&str; 3] = ["read_file", "list_files", "search_files"];

impl ToolNames {
    pub fn find(&self, name: &str) -> Found {
        if self.tools.contains(name) {
            Found::Here
        } else if OF_FILES.contains(&name) && self.servers.is_empty() {
            Found::No(format!("the tool {name} needs a folder: set tools.files.root"))
        } else if self.servers.is_empty() {
            let suggestion = suggestion(name, self.tools.iter().map(String::as_str).collect::<Vec<_>>());
            Found::No(format!("there is no tool {name:?}; {suggestion}"))
        } else {
            Found::Perhaps
        }
    }
}
