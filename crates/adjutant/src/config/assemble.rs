//! Builds the [`Config`] from a checked tree and the files that it names. Pure.

use serde::de::DeserializeOwned;

use super::agents::{self, Agents, KnownNames};
use super::files::{Files, PathBase};
use super::problem::Findings;
use super::schema::{Kind, dotted, kind_of};
use super::tree::{Node, Table, Value};
use super::{
    Config, Role, dialects, free_form, limits, models, server, skills, tools, validate, webhooks,
};

/// As `--lease-seconds` has it.
const DEFAULT_LEASE_SECONDS: u64 = 30;

/// With a running config (a reload), agents are checked against its models and tools, because
/// changes of these need a restart, and an agent that has become invalid keeps its last version.
pub fn assemble(
    source: Table,
    files: &Files,
    base: &PathBase,
    running: Option<&Config>,
    findings: &mut Findings,
) -> Config {
    let mut table = source.clone();
    resolve_paths(&mut table, "", base);
    let limits = limits::read(&table, findings);
    let model_names = models::names(&table, findings);
    let tool_names = tools::names(&table, findings);
    let skills = skills::read(
        &table,
        files,
        running.map_or(&tool_names, |running| &running.tool_names),
        findings,
    );
    let known = match running {
        Some(running) => KnownNames { skills: &skills, ..running.known_names() },
        None => KnownNames {
            models: &model_names,
            tools: &tool_names,
            skills: &skills,
            max_turns_ceiling: limits.max_turns_ceiling,
        },
    };
    let free_form = free_form::read(&table, known, findings);
    let previous = running.map_or_else(Agents::new, |running| running.agents.clone());
    let agents = agents::read(&table, files, known, &previous, findings);
    agents::warn_of_idle_delegation(&agents, &limits, findings);
    let models = models::read(&table, &model_names, findings);
    match running {
        Some(running) => {
            agents::check_prices(&agents, &running.model_names, &running.models, findings);
        }
        None => agents::check_prices(&agents, &model_names, &models, findings),
    }
    let lease = section(&table, "lease").and_then(|lease| lease.get("seconds")?.as_integer());
    let config = Config {
        path: None,
        role: Role::default(),
        name: super::name(&table, findings),
        models,
        tools: tools::read(&table, findings),
        server: server::read(&table, findings),
        webhooks: webhooks::read(&table, findings),
        dialects: dialects::read(&table, findings),
        lease_seconds: lease
            .and_then(|seconds| u64::try_from(seconds).ok())
            .unwrap_or(DEFAULT_LEASE_SECONDS),
        log_payloads: table.get("log_payloads").is_some_and(Node::is_true),
        model_names,
        agents,
        skills,
        free_form,
        tool_names,
        limits,
        warnings: Vec::new(),
        source,
    };
    validate::validate(&table, &config, findings);
    config
}

/// The table at a dotted path.
pub fn section<'a>(table: &'a Table, path: &str) -> Option<&'a Table> {
    path.split('.').try_fold(table, |table, part| table.get(part)?.as_table())
}

/// The value at a dotted path.
pub fn node<'a>(table: &'a Table, path: &str) -> Option<&'a Node> {
    let (table_path, setting) = path.rsplit_once('.')?;
    section(table, table_path)?.get(setting)
}

/// The names and values of the table at a dotted path; nothing if it does not exist.
pub fn entries<'a>(table: &'a Table, path: &str) -> impl Iterator<Item = (&'a String, &'a Node)> {
    section(table, path).into_iter().flatten()
}

/// Makes every setting of kind `Path` relative to the config file.
fn resolve_paths(table: &mut Table, pattern: &str, base: &PathBase) {
    for (name, node) in table {
        let names = [name.as_str(), "*"].map(|name| match pattern {
            "" => name.to_owned(),
            pattern => format!("{pattern}.{name}"),
        });
        match &mut node.value {
            Value::Table(below) => names.iter().for_each(|name| resolve_paths(below, name, base)),
            Value::Text(path) if kind_of(&names[0]) == Some(Kind::Path) => {
                *path = base.resolve(path).display().to_string();
            }
            Value::Text(_) | Value::Raw(_) | Value::Integer(_) | Value::Number(_) => {}
            Value::Boolean(_) | Value::Date | Value::List(_) => {}
        }
    }
}

/// Two settings that exclude each other.
pub fn conflict(table: &Table, name: &str, settings: [&str; 2], findings: &mut Findings) {
    let [first, second] = settings;
    if let (Some(_), Some(node)) = (table.get(first), table.get(second)) {
        let text = format!("conflicts with {first}; remove one of them");
        findings.error(&node.key, dotted(name, second), text);
    }
}

/// Deserializes the top-level table `name`, if the config has it.
pub fn deserialize<T: DeserializeOwned>(
    table: &Table,
    name: &str,
    findings: &mut Findings,
) -> Option<T> {
    deserialize_node(name, table.get(name)?, findings)
}

pub fn deserialize_node<T: DeserializeOwned>(
    name: &str,
    node: &Node,
    findings: &mut Findings,
) -> Option<T> {
    match serde_json::from_value(node.to_json()) {
        Ok(value) => Some(value),
        Err(error) => {
            findings.error(&node.key, name, error.to_string());
            None
        }
    }
}
