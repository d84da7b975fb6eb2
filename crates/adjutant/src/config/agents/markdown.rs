use std::path::Path;

use adjutant_agent::AgentDraft;

use super::super::check::{convert, split_list};
use super::super::files::MarkdownFile;
use super::super::front_matter::{self, FrontMatter};
use super::super::problem::{Findings, Location};
use super::super::schema::{kind_of, names_in};
use super::super::tree::{Node, Table};
use super::reader::AgentReader;
use super::{Agent, AgentKey, KnownNames};

/// The file should define an agent but does not. The problems have been reported.
pub(super) struct InvalidAgent;

/// The agent of a Markdown file; `None` if the file has no front matter.
pub(super) fn read(
    file: &MarkdownFile,
    known: KnownNames<'_>,
    findings: &mut Findings,
) -> Result<Option<Agent>, InvalidAgent> {
    let source = Location::Line { file: file.display.clone(), line: 1, column: 1 };
    let front = file.text.clone().and_then(|text| front_matter::read(&file.display, &text));
    let FrontMatter { settings, body } = match front {
        Ok(Some(front)) => front,
        Ok(None) => {
            if !is_readme(&file.path) {
                let text = "has no front matter (a first line ---), so it is not an agent";
                findings.warning(&source, "", text);
            }
            return Ok(None);
        }
        Err(problem) => {
            findings.errors.push(problem);
            return Err(InvalidAgent);
        }
    };
    let before = findings.errors.len();
    let (name, name_location) =
        match settings.get("name").and_then(|node| Some((node.as_text()?, node))) {
            Some((name, node)) => (name.trim().to_owned(), node.location.clone()),
            None => (stem(&file.path), source.clone()),
        };
    let settings = convert_settings(settings, findings);
    let mut reader =
        AgentReader { table: "", source: &source, settings: &settings, known, findings };
    reader.check_name(&name, &name_location);
    if body.is_empty() {
        reader.missing("system_prompt", "is required: write it below the front matter");
    }
    let tools = tools(&mut reader);
    let model = model(&mut reader);
    let skills = reader.skills();
    reader.require_description();
    if reader.findings.errors.len() > before {
        return Err(InvalidAgent);
    }
    let draft = AgentDraft {
        name,
        system_prompt: Some(body),
        tools: Some(tools),
        model,
        skills,
        ..reader.draft()
    };
    let definition = reader.define(draft).ok_or(InvalidAgent)?;
    Ok(Some(Agent { definition, source, key: AgentKey::File(file.display.clone()) }))
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

fn is_readme(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem.eq_ignore_ascii_case("readme"))
}

/// Converts the settings that Adjutant knows to their kinds. Settings of other programs are
/// ignored.
fn convert_settings(settings: Table, findings: &mut Findings) -> Table {
    let known = names_in("agents.*");
    settings
        .into_iter()
        .map(|(name, node)| (if name == "maxTurns" { "max_turns".to_owned() } else { name }, node))
        .filter_map(|(name, node)| {
            let kind = match name.as_str() {
                "disallowedTools" => kind_of("agents.*.tools"),
                // The body is the prompt.
                "system_prompt" | "system_prompt_file" => None,
                name if known.contains(&name) => kind_of(&format!("agents.*.{name}")),
                _ => None,
            }?;
            Some((name.clone(), convert(kind, &name, node, findings)?))
        })
        .collect()
}

/// A file that was written for another program names that program's models. One that no alias maps
/// to a model here gets the default model and a warning.
fn model(reader: &mut AgentReader<'_>) -> Option<String> {
    let (node, name) = reader.text("model").filter(|(_, name)| name.trim() != "inherit")?;
    let (location, name) = (node.location.clone(), name.trim().to_owned());
    if let Some(model) = reader.known.models.resolve(&name) {
        return Some(model.to_owned());
    }
    let default = reader.known.models.default.clone();
    let instead = default.as_deref().unwrap_or("the session's model");
    let text = format!("unknown model {name:?}, using {instead}; map it in [model_aliases]");
    reader.warning(&location, "model", text);
    default
}

/// A tool that only another program has is ignored with a warning: the file may be in use there
/// too.
fn tools(reader: &mut AgentReader<'_>) -> Vec<String> {
    let Some(node) = reader.settings.get("tools") else {
        let source = reader.source.clone();
        let text = "is missing, so the agent has no tools; write `tools: []` if that is intended";
        reader.warning(&source, "tools", text);
        return Vec::new();
    };
    let list = |node: &Node| -> Vec<String> {
        node.texts().flat_map(|(_, text)| split_list(text)).map(str::to_owned).collect()
    };
    let disallowed = reader.settings.get("disallowedTools").map(list).unwrap_or_default();
    let location = node.location.clone();
    let mut tools = Vec::new();
    for written in list(node).into_iter().filter(|tool| !disallowed.contains(tool)) {
        match reader.known.tools.of_other_program(&written) {
            Ok(name) => tools.extend(name),
            Err(why) => reader.warning(&location, "tools", format!("{written} is ignored: {why}")),
        }
    }
    tools
}
