use adjutant_agent::{OrchestratorConfig, fill_orchestrator_prompt, subagent_lines};

/// The categories that a call may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Categories {
    Registered,
    /// Also any other name, which makes a free-form agent.
    AnyName,
}

/// The session's own system prompt, with the names of the agents that can be called.
pub fn orchestrator_prompt<'a>(
    parent: &OrchestratorConfig,
    agents: impl IntoIterator<Item = (&'a str, &'a str)>,
    categories: Categories,
) -> String {
    let made_up = ("any other name of a-z, 0-9, _ and -", "a specialist of that name is made up");
    let made_up = (categories == Categories::AnyName).then_some(made_up);
    fill_orchestrator_prompt(parent, &subagent_lines(agents.into_iter().chain(made_up)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_2_34_the_orchestrators_prompt_lists_its_subagents() {
        let agents = [("researcher", "Investigates"), ("writer", "Writes")];
        let parent = OrchestratorConfig {
            system_prompt: Some("You lead.".to_owned()),
            ..OrchestratorConfig::default()
        };
        assert_eq!(
            orchestrator_prompt(&parent, agents, Categories::Registered),
            "You lead.\n\n## Available Subagents\n- researcher: Investigates\n- writer: Writes"
        );
        let prompt = "Team: ${_installed_subagents}. Tools: ${_installed_tools}".to_owned();
        let own = OrchestratorConfig {
            system_prompt: Some(prompt),
            tools: vec!["fetch".to_owned()],
            ..OrchestratorConfig::default()
        };
        assert_eq!(
            orchestrator_prompt(&own, [], Categories::AnyName),
            "Team: - any other name of a-z, 0-9, _ and -: a specialist of that name is made up. Tools: - fetch"
        );
        assert_eq!(
            orchestrator_prompt(&OrchestratorConfig::default(), [], Categories::Registered),
            "## Available Subagents\n(none)"
        );
    }
}
