//! What a prompt tells of what its reader has: the placeholders of tools, skills and subagents, and the sections around them.

use crate::{Parent, Skill};

pub(crate) const TOOLS: &str = "${_installed_tools}";
pub(crate) const SKILLS: &str = "${_installed_skills}";
pub(crate) const SUBAGENTS: &str = "${_installed_subagents}";

const NONE: &str = "(none)";

/// A prompt with the sections that it has no placeholder for. Skills are told of wherever there are any.
pub(crate) fn with_sections(prompt: &str, sections: bool, skills: &[Skill]) -> String {
    let mut prompt = prompt.to_owned();
    if sections && !prompt.contains(TOOLS) {
        prompt.push_str(&format!("\n\n## Available Tools\n{TOOLS}"));
    }
    if (sections || !skills.is_empty()) && !prompt.contains(SKILLS) {
        prompt.push_str(&format!("\n\n## Available Skills\n{SKILLS}"));
    }
    prompt.trim_start_matches('\n').to_owned()
}

/// Whether a prompt has a place for subagents.
pub(crate) fn names_subagents(prompt: &str) -> bool {
    prompt.contains(SUBAGENTS)
}

/// Subagents by their names and descriptions, a line each, as a prompt lists them.
pub fn subagent_lines<'a>(agents: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let lines = agents.into_iter().map(|(name, description)| format!("- {name}: {description}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// An orchestrator's prompt with its placeholders filled in, and a section on its subagents if it has no place for them.
pub fn render_for_orchestrator(parent: &Parent, subagents: &str) -> String {
    let mut prompt = parent.system_prompt.clone().unwrap_or_default();
    if !prompt.contains(SUBAGENTS) {
        prompt = format!("{prompt}\n\n## Available Subagents\n{SUBAGENTS}").trim_start().to_owned();
    }
    let tools: Vec<&str> = parent.tools.iter().map(String::as_str).collect();
    let prompt = with_sections(&prompt, false, &parent.skills);
    Inventory { tools: &tools, skills: &parent.skills, subagents }.fill(&prompt)
}

/// What a reader has.
pub(crate) struct Inventory<'a> {
    pub tools: &'a [&'a str],
    pub skills: &'a [Skill],
    /// A line each.
    pub subagents: &'a str,
}

impl Inventory<'_> {
    /// In one pass: a placeholder in what is filled in stays as it is.
    pub fn fill(&self, prompt: &str) -> String {
        let mut filled = String::with_capacity(prompt.len());
        let mut rest = prompt;
        while let Some(at) = rest.find("${_installed_") {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            let known = [
                (TOOLS, self.tools()),
                (SKILLS, self.skills()),
                (SUBAGENTS, or_none(self.subagents)),
            ];
            match known.into_iter().find(|(placeholder, _)| rest.starts_with(placeholder)) {
                Some((placeholder, text)) => {
                    filled.push_str(&text);
                    rest = &rest[placeholder.len()..];
                }
                None => {
                    filled.push_str("${");
                    rest = &rest[2..];
                }
            }
        }
        filled.push_str(rest);
        filled
    }

    fn tools(&self) -> String {
        or_none(&self.tools.iter().map(|tool| format!("- {tool}")).collect::<Vec<_>>().join("\n"))
    }

    fn skills(&self) -> String {
        let skill = |skill: &Skill| {
            let parts = [&skill.description, &skill.instructions].map(|part| part.trim());
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            format!("### {}\n{}", skill.name, parts.join("\n\n"))
        };
        or_none(&self.skills.iter().map(skill).collect::<Vec<_>>().join("\n\n"))
    }
}

fn or_none(text: &str) -> String {
    if text.is_empty() { NONE.to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill() -> Skill {
        Skill {
            name: "sql".to_owned(),
            description: "Reads tables".to_owned(),
            instructions: "Count first. ${_installed_tools}".to_owned(),
            tools: Vec::new(),
        }
    }

    fn shown(prompt: &str, sections: bool, skills: &[Skill]) -> String {
        let inventory = Inventory { tools: &["fetch", "query"], skills, subagents: "" };
        inventory.fill(&with_sections(prompt, sections, skills))
    }

    #[test]
    fn row_2_34_sections_are_appended_unless_the_placeholder_is_there() {
        assert_eq!(
            shown("You research.", true, &[]),
            "You research.\n\n## Available Tools\n- fetch\n- query\n\n## Available Skills\n(none)"
        );
        assert_eq!(
            shown("You research.\n\n## My Tools\n${_installed_tools}", true, &[]),
            "You research.\n\n## My Tools\n- fetch\n- query\n\n## Available Skills\n(none)"
        );
        let both = "${_installed_skills} / ${_installed_tools}";
        assert_eq!(shown(both, true, &[]), "(none) / - fetch\n- query");
        assert_eq!(
            shown("", true, &[]),
            "## Available Tools\n- fetch\n- query\n\n## Available Skills\n(none)"
        );
    }

    #[test]
    fn skills_are_told_of_wherever_there_are_any() {
        assert_eq!(shown("You research.", false, &[]), "You research.");
        assert_eq!(
            shown("You research.", false, &[skill()]),
            "You research.\n\n## Available Skills\n### sql\nReads tables\n\nCount first. ${_installed_tools}"
        );
    }

    #[test]
    fn row_2_34_without_subagents_there_are_none_and_other_dollars_stay() {
        let prompt = "${_installed_subagents} ${_installed_other} ${HOME} $";
        let nothing = Inventory { tools: &[], skills: &[], subagents: "" };
        assert_eq!(nothing.fill(prompt), "(none) ${_installed_other} ${HOME} $");
        let subagents = "- researcher: Investigates";
        assert_eq!(
            Inventory { tools: &[], skills: &[], subagents }.fill(prompt).lines().next(),
            Some("- researcher: Investigates ${_installed_other} ${HOME} $")
        );
    }
}
