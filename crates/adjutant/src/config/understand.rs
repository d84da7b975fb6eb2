//! From a checked tree and the files that it names to what the program works with: pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use adjutant_agent::{DEFAULT_MAX_DEPTH, SUBAGENT};
use adjutant_worker::model::ModelConfig;
use adjutant_worker::tools::ToolsConfig;
use serde::de::DeserializeOwned;

use super::agents::{self, Agent, Agents, Key, Known, Wrong};
use super::files::{Base, Files};
use super::known::{BUILT_IN, ModelNames, OF_FILES, ToolNames};
use super::problem::{Findings, Place};
use super::schema::dotted;
use super::tree::{Node, Table, Value};
use super::{Config, Limits, dialects, ecs, free_form, server, skills, webhooks};

/// What providers take as the name of a tool.
const MAX_TOOL_NAME: usize = 64;

/// Agents are understood as those of `running` if there is one: models and tools that came later are not there yet. What
/// has become wrong stays as it was there.
pub fn understand(
    written: Table,
    files: &Files,
    base: &Base,
    running: Option<&Config>,
    findings: &mut Findings,
) -> Config {
    let mut table = written.clone();
    resolve_paths(&mut table, base);
    let limits = limits(&table, findings);
    let server = server::understand(&table, findings);
    let webhooks = webhooks::understand(&table, findings);
    let dialects = dialects::understand(&table, findings);
    let model_names = model_names(&table, findings);
    let models = models(&table, findings);
    let tool_names = tool_names(&table, findings);
    let tools = tools(&table, findings);
    let skills =
        skills::read(&table, files, running.map_or(&tool_names, |running| &running.tool_names), findings);
    let known = match running {
        Some(running) => Known { skills: &skills, ..running.known() },
        None => Known {
            models: &model_names,
            tools: &tool_names,
            skills: &skills,
            max_turns_ceiling: limits.max_turns_ceiling,
        },
    };
    let free_form = free_form::understand(&table, known, findings);
    let read = read_agents(&table, files, known, findings);
    let agents = settle(read, running, files, findings);
    warn_of_idle_delegation(&agents, &limits, findings);
    let lease = section(&table, "lease").and_then(|lease| lease.get("seconds")?.as_integer());
    Config {
        path: None,
        models,
        model_names,
        agents,
        skills,
        free_form,
        tools,
        tool_names,
        limits,
        server,
        webhooks,
        dialects,
        lease_seconds: lease.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(DEFAULT_LEASE_SECONDS),
        log_payloads: table.get("log_payloads").is_some_and(|node| node.value == Value::Flag(true)),
        warnings: Vec::new(),
        written,
    }
}

/// As `--lease-seconds` has it.
pub const DEFAULT_LEASE_SECONDS: u64 = 30;

pub fn section<'a>(table: &'a Table, path: &str) -> Option<&'a Table> {
    path.split('.').try_fold(table, |table, part| table.get(part)?.as_table())
}

fn entries<'a>(table: &'a Table, path: &str) -> impl Iterator<Item = (&'a String, &'a Node)> {
    section(table, path).into_iter().flatten()
}

/// Those paths that others open. What the agents name was read before, by its place.
fn resolve_paths(table: &mut Table, base: &Base) {
    let resolve = |table: &mut Table, setting: &str| {
        if let Some(Node { value: Value::Text(path), .. }) = table.get_mut(setting) {
            *path = base.resolve(path).display().to_string();
        }
    };
    let below = |table: &mut Table, path: &str, setting: &str| {
        let found = path.split('.').try_fold(table, |table, part| match &mut table.get_mut(part)?.value {
            Value::Table(table) => Some(table),
            Value::Text(_) | Value::Raw(_) | Value::Integer(_) | Value::Number(_) => None,
            Value::Flag(_) | Value::Date | Value::List(_) => None,
        });
        for node in found.into_iter().flat_map(Table::values_mut) {
            if let Value::Table(table) = &mut node.value {
                resolve(table, setting);
            }
        }
    };
    below(table, "models", "api_key_file");
    below(table, "tools", "root");
    below(table, "tools.mcp", "cwd");
}

fn limits(table: &Table, findings: &mut Findings) -> Limits {
    let default = Limits::default();
    let node = |name: &str| section(table, "limits")?.get(name);
    let whole = |name: &str, default| {
        node(name).and_then(|node| i32::try_from(node.as_integer()?).ok()).unwrap_or(default)
    };
    let seconds = |name: &str| node(name).and_then(Node::as_number);
    let limits = Limits {
        cap: whole("cap", ecs::cap(table, findings).unwrap_or(default.cap)),
        session_max_active: whole("session_max_active", default.session_max_active),
        session_max_queued: whole("session_max_queued", default.session_max_queued),
        max_turns_ceiling: whole("max_turns_ceiling", default.max_turns_ceiling),
        max_depth: i16::try_from(whole("max_depth", default.max_depth.into())).unwrap_or(default.max_depth),
        define_may_delegate: node("define_may_delegate").is_some_and(|node| node.value == Value::Flag(true)),
        task_timeout_s: seconds("task_timeout_s"),
        task_timeout_max_s: seconds("task_timeout_max_s"),
    };
    if let (Some(usual), Some(most), Some(node)) =
        (limits.task_timeout_s, limits.task_timeout_max_s, node("task_timeout_s"))
        && usual > most
    {
        let text = format!("must be at most limits.task_timeout_max_s, which is {most}, and is {usual}");
        findings.error(&node.place, "limits.task_timeout_s", text);
    }
    limits
}

/// Every model that was meant counts, so that one mistake in it does not make every agent a mistake.
fn model_names(table: &Table, findings: &mut Findings) -> ModelNames {
    let models: BTreeSet<String> = entries(table, "models").map(|(name, _)| name.clone()).collect();
    let mut names = ModelNames { models, ..ModelNames::default() };
    for (alias, node) in entries(table, "model_aliases") {
        let Some(model) = node.as_text() else { continue };
        let name = dotted("model_aliases", alias);
        if names.models.contains(alias) {
            findings.error(
                &node.key,
                name,
                format!("is never used, because there is a models.{alias}; remove it"),
            );
        } else if names.models.contains(model) {
            names.aliases.insert(alias.clone(), model.to_owned());
        } else {
            findings.error(&node.place, name, no_model(&names, model));
        }
    }
    names.default = match table.get("default_model").and_then(|node| Some((node, node.as_text()?))) {
        Some((node, name)) => {
            if names.resolve(name).is_none() {
                findings.error(&node.place, "default_model", no_model(&names, name));
            }
            names.resolve(name).map(str::to_owned)
        }
        // The only one is what everybody means.
        None => names.models.first().filter(|_| names.models.len() == 1).cloned(),
    };
    names
}

fn no_model(names: &ModelNames, wrong: &str) -> String {
    format!("there is no model {wrong:?}; {}", names.suggestion(wrong))
}

fn models(table: &Table, findings: &mut Findings) -> BTreeMap<String, ModelConfig> {
    let mut models = BTreeMap::new();
    for (name, node) in entries(table, "models") {
        let Some(model) = node.as_table() else { continue };
        let dotted_name = dotted("models", name);
        if !is_model_name(name) {
            let text = "a model's name has 1 to 128 characters, without spaces and \"*\"";
            findings.error(&node.key, &dotted_name, text);
        }
        both(model, &dotted_name, ["api_key_env", "api_key_file"], findings);
        if !model.contains_key("wire") {
            let text = "is missing; it is \"openai\" or \"anthropic\"";
            findings.missing(&node.key, dotted(&dotted_name, "wire"), text);
            continue;
        }
        models.extend(typed(&dotted_name, node, findings).map(|config| (name.clone(), config)));
    }
    models
}

fn is_model_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name != "*"
        && !name.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// Of two settings only one may be there; whether there is, and the rule about it, if both are.
fn both(table: &Table, name: &str, settings: [&str; 2], findings: &mut Findings) {
    let [first, second] = settings;
    if let (Some(_), Some(node)) = (table.get(first), table.get(second)) {
        findings.error(&node.key, dotted(name, second), format!("{first} is there too; remove one of them"));
    }
}

/// The last word on a table have those who use it.
fn typed<T: DeserializeOwned>(name: &str, node: &Node, findings: &mut Findings) -> Option<T> {
    match serde_json::from_value(node.to_json()) {
        Ok(config) => Some(config),
        Err(error) => {
            findings.error(&node.key, name, error.to_string());
            None
        }
    }
}

fn tool_names(table: &Table, findings: &mut Findings) -> ToolNames {
    let mut names = ToolNames::default();
    names.tools.extend(BUILT_IN.iter().map(|name| (*name).to_owned()));
    let fetch = section(table, "tools.fetch").and_then(|fetch| fetch.get("enabled"));
    if fetch.is_some_and(|enabled| enabled.value == Value::Flag(false)) {
        names.tools.remove("fetch");
    }
    if section(table, "tools.files").is_some_and(|files| files.contains_key("root")) {
        names.tools.extend(OF_FILES.iter().map(|name| (*name).to_owned()));
    }
    for (name, node) in entries(table, "tools.http") {
        let dotted_name = dotted("tools.http", name);
        if BUILT_IN.contains(&name.as_str()) || OF_FILES.contains(&name.as_str()) || name == SUBAGENT {
            findings.error(&node.key, dotted_name, "a tool of this name comes with Adjutant; choose another");
        } else {
            check_tool_name(name, &node.key, &dotted_name, findings);
            names.tools.insert(name.clone());
        }
    }
    for (name, node) in entries(table, "tools.mcp") {
        check_tool_name(name, &node.key, &dotted("tools.mcp", name), findings);
        names.servers.insert(name.clone());
    }
    names
}

fn check_tool_name(name: &str, place: &Place, dotted_name: &str, findings: &mut Findings) {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !(1..=MAX_TOOL_NAME).contains(&name.len()) || !name.chars().all(allowed) {
        findings.error(place, dotted_name, "a tool's name has 1 to 64 letters, digits, _ and -");
    }
}

/// One table after the other, so that each mistake has its line.
fn tools(table: &Table, findings: &mut Findings) -> ToolsConfig {
    let mut tools = ToolsConfig::default();
    if let Some(node) = section(table, "tools").and_then(|tools| tools.get("files")) {
        if node.as_table().is_some_and(|files| files.contains_key("root")) {
            tools.files = typed("tools.files", node, findings);
        } else {
            findings.missing(&node.key, "tools.files.root", "is missing: the folder that may be read");
        }
    }
    if let Some(node) = section(table, "tools").and_then(|tools| tools.get("fetch")) {
        tools.fetch = typed("tools.fetch", node, findings).unwrap_or_default();
    }
    for (name, node) in entries(table, "tools.http") {
        let dotted_name = dotted("tools.http", name);
        let missing: Vec<&str> = ["description", "url"]
            .into_iter()
            .filter(|setting| node.as_table().is_some_and(|tool| !tool.contains_key(*setting)))
            .collect();
        for setting in &missing {
            findings.missing(&node.key, dotted(&dotted_name, setting), "is missing");
        }
        if missing.is_empty() {
            tools.http.extend(typed(&dotted_name, node, findings).map(|config| (name.clone(), config)));
        }
    }
    for (name, node) in entries(table, "tools.mcp") {
        let dotted_name = dotted("tools.mcp", name);
        let Some(server) = node.as_table() else { continue };
        both(server, &dotted_name, ["command", "url"], findings);
        let was_wrong =
            findings.errors.iter().any(|problem| problem.name.starts_with(&format!("{dotted_name}.")));
        if was_wrong {
            continue;
        }
        if !server.contains_key("command") && !server.contains_key("url") {
            findings.missing(&node.key, dotted_name, "command or url is missing");
        } else {
            tools.mcp.extend(typed(&dotted_name, node, findings).map(|config| (name.clone(), config)));
        }
    }
    tools
}

/// Who may delegate, but nowhere can.
fn warn_of_idle_delegation(agents: &Agents, limits: &Limits, findings: &mut Findings) {
    let delegate = |agent: &&Agent| agent.definition.spec.may_delegate;
    for agent in agents.values().filter(delegate).filter(|_| limits.max_depth == DEFAULT_MAX_DEPTH) {
        let name = dotted(&dotted("agents", &agent.definition.name), "may_delegate");
        let text = "has no effect, since limits.max_depth is 1: no task may have others below it";
        findings.warning(&agent.source, name, text);
    }
}

/// Every table and file that is meant to be an agent, and what it is, unless it is wrong.
fn read_agents(
    table: &Table,
    files: &Files,
    known: Known<'_>,
    findings: &mut Findings,
) -> Vec<(Key, Option<Agent>)> {
    let mut read = Vec::new();
    for (name, node) in entries(table, "agents") {
        read.push((Key::Table(name.clone()), agents::from_table(name, node, files, known, findings)));
    }
    for file in &files.agents {
        let key = Key::File(file.shown.clone());
        match agents::from_markdown(file, known, findings) {
            Ok(Some(agent)) => read.push((key, Some(agent))),
            Ok(None) => {}
            Err(Wrong) => read.push((key, None)),
        }
    }
    read
}

/// Of two agents of one name the second is an error; tables come before files, files in the order of their paths. What is
/// wrong now stays what it was, unless another has taken its name.
fn settle(
    read: Vec<(Key, Option<Agent>)>,
    running: Option<&Config>,
    files: &Files,
    findings: &mut Findings,
) -> Agents {
    let mut agents = Agents::new();
    let mut wrong = BTreeSet::new();
    for (key, agent) in read {
        let Some(agent) = agent else {
            wrong.insert(key);
            continue;
        };
        let name = agent.definition.name.clone();
        if let Some(other) = agents.get(&name) {
            let text = format!("{} has an agent of this name too; rename one of them", other.source);
            findings.error(&agent.source, dotted("agents", &name), text);
        } else {
            agents.insert(name, agent);
        }
    }
    let is_out_of_sight = |key: &Key| match key {
        Key::Table(_) => false,
        Key::File(file) => files.unreadable.iter().any(|folder| Path::new(&**file).starts_with(folder)),
    };
    for (name, agent) in running.into_iter().flat_map(|running| &running.agents) {
        if wrong.contains(&agent.key) || is_out_of_sight(&agent.key) {
            agents.entry(name.clone()).or_insert_with(|| agent.clone());
        }
    }
    agents
}
