//! Skills, from tables of the config and from folders with a `SKILL.md`.

use std::collections::BTreeMap;
use std::path::Path;

use adjutant_agent::{SUBAGENT, check_agent_name};

use super::agents::{one_line, our_name};
use super::check::split_list;
use super::files::{AgentFile, Files};
use super::front_matter::{self, FrontMatter};
use super::known::{Found, ToolNames};
use super::problem::{Findings, Place};
use super::schema::dotted;
use super::tree::{Node, Table};

/// A skill that agents can be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub definition: adjutant_agent::Skill,
    /// Where it is written.
    pub source: Place,
}

/// All skills by name.
pub type Skills = BTreeMap<String, Skill>;

/// Every skill of the config; of two of one name the second is an error.
pub fn read(table: &Table, files: &Files, tools: &ToolNames, findings: &mut Findings) -> Skills {
    let mut skills = Skills::new();
    let tables = table.get("skills").and_then(Node::as_table).into_iter().flatten();
    let of_tables: Vec<Skill> =
        tables.filter_map(|(name, node)| from_table(name, node, tools, findings)).collect();
    let of_files: Vec<Skill> =
        files.skills.iter().filter_map(|file| from_markdown(file, tools, findings)).collect();
    for skill in of_tables.into_iter().chain(of_files) {
        let name = skill.definition.name.clone();
        match skills.get(&name) {
            Some(other) => {
                let text = format!("{} has a skill of this name too; rename one of them", other.source);
                findings.error(&skill.source, dotted("skills", &name), text);
            }
            None => drop(skills.insert(name, skill)),
        }
    }
    skills
}

fn from_table(name: &str, node: &Node, known: &ToolNames, findings: &mut Findings) -> Option<Skill> {
    let settings = node.as_table()?;
    let table = dotted("skills", name);
    let before = findings.errors.len();
    check_name(name, &node.key, &table, findings);
    let mut text = |setting: &str, about: &str| {
        let text = settings.get(setting).and_then(Node::as_text);
        if text.is_none() {
            findings.missing(&node.key, dotted(&table, setting), about);
        }
        text.unwrap_or_default().trim().to_owned()
    };
    let description = one_line(&text("description", "is missing: one line that says what the skill is for"));
    let instructions = text("instructions", "is missing: what an agent with the skill is told");
    let mut tools = Vec::new();
    for (node, tool) in settings.get("tools").into_iter().flat_map(Node::texts) {
        match known.find(tool) {
            _ if tool == SUBAGENT => {}
            Found::Here | Found::Perhaps => tools.push(tool.to_owned()),
            Found::No(why) => findings.error(&node.place, dotted(&table, "tools"), why),
        }
    }
    let definition = adjutant_agent::Skill { name: name.to_owned(), description, instructions, tools };
    (findings.errors.len() == before).then(|| Skill { definition, source: node.key.clone() })
}

/// As other programs write them: what they allow that we have not is left out.
fn from_markdown(file: &AgentFile, known: &ToolNames, findings: &mut Findings) -> Option<Skill> {
    let source = Place::Line { file: file.shown.clone(), line: 1, column: 1 };
    let front = file.text.clone().and_then(|text| front_matter::read(&file.shown, &text));
    let FrontMatter { settings, body } = match front {
        Ok(Some(front)) => front,
        Ok(None) => {
            findings.error(&source, "", "it does not begin with ---: a skill needs name and description");
            return None;
        }
        Err(problem) => {
            findings.errors.push(problem);
            return None;
        }
    };
    let before = findings.errors.len();
    let text =
        |setting: &str| settings.get(setting).and_then(Node::as_text).map(str::trim).unwrap_or_default();
    let name =
        Some(text("name")).filter(|name| !name.is_empty()).map_or_else(|| folder(&file.path), str::to_owned);
    check_name(&name, &source, "name", findings);
    let description = one_line(text("description"));
    if description.is_empty() {
        findings.missing(&source, "description", "is missing: one line that says what the skill is for");
    }
    if body.is_empty() {
        findings.missing(&source, "instructions", "are missing: write them below the front matter");
    }
    let mut tools = Vec::new();
    let allowed = settings.get("allowed-tools");
    for written in allowed.into_iter().flat_map(Node::texts).flat_map(|(_, text)| names(text)) {
        let found = our_name(written, known).and_then(|name| match known.find(&name) {
            Found::Here | Found::Perhaps => Ok(name),
            Found::No(_) if name == SUBAGENT => Ok(name),
            Found::No(why) => Err(why),
        });
        match found {
            Ok(name) if name == SUBAGENT || tools.contains(&name) => {}
            Ok(name) => tools.push(name),
            Err(why) => findings.warning(&source, "allowed-tools", format!("{written} is left out: {why}")),
        }
    }
    let definition = adjutant_agent::Skill { name, description, instructions: body, tools };
    (findings.errors.len() == before).then_some(Skill { definition, source })
}

/// With commas, or with spaces where there are none.
fn names(text: &str) -> Vec<&str> {
    if text.contains(',') || text.contains('(') {
        return split_list(text).collect();
    }
    text.split_whitespace().collect()
}

fn check_name(name: &str, place: &Place, setting: &str, findings: &mut Findings) {
    if check_agent_name(name).is_err() {
        findings.error(place, setting, "a skill's name has 1 to 64 of a-z, 0-9, _ and -");
    }
}

fn folder(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name);
    folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
