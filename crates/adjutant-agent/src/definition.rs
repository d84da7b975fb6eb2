use serde::{Deserialize, Serialize};

use crate::tokens::{MAX_PROMPT_TOKENS, estimate_tokens};
use crate::words::words;
use crate::{
    AgentSpec, Budget, DEFAULT_MAX_TURNS, ErrorCode, InheritancePolicy, Refusal, SUBAGENT, Skill,
    check_agent_name,
};

words! {
    /// What becomes of a task whose worker dies.
    #[derive(Default)]
    OnWorkerLoss {
        /// Another worker goes on from the last stored turn.
        #[default]
        Resume = "resume",
        Fail = "fail",
    }
}

/// The turns that an operator allows if nothing else is said.
pub const DEFAULT_MAX_TURNS_CEILING: i32 = 25;

/// A year: the longest delay, and the longest time that a task may be given.
pub const LONGEST_S: f64 = 366.0 * 24.0 * 3600.0;

/// What a budget may have: as billionths it has to fit into what is stored.
pub const MAX_USD: f64 = 9e9;

/// An agent as `define` or a config gives it, in the words of the wire; nothing of it is checked.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentDraft {
    pub name: String,
    pub description: Option<String>,
    pub system_prompt: Option<String>,
    /// The agent that gives everything that is missing here.
    pub extends: Option<String>,
    /// Follows the system prompt of `extends`.
    pub system_prompt_append: Option<String>,
    pub tools: Option<Vec<String>>,
    pub model: Option<String>,
    pub max_turns: Option<i64>,
    pub summary_prompt: Option<String>,
    pub timeout_s: Option<f64>,
    pub max_input_tokens: Option<i64>,
    pub max_output_tokens: Option<i64>,
    pub max_cost_usd: Option<f64>,
    pub on_worker_loss: Option<OnWorkerLoss>,
    /// With their texts, as the operator has them.
    pub skills: Vec<Skill>,
    pub inheritance: Option<InheritancePolicy>,
    pub may_delegate: Option<bool>,
}

/// An agent that tasks can be given to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentDefinition {
    pub name: String,
    /// One line, for those who choose among agents.
    pub description: String,
    pub on_worker_loss: OnWorkerLoss,
    /// What a task of this agent is given. The model may be empty: then the session's is meant.
    pub spec: AgentSpec,
}

/// What an operator allows a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefinitionLimits {
    /// More turns than this become this many.
    pub max_turns: i32,
    /// None for the operator's own agents, whose prompts may be as long as they like.
    pub max_prompt_tokens: Option<i64>,
    /// Whether it may say `may_delegate`.
    pub may_delegate: bool,
}

impl Default for DefinitionLimits {
    fn default() -> Self {
        Self {
            max_turns: DEFAULT_MAX_TURNS_CEILING,
            max_prompt_tokens: Some(MAX_PROMPT_TOKENS),
            may_delegate: false,
        }
    }
}

impl AgentDraft {
    /// Takes from `parent` what is missing, and ends the inheritance: what becomes of the parent later does not matter.
    pub fn extending(self, parent: &AgentDefinition) -> Self {
        let spec = &parent.spec;
        let base = self.system_prompt.unwrap_or_else(|| spec.system_prompt.clone());
        let system_prompt = match self.system_prompt_append {
            Some(addition) => format!("{}\n\n{addition}", base.trim_end()),
            None => base,
        };
        Self {
            name: self.name,
            description: self.description.or_else(|| Some(parent.description.clone())),
            system_prompt: Some(system_prompt),
            extends: None,
            system_prompt_append: None,
            tools: self.tools.or_else(|| Some(spec.tools.clone())),
            model: self
                .model
                .or_else(|| Some(spec.model.clone()).filter(|model| !model.is_empty())),
            max_turns: self.max_turns.or(Some(spec.max_turns.into())),
            summary_prompt: self.summary_prompt.or_else(|| spec.summary_prompt.clone()),
            timeout_s: self.timeout_s.or(spec.timeout_s),
            max_input_tokens: self.max_input_tokens.or(spec.budget.max_input_tokens),
            max_output_tokens: self.max_output_tokens.or(spec.budget.max_output_tokens),
            max_cost_usd: self.max_cost_usd.or_else(|| spec.budget.max_cost_nanousd.and_then(usd)),
            on_worker_loss: self.on_worker_loss.or(Some(parent.on_worker_loss)),
            skills: if self.skills.is_empty() { spec.skills.clone() } else { self.skills },
            inheritance: self.inheritance.or_else(|| spec.inheritance.clone()),
            // Not inherited: who may delegate is said of each agent.
            may_delegate: self.may_delegate,
        }
    }

    /// Makes a definition of it, or refuses it by the name of the first field that is wrong. Which tools and models exist
    /// is for others to say.
    pub fn check(self, limits: &DefinitionLimits) -> Result<AgentDefinition, Refusal> {
        check_agent_name(&self.name)?;
        if let Some(parent) = self.extends {
            return Err(Refusal::new(
                ErrorCode::AgentNotFound,
                format!("extends: there is no agent {parent:?}"),
            ));
        }
        if self.system_prompt_append.is_some() {
            return Err(Refusal::invalid("system_prompt_append", "needs extends"));
        }
        let description = required("description", self.description)?;
        if description.trim().contains(['\n', '\r']) {
            return Err(Refusal::invalid("description", "must be one line"));
        }
        let spec = AgentSpec {
            system_prompt: prompt(
                "system_prompt",
                required("system_prompt", self.system_prompt)?,
                limits,
            )?,
            tools: tools(self.tools.unwrap_or_default())?,
            model: self.model.map_or(Ok(String::new()), |model| required("model", Some(model)))?,
            max_turns: max_turns(self.max_turns, limits)?,
            summary_prompt: summary_prompt(self.summary_prompt, limits)?,
            timeout_s: self
                .timeout_s
                .map(|seconds| time_limit("timeout_s", seconds))
                .transpose()?,
            budget: Budget {
                max_input_tokens: not_negative("max_input_tokens", self.max_input_tokens)?,
                max_output_tokens: not_negative("max_output_tokens", self.max_output_tokens)?,
                max_cost_nanousd: self
                    .max_cost_usd
                    .map(|cost| nanousd("max_cost_usd", cost))
                    .transpose()?,
            },
            skills: self.skills,
            inheritance: self.inheritance,
            may_delegate: may_delegate(self.may_delegate, limits)?,
            ..AgentSpec::default()
        };
        Ok(AgentDefinition {
            name: self.name,
            description: description.trim().to_owned(),
            on_worker_loss: self.on_worker_loss.unwrap_or_default(),
            spec,
        })
    }
}

fn required(field: &str, text: Option<String>) -> Result<String, Refusal> {
    let text = text.unwrap_or_default();
    if text.trim().is_empty() {
        return Err(Refusal::invalid(field, "is required and must not be empty"));
    }
    refuse_nul(field, &text)?;
    Ok(text)
}

fn refuse_nul(field: &str, text: &str) -> Result<(), Refusal> {
    if text.contains('\0') {
        return Err(Refusal::invalid(field, "must not contain a NUL character"));
    }
    Ok(())
}

fn prompt(field: &str, text: String, limits: &DefinitionLimits) -> Result<String, Refusal> {
    let tokens = estimate_tokens(&text);
    match limits.max_prompt_tokens {
        Some(most) if tokens > most => Err(Refusal::new(
            ErrorCode::PromptTooLarge,
            format!("{field}: is about {tokens} tokens long; the limit is {most}"),
        )),
        Some(_) | None => Ok(text),
    }
}

/// A blank one is none.
fn summary_prompt(
    text: Option<String>,
    limits: &DefinitionLimits,
) -> Result<Option<String>, Refusal> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    refuse_nul("summary_prompt", &text)?;
    prompt("summary_prompt", text, limits).map(Some)
}

fn may_delegate(asked: Option<bool>, limits: &DefinitionLimits) -> Result<bool, Refusal> {
    match asked {
        Some(true) if !limits.may_delegate => Err(Refusal::invalid(
            "may_delegate",
            "only the operator's own agents delegate here (limits.define_may_delegate)",
        )),
        asked => Ok(asked.unwrap_or(false)),
    }
}

/// Each once, in the order in which they were given, and never the one with which an agent could delegate further.
fn tools(names: Vec<String>) -> Result<Vec<String>, Refusal> {
    let mut kept = Vec::with_capacity(names.len());
    for name in names {
        if name.trim().is_empty() {
            return Err(Refusal::invalid("tools", "must not have an empty name"));
        }
        refuse_nul("tools", &name)?;
        if name != SUBAGENT && !kept.contains(&name) {
            kept.push(name);
        }
    }
    Ok(kept)
}

fn max_turns(asked: Option<i64>, limits: &DefinitionLimits) -> Result<i32, Refusal> {
    let asked = asked.unwrap_or(DEFAULT_MAX_TURNS.into());
    if asked < 1 {
        return Err(Refusal::invalid("max_turns", "must be at least 1"));
    }
    Ok(i32::try_from(asked).unwrap_or(i32::MAX).min(limits.max_turns.max(1)))
}

/// How long a task may run.
pub fn time_limit(field: &str, seconds: f64) -> Result<f64, Refusal> {
    if seconds > LONGEST_S {
        return Err(Refusal::invalid(field, format_args!("must be at most {LONGEST_S} seconds")));
    }
    positive(field, seconds)
}

fn positive(field: &str, number: f64) -> Result<f64, Refusal> {
    if number.is_finite() && number > 0.0 {
        Ok(number)
    } else {
        Err(Refusal::invalid(field, "must be greater than 0"))
    }
}

pub fn not_negative(field: &str, number: Option<i64>) -> Result<Option<i64>, Refusal> {
    match number {
        Some(..0) => Err(Refusal::invalid(field, "must not be negative")),
        Some(0..) | None => Ok(number),
    }
}

/// US dollars in billionths, rounded.
pub fn nanousd(field: &str, usd: f64) -> Result<i64, Refusal> {
    // By way of text, since there is no conversion of a float that refuses what does not fit.
    let nanos = format!("{:.0}", usd * 1e9).parse::<i64>().ok();
    nanos.filter(|_| (0.0..=MAX_USD).contains(&usd)).ok_or_else(|| {
        Refusal::invalid(field, format_args!("must be a number of US dollars from 0 to {MAX_USD}"))
    })
}

/// Billionths of a US dollar in dollars, as near as a float comes to it.
pub fn usd(nanousd: i64) -> Option<f64> {
    nanousd.to_string().parse::<f64>().ok().map(|nanos| nanos / 1e9)
}

#[cfg(test)]
mod tests;
