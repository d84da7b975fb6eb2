//! Skills, from tables of the config and from folders with a `SKILL.md`.

use std::collections::BTreeMap;
use std::path::Path;

use adjutant_agent::check_agent_name;

use super::agents::one_line;
use super::assemble::entries;
use super::check::split_list;
use super::files::{Files, MarkdownFile};
use super::front_matter::{self, FrontMatter};
use super::problem::{Findings, Location};
use super::schema::{Kind, Setting, dotted, settings};
use super::tools::ToolNames;
use super::tree::{Node, Table};

pub const SETTINGS: &[Setting] = settings! {
    "skills.*.description" => Kind::Text,
    "skills.*.instructions" => Kind::Text,
    "skills.*.tools" => Kind::TextList,
};

/// A skill of the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub definition: adjutant_agent::Skill,
    pub source: Location,
}

/// All skills by name.
pub type Skills = BTreeMap<String, Skill>;

/// Reads all skills. Of two skills with one name the second is an error.
pub fn read(table: &Table, files: &Files, tools: &ToolNames, findings: &mut Findings) -> Skills {
    let mut skills = Skills::new();
    let of_tables: Vec<Skill> = entries(table, "skills")
        .filter_map(|(name, node)| from_table(name, node, tools, findings))
        .collect();
    let of_files: Vec<Skill> =
        files.skills.iter().filter_map(|file| from_markdown(file, tools, findings)).collect();
    for skill in of_tables.into_iter().chain(of_files) {
        let name = skill.definition.name.clone();
        match skills.get(&name) {
            Some(other) => {
                let text = format!("is already defined in {}; rename one of them", other.source);
                findings.error(&skill.source, dotted("skills", &name), text);
            }
            None => drop(skills.insert(name, skill)),
        }
    }
    skills
}

fn from_table(
    name: &str,
    node: &Node,
    known: &ToolNames,
    findings: &mut Findings,
) -> Option<Skill> {
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
    let description =
        one_line(&text("description", "is required: one line that says what the skill is for"));
    let instructions =
        text("instructions", "is required: the text that is added to the prompts of agents");
    let tools = known.in_table(settings, &table, findings);
    let definition =
        adjutant_agent::Skill { name: name.to_owned(), description, instructions, tools };
    (findings.errors.len() == before).then(|| Skill { definition, source: node.key.clone() })
}

/// Reads a `SKILL.md`. Tools that only another program has are ignored with a warning.
fn from_markdown(file: &MarkdownFile, known: &ToolNames, findings: &mut Findings) -> Option<Skill> {
    let source = Location::Line { file: file.display.clone(), line: 1, column: 1 };
    let front = file.text.clone().and_then(|text| front_matter::read(&file.display, &text));
    let FrontMatter { settings, body } = match front {
        Ok(Some(front)) => front,
        Ok(None) => {
            findings.error(
                &source,
                "",
                "has no front matter (a first line ---): a skill needs a name and a description",
            );
            return None;
        }
        Err(problem) => {
            findings.errors.push(problem);
            return None;
        }
    };
    let before = findings.errors.len();
    let text = |setting: &str| {
        settings.get(setting).and_then(Node::as_text).map(str::trim).unwrap_or_default()
    };
    let name = Some(text("name"))
        .filter(|name| !name.is_empty())
        .map_or_else(|| folder(&file.path), str::to_owned);
    check_name(&name, &source, "name", findings);
    let description = one_line(text("description"));
    if description.is_empty() {
        findings.missing(
            &source,
            "description",
            "is required: one line that says what the skill is for",
        );
    }
    if body.is_empty() {
        findings.missing(
            &source,
            "instructions",
            "are required: write them below the front matter",
        );
    }
    let mut tools = Vec::new();
    let allowed = settings.get("allowed-tools");
    for written in allowed.into_iter().flat_map(Node::texts).flat_map(|(_, text)| names(text)) {
        match known.of_other_program(written) {
            Ok(Some(name)) if !tools.contains(&name) => tools.push(name),
            Ok(_) => {}
            Err(why) => {
                findings.warning(&source, "allowed-tools", format!("{written} is ignored: {why}"))
            }
        }
    }
    let definition = adjutant_agent::Skill { name, description, instructions: body, tools };
    (findings.errors.len() == before).then_some(Skill { definition, source })
}

/// Separated by commas, or by spaces if there is no comma.
fn names(text: &str) -> Vec<&str> {
    if text.contains(',') || text.contains('(') {
        return split_list(text).collect();
    }
    text.split_whitespace().collect()
}

fn check_name(name: &str, location: &Location, setting: &str, findings: &mut Findings) {
    if check_agent_name(name).is_err() {
        let text = "a skill name has 1 to 64 characters: a-z, 0-9, _ and -";
        findings.error(location, setting, text);
    }
}

fn folder(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name);
    folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
