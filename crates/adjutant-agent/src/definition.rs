use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::extra_body::check_extra_body;
use crate::tokens::TextLimits;
use crate::word_enum::word_enum;
use crate::{
    AgentConfig, Budget, Compaction, DEFAULT_MAX_TURNS, DefinedBy, ErrorCode, InheritancePolicy,
    OnBudget, Refusal, SUBAGENT, Skill, check_agent_name, check_pool,
};

word_enum! {
    /// What happens to a task whose worker dies.
    #[derive(Default)]
    OnWorkerLoss {
        /// Another worker continues from the last stored turn.
        #[default]
        Resume = "resume",
        Fail = "fail",
    }
}

word_enum! {
    /// What happens to a task whose agent names a tool that no worker has.
    #[derive(Default)]
    MissingTools {
        /// It waits for a while, and then fails.
        #[default]
        Wait = "wait",
        /// It runs without the tool.
        Ignore = "ignore",
    }
}

impl MissingTools {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The default of the operator's limit of turns.
pub const DEFAULT_MAX_TURNS_CEILING: i32 = 25;

/// A year: the longest delay and the longest timeout of a task.
pub const MAX_SECONDS: f64 = 366.0 * 24.0 * 3600.0;

/// The largest budget: in nanodollars it has to fit into a bigint.
pub const MAX_USD: f64 = 9e9;

/// An agent as `define` or a config gives it, before any check.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentDraft {
    pub name: String,
    pub description: Option<String>,
    pub system_prompt: Option<String>,
    /// The agent whose values are used for missing fields.
    pub extends: Option<String>,
    /// Appended to the system prompt of `extends`.
    pub system_prompt_append: Option<String>,
    pub tools: Option<Vec<String>>,
    pub model: Option<String>,
    pub max_turns: Option<i64>,
    pub summary_prompt: Option<String>,
    pub timeout_s: Option<f64>,
    pub max_input_tokens: Option<i64>,
    pub max_output_tokens: Option<i64>,
    pub max_cost_usd: Option<f64>,
    pub on_budget: Option<OnBudget>,
    pub on_worker_loss: Option<OnWorkerLoss>,
    /// With their texts.
    pub skills: Vec<Skill>,
    pub inheritance: Option<InheritancePolicy>,
    pub may_delegate: Option<bool>,
    /// Fields for the body of its model's requests.
    pub extra_body: Map<String, Value>,
    /// The same of `extends`, which were checked when that was defined.
    #[serde(skip)]
    pub inherited_body: Map<String, Value>,
    pub compaction: Option<Compaction>,
    pub missing_tools: Option<MissingTools>,
    /// The pool of its tasks, where their spawn names none.
    pub pool: Option<String>,
}

/// A checked agent, which tasks can be delegated to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentDefinition {
    pub name: String,
    /// One line, for the choice among agents.
    pub description: String,
    pub on_worker_loss: OnWorkerLoss,
    /// The tenants that have it; `None` is all of them. Only for agents of the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Vec<String>>,
    /// The configuration of its tasks. An empty model stands for the session's.
    pub config: AgentConfig,
}

/// The operator's limits for a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefinitionLimits {
    /// A larger number of turns is reduced to this.
    pub max_turns: i32,
    /// None for the operator's own agents, whose prompts are not limited.
    pub max_prompt_tokens: Option<i64>,
    /// Whether a definition may set `may_delegate`.
    pub may_delegate: bool,
    pub defined_by: DefinedBy,
}

impl Default for DefinitionLimits {
    fn default() -> Self {
        Self {
            max_turns: DEFAULT_MAX_TURNS_CEILING,
            max_prompt_tokens: Some(TextLimits::DEFAULT.prompt),
            may_delegate: false,
            defined_by: DefinedBy::Session,
        }
    }
}

impl AgentDraft {
    /// Copies missing fields from `parent`. Later changes of the parent have no effect.
    pub fn extending(self, parent: &AgentDefinition) -> Self {
        let config = &parent.config;
        let base = self.system_prompt.unwrap_or_else(|| config.system_prompt.clone());
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
            tools: self.tools.or_else(|| Some(config.tools.clone())),
            model: self
                .model
                .or_else(|| Some(config.model.clone()).filter(|model| !model.is_empty())),
            max_turns: self.max_turns.or(Some(config.max_turns.into())),
            summary_prompt: self.summary_prompt.or_else(|| config.summary_prompt.clone()),
            timeout_s: self.timeout_s.or(config.timeout_s),
            max_input_tokens: self.max_input_tokens.or(config.budget.max_input_tokens),
            max_output_tokens: self.max_output_tokens.or(config.budget.max_output_tokens),
            max_cost_usd: self
                .max_cost_usd
                .or_else(|| config.budget.max_cost_nanousd.and_then(usd)),
            on_budget: self.on_budget.or(config.on_budget),
            on_worker_loss: self.on_worker_loss.or(Some(parent.on_worker_loss)),
            skills: if self.skills.is_empty() { config.skills.clone() } else { self.skills },
            inheritance: self.inheritance.or_else(|| config.inheritance.clone()),
            // Not inherited: it has to be set for each agent.
            may_delegate: self.may_delegate,
            extra_body: self.extra_body,
            inherited_body: config.extra_body.clone(),
            compaction: self.compaction.or(config.compaction),
            missing_tools: self.missing_tools.or(Some(config.missing_tools)),
            pool: self.pool.or_else(|| config.pool.clone()),
        }
    }

    /// Checks the draft and refuses it by the name of its first invalid field. It does not check
    /// that the tools and the model exist.
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
        check_extra_body(&self.extra_body, limits.defined_by)?;
        let mut extra_body = self.inherited_body;
        extra_body.extend(self.extra_body);
        let config = AgentConfig {
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
            on_budget: self.on_budget,
            skills: self.skills,
            inheritance: self.inheritance,
            may_delegate: may_delegate(self.may_delegate, limits)?,
            extra_body,
            compaction: self.compaction,
            missing_tools: self.missing_tools.unwrap_or_default(),
            pool: self.pool.map(pool).transpose()?,
            ..AgentConfig::default()
        };
        Ok(AgentDefinition {
            name: self.name,
            description: description.trim().to_owned(),
            on_worker_loss: self.on_worker_loss.unwrap_or_default(),
            tenants: None,
            config,
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
    if let Some(prompt) = limits.max_prompt_tokens {
        TextLimits { prompt, ..TextLimits::DEFAULT }.check_prompt(field, &text)?;
    }
    Ok(text)
}

/// A blank prompt counts as none.
fn summary_prompt(
    text: Option<String>,
    limits: &DefinitionLimits,
) -> Result<Option<String>, Refusal> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    refuse_nul("summary_prompt", &text)?;
    prompt("summary_prompt", text, limits).map(Some)
}

fn may_delegate(requested: Option<bool>, limits: &DefinitionLimits) -> Result<bool, Refusal> {
    match requested {
        Some(true) if !limits.may_delegate => Err(Refusal::invalid(
            "may_delegate",
            "only the operator's own agents delegate here (limits.define_may_delegate)",
        )),
        requested => Ok(requested.unwrap_or(false)),
    }
}

fn pool(name: String) -> Result<String, Refusal> {
    check_pool("pool", &name)?;
    Ok(name)
}

/// The names without duplicates and without `subagent`, in the given order.
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

fn max_turns(requested: Option<i64>, limits: &DefinitionLimits) -> Result<i32, Refusal> {
    let requested = requested.unwrap_or(DEFAULT_MAX_TURNS.into());
    if requested < 1 {
        return Err(Refusal::invalid("max_turns", "must be at least 1"));
    }
    Ok(i32::try_from(requested).unwrap_or(i32::MAX).min(limits.max_turns.max(1)))
}

/// Checks the time limit of a task.
pub fn time_limit(field: &str, seconds: f64) -> Result<f64, Refusal> {
    if seconds > MAX_SECONDS {
        return Err(Refusal::invalid(field, format_args!("must be at most {MAX_SECONDS} seconds")));
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

/// Converts US dollars to nanodollars, rounded.
pub fn nanousd(field: &str, usd: f64) -> Result<i64, Refusal> {
    // Through text, because no conversion from a float fails for values that do not fit.
    let nanos = format!("{:.0}", usd * 1e9).parse::<i64>().ok();
    nanos.filter(|_| (0.0..=MAX_USD).contains(&usd)).ok_or_else(|| {
        Refusal::invalid(field, format_args!("must be a number of US dollars from 0 to {MAX_USD}"))
    })
}

/// Converts nanodollars to US dollars, for display.
pub fn usd(nanousd: i64) -> Option<f64> {
    nanousd.to_string().parse::<f64>().ok().map(|nanos| nanos / 1e9)
}

#[cfg(test)]
mod tests;
