//! Inheritance: how a task's prompt and tools are made from its agent, its skills and its session's
//! orchestrator.

use serde::{Deserialize, Serialize};

use crate::prompt_placeholders::PlaceholderValues;
use crate::word_enum::word_enum;
use crate::{AgentConfig, ErrorCode, Refusal, SUBAGENT, Skill, prompt_placeholders, prompts};

word_enum! {
    /// How to handle an inherited tool that the agent already has.
    #[derive(Default)]
    ToolConflict {
        /// The agent keeps its own.
        #[default]
        Skip = "skip",
        Error = "error",
        /// The session's tool replaces it.
        Override = "override",
    }
}

word_enum! {
    /// How to handle an inherited tool that the session does not have.
    #[derive(Default)]
    MissingSkill {
        /// The agent runs without it.
        #[default]
        Warn = "warn",
        Error = "error",
    }
}

/// What an agent inherits from its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InheritancePolicy {
    /// If false, nothing is inherited.
    pub enabled: bool,
    /// Appends the session's system prompt to the agent's.
    pub inherit_system_prompt: bool,
    /// The names of tools to inherit from the session, with the skills that they belong to.
    pub inherit_tools: Vec<String>,
    /// Accepted for compatibility, without effect: a session's permissions apply to all of its
    /// tasks.
    pub inherit_permissions: bool,
    pub tool_conflict_policy: ToolConflict,
    pub missing_skill_policy: MissingSkill,
}

impl Default for InheritancePolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            inherit_system_prompt: true,
            inherit_tools: Vec::new(),
            inherit_permissions: false,
            tool_conflict_policy: ToolConflict::Skip,
            missing_skill_policy: MissingSkill::Warn,
        }
    }
}

/// The configuration of a session's orchestrator, for agents to inherit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OrchestratorConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    pub tools: Vec<String>,
    pub skills: Vec<Skill>,
}

impl OrchestratorConfig {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The additions of one delegation to its agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentExtras {
    /// Added after the agent's own; duplicates are dropped.
    pub skills: Vec<Skill>,
    /// Used if the agent has no policy of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inheritance: Option<InheritancePolicy>,
    /// The prompt ends with sections that name its tools and skills.
    pub sections: bool,
    /// The prompt explains how to give an answer with a summary.
    pub envelope: bool,
}

impl AgentExtras {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds them to an agent.
    pub fn add_to(&self, mut config: AgentConfig) -> AgentConfig {
        config.skills.extend(self.skills.iter().cloned());
        config.inheritance = config.inheritance.or_else(|| self.inheritance.clone());
        config.sections |= self.sections;
        config.envelope |= self.envelope;
        config
    }
}

/// An agent after inheritance, ready to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedAgent {
    /// Its prompt and tools are complete; nothing is left to inherit.
    pub config: AgentConfig,
    /// The inherited tools that the session does not have.
    pub missing: Vec<String>,
}

impl AgentConfig {
    /// Makes the prompt and the tools of a task from the agent, its skills and what it inherits. It
    /// is a pure function, so that a task that is resumed after a crash runs with the same agent.
    pub fn resolve(&self) -> Result<ResolvedAgent, Refusal> {
        self.resolve_with_subagents("")
    }

    /// Whether its prompt has the placeholder for subagents.
    pub fn names_subagents(&self) -> bool {
        let inherited = self.parent.as_ref().and_then(|parent| parent.system_prompt.as_deref());
        [Some(self.system_prompt.as_str()), inherited]
            .into_iter()
            .flatten()
            .any(prompt_placeholders::has_subagents_placeholder)
    }

    /// Like [`AgentConfig::resolve`], for an agent that may call these subagents, one per line.
    pub fn resolve_with_subagents(&self, subagents: &str) -> Result<ResolvedAgent, Refusal> {
        let mut resolver = Resolver {
            prompt: self.system_prompt.clone(),
            tools: self.tools.clone(),
            skills: Skill::merged(&self.skills),
            missing: Vec::new(),
        };
        for skill in resolver.skills.clone() {
            resolver.add_tools(&skill.tools);
        }
        if let Some(policy) = self.inheritance.as_ref().filter(|policy| policy.enabled) {
            resolver
                .inherit(policy, self.parent.as_ref().unwrap_or(&OrchestratorConfig::default()))?;
        }
        let mut config = Self {
            tools: resolver.tools,
            skills: Vec::new(),
            inheritance: None,
            parent: None,
            sections: false,
            envelope: false,
            may_delegate: self.may_delegate && self.permits(SUBAGENT),
            ..self.clone()
        };
        let tools: Vec<&str> = config.allowed_tools().collect();
        let mut prompt =
            prompt_placeholders::with_sections(&resolver.prompt, self.sections, &resolver.skills);
        prompt =
            PlaceholderValues { tools: &tools, skills: &resolver.skills, subagents }.fill(&prompt);
        if self.envelope {
            prompt = join(&prompt, prompts::ENVELOPE);
        }
        config.system_prompt = prompt;
        Ok(ResolvedAgent { config, missing: resolver.missing })
    }
}

/// An agent while it is resolved.
struct Resolver {
    prompt: String,
    tools: Vec<String>,
    skills: Vec<Skill>,
    missing: Vec<String>,
}

impl Resolver {
    fn inherit(
        &mut self,
        policy: &InheritancePolicy,
        parent: &OrchestratorConfig,
    ) -> Result<(), Refusal> {
        if let Some(prompt) =
            parent.system_prompt.as_deref().filter(|_| policy.inherit_system_prompt)
        {
            self.prompt = join(&self.prompt, prompt);
        }
        for tool in &policy.inherit_tools {
            let skill = parent.skills.iter().find(|skill| skill.tools.contains(tool));
            if skill.is_none() && !parent.tools.contains(tool) {
                self.miss(tool, policy.missing_skill_policy)?;
                continue;
            }
            match policy.tool_conflict_policy {
                _ if !self.tools.contains(tool) => {}
                ToolConflict::Skip => continue,
                ToolConflict::Error => {
                    return Err(invalid(format!("Tool inheritance conflict for '{tool}'")));
                }
                ToolConflict::Override => self.tools.retain(|known| known != tool),
            }
            self.add_tools(std::slice::from_ref(tool));
            if let Some(skill) = skill {
                self.install(skill, policy.tool_conflict_policy);
            }
        }
        Ok(())
    }

    fn miss(&mut self, tool: &str, policy: MissingSkill) -> Result<(), Refusal> {
        match policy {
            MissingSkill::Warn => self.missing.push(tool.to_owned()),
            MissingSkill::Error => {
                return Err(invalid(format!(
                    "Missing skill: nothing of the session provides '{tool}'"
                )));
            }
        }
        Ok(())
    }

    fn install(&mut self, skill: &Skill, conflict: ToolConflict) {
        match self.skills.iter_mut().find(|known| known.name == skill.name) {
            Some(known) if conflict == ToolConflict::Override => *known = skill.clone(),
            Some(_) => return,
            None => self.skills.push(skill.clone()),
        }
        self.add_tools(&skill.tools);
    }

    fn add_tools(&mut self, tools: &[String]) {
        for tool in tools {
            if !self.tools.contains(tool) {
                self.tools.push(tool.clone());
            }
        }
    }
}

fn join(first: &str, second: &str) -> String {
    match (first.trim_end(), second.trim()) {
        ("", second) => second.to_owned(),
        (first, "") => first.to_owned(),
        (first, second) => format!("{first}\n\n{second}"),
    }
}

fn invalid(message: String) -> Refusal {
    Refusal::new(ErrorCode::InvalidArgument, message)
}

#[cfg(test)]
mod tests;
