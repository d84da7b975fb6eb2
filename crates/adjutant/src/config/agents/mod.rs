//! Agents, from tables of the config and from Markdown files.

mod markdown;
mod reader;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use adjutant_agent::{
    AgentDefinition, Compaction, DEFAULT_MAX_DEPTH, MissingTools, OnBudget, Skill,
};
use adjutant_worker::model::ModelConfig;

use super::assemble::entries;
use super::check::split_list;
use super::files::Files;
use super::limits::Limits;
use super::models::ModelNames;
use super::problem::{Findings, Location};
use super::schema::{Kind, Setting, at_least, dotted, settings};
use super::skills::Skills;
use super::suggest::suggestion;
use super::tools::ToolNames;
use super::tree::{Node, Table};

pub const SETTINGS: &[Setting] = settings! {
    "agents.*.description" => Kind::Text,
    "agents.*.system_prompt" => Kind::Text,
    "agents.*.system_prompt_file" => Kind::Path,
    "agents.*.tools" => Kind::TextList,
    "agents.*.model" => Kind::Text,
    "agents.*.max_turns" => at_least(1),
    "agents.*.summary_prompt" => Kind::Text,
    "agents.*.extra_body" => Kind::Table,
    "agents.*.compaction" => Kind::OneOf(Compaction::WORDS),
    "agents.*.timeout_s" => Kind::PositiveNumber,
    "agents.*.max_input_tokens" => Kind::Integer { min: 0, max: i64::MAX },
    "agents.*.max_output_tokens" => Kind::Integer { min: 0, max: i64::MAX },
    "agents.*.max_cost_usd" => Kind::Number { min: 0.0, max: 1e9 },
    "agents.*.on_budget" => Kind::OneOf(OnBudget::WORDS),
    "agents.*.on_worker_loss" => Kind::OneOf(&["resume", "fail"]),
    "agents.*.may_delegate" => Kind::Boolean,
    "agents.*.missing_tools" => Kind::OneOf(MissingTools::WORDS),
    "agents.*.pool" => Kind::Text,
    "agents.*.skills" => Kind::TextList,
    "agents.*.tenants" => Kind::TextList,
};

/// An agent that every session has.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    pub definition: AgentDefinition,
    pub source: Location,
    pub key: AgentKey,
}

/// What an agent was read from. It stays the same when the agent's name or line changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentKey {
    /// `[agents.NAME]`
    Table(String),
    /// A Markdown file.
    File(Arc<str>),
}

/// All agents by name.
pub type Agents = BTreeMap<String, Agent>;

/// The names that an agent may refer to.
#[derive(Debug, Clone, Copy)]
pub struct KnownNames<'a> {
    pub models: &'a ModelNames,
    pub tools: &'a ToolNames,
    pub skills: &'a Skills,
    pub max_turns_ceiling: i32,
}

impl KnownNames<'_> {
    /// The skills that the `skills` setting of a table names.
    pub fn skills_in(&self, settings: &Table, table: &str, findings: &mut Findings) -> Vec<Skill> {
        let mut skills = Vec::new();
        let listed = settings.get("skills").into_iter().flat_map(Node::texts);
        for (node, name) in
            listed.flat_map(|(node, text)| split_list(text).map(move |name| (node, name)))
        {
            match self.skills.get(name) {
                Some(skill) => skills.push(skill.definition.clone()),
                None => {
                    let names: Vec<&str> = self.skills.keys().map(String::as_str).collect();
                    let text = format!("unknown skill {name:?}; {}", suggestion(name, names));
                    findings.error(&node.location, dotted(table, "skills"), text);
                }
            }
        }
        skills
    }
}

/// Reads all agents. Of two agents with one name the second is an error; tables come before files,
/// and files are in the order of their paths. An agent that is invalid now stays as it was in
/// `previous`, unless another agent has taken its name.
pub fn read(
    table: &Table,
    files: &Files,
    known: KnownNames<'_>,
    previous: &Agents,
    findings: &mut Findings,
) -> Agents {
    let mut agents = Agents::new();
    let mut invalid = BTreeSet::new();
    for (key, agent) in read_each(table, files, known, findings) {
        let Some(agent) = agent else {
            invalid.insert(key);
            continue;
        };
        let name = agent.definition.name.clone();
        if let Some(other) = agents.get(&name) {
            let text = format!("is already defined in {}; rename one of them", other.source);
            findings.error(&agent.source, dotted("agents", &name), text);
        } else {
            agents.insert(name, agent);
        }
    }
    let is_unreadable = |key: &AgentKey| match key {
        AgentKey::Table(_) => false,
        AgentKey::File(file) => {
            files.unreadable.iter().any(|folder| Path::new(&**file).starts_with(folder))
        }
    };
    for (name, agent) in previous {
        if invalid.contains(&agent.key) || is_unreadable(&agent.key) {
            agents.entry(name.clone()).or_insert_with(|| agent.clone());
        }
    }
    agents
}

/// Every agent of the tables and files; `None` for those that are invalid.
fn read_each(
    table: &Table,
    files: &Files,
    known: KnownNames<'_>,
    findings: &mut Findings,
) -> Vec<(AgentKey, Option<Agent>)> {
    let mut read = Vec::new();
    for (name, node) in entries(table, "agents") {
        let agent = table::read(name, node, files, known, findings);
        read.push((AgentKey::Table(name.clone()), agent));
    }
    for file in &files.agents {
        let key = AgentKey::File(file.display.clone());
        match markdown::read(file, known, findings) {
            Ok(Some(agent)) => read.push((key, Some(agent))),
            Ok(None) => {}
            Err(markdown::InvalidAgent) => read.push((key, None)),
        }
    }
    read
}

/// Warns of agents that may delegate where the depth limit does not allow it.
pub fn warn_of_idle_delegation(agents: &Agents, limits: &Limits, findings: &mut Findings) {
    if limits.max_depth > DEFAULT_MAX_DEPTH {
        return;
    }
    for agent in agents.values().filter(|agent| agent.definition.config.may_delegate) {
        let name = dotted(&dotted("agents", &agent.definition.name), "may_delegate");
        let text = "has no effect, because limits.max_depth is 1";
        findings.warning(&agent.source, name, text);
    }
}

/// Limits of the cost need prices: a spawn of such an agent would be refused. A fallback without
/// prices is passed over.
pub fn check_prices(
    agents: &Agents,
    names: &ModelNames,
    models: &BTreeMap<String, ModelConfig>,
    findings: &mut Findings,
) {
    for (name, agent) in agents {
        let config = &agent.definition.config;
        let model = if config.model.is_empty() {
            names.default.as_deref()
        } else {
            names.resolve(&config.model)
        };
        let (Some(model), Some(_)) = (model, config.budget.max_cost_nanousd) else { continue };
        let Some(known) = models.get(model) else { continue };
        let setting = dotted(&dotted("agents", name), "max_cost_usd");
        if known.prices.is_none() {
            let text = format!("needs the prices of its model; set models.{model}.prices");
            findings.error(&agent.source, setting, text);
            continue;
        }
        for fallback in &known.fallback {
            let other = names.resolve(fallback).and_then(|name| models.get(name));
            if other.is_some_and(|other| other.prices.is_none()) {
                let text = format!("never falls back to {fallback}, which has no prices");
                findings.warning(&agent.source, setting.clone(), text);
            }
        }
    }
}

/// A description as one line. Files of other programs contain a literal `\n` where YAML would not
/// allow a line break.
pub(super) fn one_line(text: &str) -> String {
    text.replace("\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}
