//! The placeholders of a prompt for the tools, skills and subagents of its agent, and the sections
//! that hold them.

use crate::{OrchestratorConfig, Skill};

pub(crate) const TOOLS: &str = "${_installed_tools}";
pub(crate) const SKILLS: &str = "${_installed_skills}";
pub(crate) const SUBAGENTS: &str = "${_installed_subagents}";

const NONE: &str = "(none)";

/// Adds the sections for which the prompt has no placeholder. The section of skills is added
/// whenever there are skills.
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

/// Whether a prompt has the placeholder of subagents.
pub(crate) fn has_subagents_placeholder(prompt: &str) -> bool {
    prompt.contains(SUBAGENTS)
}

/// A list of subagents for a prompt, one per line, from names and descriptions.
pub fn subagent_lines<'a>(agents: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let lines = agents.into_iter().map(|(name, description)| format!("- {name}: {description}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// An orchestrator's prompt with its placeholders filled in, and with a section of subagents if it
/// has no placeholder for them.
pub fn fill_orchestrator_prompt(parent: &OrchestratorConfig, subagents: &str) -> String {
    let mut prompt = parent.system_prompt.clone().unwrap_or_default();
    if !prompt.contains(SUBAGENTS) {
        prompt = format!("{prompt}\n\n## Available Subagents\n{SUBAGENTS}").trim_start().to_owned();
    }
    let tools: Vec<&str> = parent.tools.iter().map(String::as_str).collect();
    let prompt = with_sections(&prompt, false, &parent.skills);
    PlaceholderValues { tools: &tools, skills: &parent.skills, subagents }.fill(&prompt)
}

/// The values of the placeholders.
pub(crate) struct PlaceholderValues<'a> {
    pub tools: &'a [&'a str],
    pub skills: &'a [Skill],
    /// One per line.
    pub subagents: &'a str,
}

impl PlaceholderValues<'_> {
    /// Fills in the placeholders in one pass: a placeholder inside a value is left alone.
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
        let values = PlaceholderValues { tools: &["fetch", "query"], skills, subagents: "" };
        values.fill(&with_sections(prompt, sections, skills))
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
    fn a_prompt_names_the_skills_of_its_agent() {
        assert_eq!(shown("You research.", false, &[]), "You research.");
        assert_eq!(
            shown("You research.", false, &[skill()]),
            "You research.\n\n## Available Skills\n### sql\nReads tables\n\nCount first. ${_installed_tools}"
        );
    }

    #[test]
    fn row_2_34_without_subagents_there_are_none_and_other_dollars_stay() {
        let prompt = "${_installed_subagents} ${_installed_other} ${HOME} $";
        let nothing = PlaceholderValues { tools: &[], skills: &[], subagents: "" };
        assert_eq!(nothing.fill(prompt), "(none) ${_installed_other} ${HOME} $");
        let subagents = "- researcher: Investigates";
        assert_eq!(
            PlaceholderValues { tools: &[], skills: &[], subagents }.fill(prompt).lines().next(),
            Some("- researcher: Investigates ${_installed_other} ${HOME} $")
        );
    }
}
