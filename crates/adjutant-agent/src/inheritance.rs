//! What a task gets from the session that it is spawned in, and from its skills, beside what its agent is.

use serde::{Deserialize, Serialize};

use crate::inventory::Inventory;
use crate::words::words;
use crate::{AgentSpec, ErrorCode, Refusal, SUBAGENT, Skill, inventory, prompts};

words! {
    /// What becomes of a tool that an agent has already and inherits.
    #[derive(Default)]
    ToolConflict {
        /// The agent keeps its own.
        #[default]
        Skip = "skip",
        Error = "error",
        /// The session's takes its place.
        Override = "override",
    }
}

words! {
    /// What becomes of something that an agent should inherit and that the session has not.
    #[derive(Default)]
    MissingSkill {
        /// The agent does without.
        #[default]
        Warn = "warn",
        Error = "error",
    }
}

/// What an agent takes over from its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InheritancePolicy {
    /// Without it, nothing is inherited.
    pub enabled: bool,
    /// The session's system prompt follows the agent's.
    pub inherit_system_prompt: bool,
    /// Of the session's tools those with these names, and the skills that they come from.
    pub inherit_tools: Vec<String>,
    /// Said for the source's sake: a session's permissions bound all of its tasks.
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

/// What a session carries of its orchestrator, for agents to inherit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Parent {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    pub tools: Vec<String>,
    pub skills: Vec<Skill>,
}

impl Parent {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a single delegation adds to an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Equipment {
    /// After the agent's own; each name once.
    pub skills: Vec<Skill>,
    /// For an agent that has none of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inheritance: Option<InheritancePolicy>,
    /// The prompt ends with sections that name its tools and skills.
    pub sections: bool,
    /// It is told how to give its answer with a summary.
    pub envelope: bool,
}

impl Equipment {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The agent with all this.
    pub fn add_to(&self, mut spec: AgentSpec) -> AgentSpec {
        spec.skills.extend(self.skills.iter().cloned());
        spec.inheritance = spec.inheritance.or_else(|| self.inheritance.clone());
        spec.sections |= self.sections;
        spec.envelope |= self.envelope;
        spec
    }
}

/// An agent that is ready to work.
#[derive(Debug, Clone, PartialEq)]
pub struct Equipped {
    /// Its prompt and its tools are all that there are; there is nothing left to inherit.
    pub spec: AgentSpec,
    /// The tools that it should have inherited, and that the session has not.
    pub missing: Vec<String>,
}

impl AgentSpec {
    /// Makes the prompt and the tools of a task: the agent's, those of its skills, and what it inherits. The same for the same
    /// snapshot, so that going on after a crash is going on with the same agent.
    pub fn equipped(&self) -> Result<Equipped, Refusal> {
        self.equipped_with("")
    }

    /// Whether its prompt has a place for the subagents that it may call.
    pub fn names_subagents(&self) -> bool {
        let inherited = self.parent.as_ref().and_then(|parent| parent.system_prompt.as_deref());
        [Some(self.system_prompt.as_str()), inherited]
            .into_iter()
            .flatten()
            .any(inventory::names_subagents)
    }

    /// As [`AgentSpec::equipped`], for one that may call these subagents, a line each.
    pub fn equipped_with(&self, subagents: &str) -> Result<Equipped, Refusal> {
        let mut made = Making {
            prompt: self.system_prompt.clone(),
            tools: self.tools.clone(),
            skills: Skill::merged(&self.skills),
            missing: Vec::new(),
        };
        for skill in made.skills.clone() {
            made.add_tools(&skill.tools);
        }
        if let Some(policy) = self.inheritance.as_ref().filter(|policy| policy.enabled) {
            made.inherit(policy, self.parent.as_ref().unwrap_or(&Parent::default()))?;
        }
        let mut spec = Self {
            tools: made.tools,
            skills: Vec::new(),
            inheritance: None,
            parent: None,
            sections: false,
            envelope: false,
            may_delegate: self.may_delegate && self.permits(SUBAGENT),
            ..self.clone()
        };
        let tools: Vec<&str> = spec.allowed_tools().collect();
        let mut prompt = inventory::with_sections(&made.prompt, self.sections, &made.skills);
        prompt = Inventory { tools: &tools, skills: &made.skills, subagents }.fill(&prompt);
        if self.envelope {
            prompt = join(&prompt, prompts::ENVELOPE);
        }
        spec.system_prompt = prompt;
        Ok(Equipped { spec, missing: made.missing })
    }
}

/// An agent on the way.
struct Making {
    prompt: String,
    tools: Vec<String>,
    skills: Vec<Skill>,
    missing: Vec<String>,
}

impl Making {
    fn inherit(&mut self, policy: &InheritancePolicy, parent: &Parent) -> Result<(), Refusal> {
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
