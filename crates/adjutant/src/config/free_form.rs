//! Agents that a name makes which nobody registered.

use adjutant_agent::{AgentDefinition, AgentDraft, DefinitionLimits, SUBAGENT};

use super::agents::Known;
use super::known::Found;
use super::problem::Findings;
use super::schema::dotted;
use super::tree::{Node, Table, Value};

/// What a free-form agent is told if the operator says nothing else.
const SYSTEM_PROMPT: &str = "You are ${_category}, a specialist whose name says what you are for. Do the task that you are given, thoroughly and nothing else, and report what you found.";

/// What such a name stands for, if the operator allows it.
pub fn understand(table: &Table, known: Known<'_>, findings: &mut Findings) -> Option<AgentDefinition> {
    let settings = table.get("free_form")?.as_table()?;
    let mut tools = Vec::new();
    for (node, name) in settings.get("tools").into_iter().flat_map(Node::texts) {
        match known.tools.find(name) {
            _ if name == SUBAGENT => {}
            Found::Here | Found::Perhaps => tools.push(name.to_owned()),
            Found::No(why) => findings.error(&node.place, dotted("free_form", "tools"), why),
        }
    }
    let draft = AgentDraft {
        name: "free-form".to_owned(),
        description: Some("Made up by its name".to_owned()),
        system_prompt: Some(text(settings, "system_prompt").unwrap_or(SYSTEM_PROMPT).to_owned()),
        tools: Some(tools),
        max_turns: settings.get("max_turns").and_then(Node::as_integer),
        skills: known.skills_in(settings, "free_form", findings),
        ..AgentDraft::default()
    };
    let enabled = settings.get("enabled").is_some_and(|node| node.value == Value::Flag(true));
    let limits = DefinitionLimits {
        max_turns: known.max_turns_ceiling,
        max_prompt_tokens: None,
        ..DefinitionLimits::default()
    };
    draft.check(&limits).ok().filter(|_| enabled)
}

fn text<'a>(settings: &'a Table, setting: &str) -> Option<&'a str> {
    settings.get(setting).and_then(Node::as_text)
}
