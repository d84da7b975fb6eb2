use adjutant_agent::AgentDraft;

use super::super::files::Files;
use super::super::problem::Findings;
use super::super::schema::dotted;
use super::super::tree::Node;
use super::reader::AgentReader;
use super::{Agent, AgentKey, KnownNames};

/// The agent of the table `[agents.NAME]`. The table has been checked: settings with errors are
/// reported and left out.
pub(super) fn read(
    name: &str,
    node: &Node,
    files: &Files,
    known: KnownNames<'_>,
    findings: &mut Findings,
) -> Option<Agent> {
    let settings = node.as_table()?;
    let table = dotted("agents", name);
    let is_of_table = |setting: &str| {
        setting.strip_prefix(&table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut reader = AgentReader { table: &table, source: &node.key, settings, known, findings };
    reader.check_name(name, &node.key);
    let system_prompt = prompt(&mut reader, files);
    let tools = known.tools.in_table(settings, &table, reader.findings);
    let model = model(&mut reader);
    let skills = reader.skills();
    reader.require_description();
    if reader.findings.errors.iter().any(|problem| is_of_table(&problem.name)) {
        return None;
    }
    let draft = AgentDraft {
        name: name.to_owned(),
        system_prompt,
        tools: Some(tools),
        model,
        skills,
        ..reader.draft()
    };
    let definition = reader.define(draft)?;
    Some(Agent { definition, source: node.key.clone(), key: AgentKey::Table(name.to_owned()) })
}

fn prompt(reader: &mut AgentReader<'_>, files: &Files) -> Option<String> {
    const FILE: &str = "system_prompt_file";
    match (reader.settings.get("system_prompt"), reader.settings.get(FILE)) {
        (Some(node), None) => node.as_text().map(str::to_owned),
        (None, Some(node)) => match files.prompts.get(&node.location)? {
            Ok(text) if text.trim().is_empty() => {
                reader.error(&node.location, FILE, "the file is empty");
                None
            }
            Ok(text) => Some(text.trim().to_owned()),
            Err(problem) => {
                reader.error(&node.location, FILE, problem.to_string());
                None
            }
        },
        (Some(_), Some(node)) => {
            reader.error(&node.key, FILE, "conflicts with system_prompt; remove one of them");
            None
        }
        (None, None) => {
            reader.missing("system_prompt", "is required, or system_prompt_file");
            None
        }
    }
}

/// An agent without a model uses the model of the session.
fn model(reader: &mut AgentReader<'_>) -> Option<String> {
    let (node, name) = reader.text("model")?;
    let (location, name) = (node.location.clone(), name.to_owned());
    let model = reader.known.models.resolve(&name).map(str::to_owned);
    if model.is_none() {
        let text = reader.known.models.unknown(&name);
        reader.findings.unusable(&location, dotted(reader.table, "model"), text);
        return Some(name).filter(|_| reader.findings.keeps_unknown_names());
    }
    model
}
