//! `[tools]`: built-in tools, HTTP tools and MCP servers.

use std::collections::BTreeSet;

use adjutant_agent::{SHARED_CONTEXT, SUBAGENT};
use adjutant_worker::tools::{
    BUILT_IN_TOOLS, Enabled, ToolsConfig, check_characters, check_http_tool_name, possible_names,
};

use super::assemble::{conflict, deserialize_node, entries, node, section};
use super::problem::Findings;
use super::schema::{CALL_SECONDS, Kind, Setting, at_least, dotted, settings};
use super::suggest::suggestion;
use super::tree::{Node, Table};

pub const SETTINGS: &[Setting] = settings! {
    "tools.files.root" => Kind::Path,
    "tools.files.max_bytes" => at_least(1),
    "tools.files.tenants" => Kind::TextList,

    "tools.fetch.enabled" => Kind::Boolean,
    "tools.fetch.max_bytes" => at_least(1),
    "tools.fetch.timeout_s" => CALL_SECONDS,
    "tools.fetch.allow_private" => Kind::Boolean,
    "tools.fetch.tenants" => Kind::TextList,

    "tools.http.*.description" => Kind::Text,
    "tools.http.*.url" => Kind::Url,
    "tools.http.*.input_schema" => Kind::Table,
    "tools.http.*.replay" => Kind::OneOf(&["safe", "unsafe"]),
    "tools.http.*.allow_private" => Kind::Boolean,
    "tools.http.*.headers" => Kind::SecretTable,
    "tools.http.*.timeout_s" => CALL_SECONDS,
    "tools.http.*.max_bytes" => at_least(1),
    "tools.http.*.tenants" => Kind::TextList,

    "tools.mcp.*.command" => Kind::TextList,
    "tools.mcp.*.env" => Kind::SecretTable,
    "tools.mcp.*.cwd" => Kind::Path,
    "tools.mcp.*.url" => Kind::Url,
    "tools.mcp.*.headers" => Kind::SecretTable,
    "tools.mcp.*.replay" => Kind::OneOf(&["safe", "unsafe"]),
    "tools.mcp.*.timeout_s" => CALL_SECONDS,
    "tools.mcp.*.start_timeout_s" => CALL_SECONDS,
    "tools.mcp.*.max_bytes" => at_least(1),
    "tools.mcp.*.allow" => Kind::TextList,
    "tools.mcp.*.deny" => Kind::TextList,
    "tools.mcp.*.tenants" => Kind::TextList,
};

/// The tools that are known before any MCP server has listed its tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolNames {
    pub tools: BTreeSet<String>,
    /// MCP servers, which may have further tools.
    pub servers: BTreeSet<String>,
    /// The names of tools that a server may have, of servers whose setting `allow` lists them.
    allowed: BTreeSet<String>,
    /// Whether some server may have any tool.
    any_tool: bool,
}

/// The result of looking up a tool's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolLookup {
    Known,
    /// An MCP server may have it. Only a worker that is connected to the server knows.
    Possible,
    /// The reason, and what to do about it.
    Unknown(String),
}

impl ToolNames {
    pub fn find(&self, name: &str) -> ToolLookup {
        if self.tools.contains(name) {
            ToolLookup::Known
        } else if self.any_tool || self.allowed.contains(name) {
            ToolLookup::Possible
        } else {
            ToolLookup::Unknown(self.why_unknown(name))
        }
    }

    fn why_unknown(&self, name: &str) -> String {
        let built_in = BUILT_IN_TOOLS.iter().find(|tool| tool.name == name);
        match built_in.map(|tool| tool.enabled) {
            Some(Enabled::If(setting)) => format!("the tool {name} is disabled: set {setting}"),
            Some(Enabled::Unless(setting)) => {
                format!("the tool {name} is disabled: {setting} is false")
            }
            Some(Enabled::Always) | None => {
                let names = self.tools.iter().chain(&self.allowed);
                let names: Vec<&str> = names.map(String::as_str).collect();
                format!("unknown tool {name:?}; {}", suggestion(name, names))
            }
        }
    }

    /// The tools that the `tools` setting of a table names. Unknown ones are reported, and left out
    /// unless workers may have them. `subagent` is dropped: `may_delegate` decides about it.
    pub fn in_table(&self, settings: &Table, table: &str, findings: &mut Findings) -> Vec<String> {
        let mut tools = Vec::new();
        for (node, name) in settings.get("tools").into_iter().flat_map(Node::texts) {
            match self.find(name) {
                _ if name == SUBAGENT => {}
                ToolLookup::Known | ToolLookup::Possible => tools.push(name.to_owned()),
                ToolLookup::Unknown(why) => {
                    findings.unusable(&node.location, dotted(table, "tools"), why);
                    if findings.keeps_unknown_names() {
                        tools.push(name.to_owned());
                    }
                }
            }
        }
        tools
    }

    /// The name here of a tool that a file of another program names. `None` is the tool to
    /// delegate, which is not in a list of tools.
    pub fn of_other_program(&self, written: &str) -> Result<Option<String>, String> {
        let name = match written {
            "Read" => "read_file",
            "Glob" | "LS" => "list_files",
            "Grep" => "search_files",
            "WebFetch" => "fetch",
            "Task" | "Agent" | SUBAGENT => return Ok(None),
            other => other,
        };
        let name = match name.strip_prefix("mcp__").map(|rest| rest.split_once("__")) {
            Some(Some((server, tool))) if self.servers.contains(server) => {
                format!("{server}__{tool}")
            }
            Some(Some((server, _))) => return Err(format!("tools.mcp.{server} does not exist")),
            Some(None) => return Err("name the tools of an MCP server one by one".to_owned()),
            None if self.is_foreign(name) => return Err("Adjutant has no matching tool".to_owned()),
            None => name.to_owned(),
        };
        match self.find(&name) {
            ToolLookup::Known | ToolLookup::Possible => Ok(Some(name)),
            ToolLookup::Unknown(why) => Err(why),
        }
    }

    /// Whether a name can only be a tool of another program. A tool that is limited to some
    /// arguments, as in `Read(src/**)`, would not be limited here. The other program's own tools
    /// start with a capital, and an MCP server is unlikely to have one of that name.
    fn is_foreign(&self, name: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let is_capital = name.starts_with(|c: char| c.is_ascii_uppercase());
        !name.bytes().all(is_plain) || (is_capital && self.find(name) != ToolLookup::Known)
    }
}

pub fn names(table: &Table, findings: &mut Findings) -> ToolNames {
    let mut names = ToolNames::default();
    names.tools.insert(SHARED_CONTEXT.to_owned());
    let built_in = BUILT_IN_TOOLS.iter().filter(|tool| is_enabled(tool.enabled, table));
    names.tools.extend(built_in.map(|tool| tool.name.to_owned()));
    for (name, node) in entries(table, "tools.http") {
        if let Err(why) = check_http_tool_name(name) {
            findings.error(&node.key, dotted("tools.http", name), why);
        }
        names.tools.insert(name.clone());
    }
    for (name, node) in entries(table, "tools.mcp") {
        if let Err(why) = check_characters(name) {
            findings.error(&node.key, dotted("tools.mcp", name), why);
        }
        names.servers.insert(name.clone());
        let allow = node.as_table().and_then(|server| server.get("allow"));
        names.any_tool |= allow.is_none();
        for (_, tool) in allow.into_iter().flat_map(Node::texts) {
            names.allowed.extend(possible_names(name, tool));
        }
    }
    names
}

fn is_enabled(enabled: Enabled, table: &Table) -> bool {
    match enabled {
        Enabled::Always => true,
        Enabled::Unless(setting) => node(table, setting).is_none_or(Node::is_true),
        Enabled::If(setting) => node(table, setting).is_some(),
    }
}

/// Reads table by table, so that each error has its own line.
pub fn read(table: &Table, findings: &mut Findings) -> ToolsConfig {
    let mut tools = ToolsConfig::default();
    if let Some(node) = section(table, "tools").and_then(|tools| tools.get("files")) {
        if node.as_table().is_some_and(|files| files.contains_key("root")) {
            tools.files = deserialize_node("tools.files", node, findings);
        } else {
            let text = "is required: the folder that may be read";
            findings.missing(&node.key, "tools.files.root", text);
        }
    }
    if let Some(node) = section(table, "tools").and_then(|tools| tools.get("fetch")) {
        tools.fetch = deserialize_node("tools.fetch", node, findings).unwrap_or_default();
    }
    for (name, node) in entries(table, "tools.http") {
        let dotted_name = dotted("tools.http", name);
        let missing: Vec<&str> = ["description", "url"]
            .into_iter()
            .filter(|setting| node.as_table().is_some_and(|tool| !tool.contains_key(*setting)))
            .collect();
        for setting in &missing {
            findings.missing(&node.key, dotted(&dotted_name, setting), "is required");
        }
        if missing.is_empty() {
            let config = deserialize_node(&dotted_name, node, findings);
            tools.http.extend(config.map(|config| (name.clone(), config)));
        }
    }
    for (name, node) in entries(table, "tools.mcp") {
        let dotted_name = dotted("tools.mcp", name);
        let Some(server) = node.as_table() else { continue };
        conflict(server, &dotted_name, ["command", "url"], findings);
        let prefix = format!("{dotted_name}.");
        if findings.errors.iter().any(|problem| problem.name.starts_with(&prefix)) {
            continue;
        }
        if !server.contains_key("command") && !server.contains_key("url") {
            findings.missing(&node.key, dotted_name, "command or url is required");
        } else {
            let config = deserialize_node(&dotted_name, node, findings);
            tools.mcp.extend(config.map(|config| (name.clone(), config)));
        }
    }
    tools
}
