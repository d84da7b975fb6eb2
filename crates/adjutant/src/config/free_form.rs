//! `[free_form]`: the agent that runs a task for an agent name that is not registered.

use adjutant_agent::{AgentDefinition, AgentDraft, DefinitionLimits};

use super::agents::KnownNames;
use super::problem::Findings;
use super::schema::{Kind, Setting, at_least, settings};
use super::tree::{Node, Table};

pub const SETTINGS: &[Setting] = settings! {
    "free_form.enabled" => Kind::Boolean,
    "free_form.system_prompt" => Kind::Text,
    "free_form.tools" => Kind::TextList,
    "free_form.skills" => Kind::TextList,
    "free_form.max_turns" => at_least(1),
};

const SYSTEM_PROMPT: &str = "You are ${_category}, a specialist whose name says what you are for. Do the task that you are given, thoroughly and nothing else, and report what you found.";

/// The definition that every unregistered name gets, if the operator has enabled it.
pub fn read(
    table: &Table,
    known: KnownNames<'_>,
    findings: &mut Findings,
) -> Option<AgentDefinition> {
    let settings = table.get("free_form")?.as_table()?;
    let prompt = settings.get("system_prompt").and_then(Node::as_text).unwrap_or(SYSTEM_PROMPT);
    let draft = AgentDraft {
        name: "free-form".to_owned(),
        description: Some("Made up by its name".to_owned()),
        system_prompt: Some(prompt.to_owned()),
        tools: Some(known.tools.in_table(settings, "free_form", findings)),
        max_turns: settings.get("max_turns").and_then(Node::as_integer),
        skills: known.skills_in(settings, "free_form", findings),
        ..AgentDraft::default()
    };
    let enabled = settings.get("enabled").is_some_and(Node::is_true);
    let limits = DefinitionLimits {
        max_turns: known.max_turns_ceiling,
        max_prompt_tokens: None,
        ..DefinitionLimits::default()
    };
    draft.check(&limits).ok().filter(|_| enabled)
}
