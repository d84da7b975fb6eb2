use adjutant_agent::{
    AgentDefinition, AgentDraft, DefinedBy, DefinitionLimits, OnWorkerLoss, Skill, TextLimits,
    check_agent_name, estimate_tokens,
};

use serde_json::{Map, Value};

use super::super::inheritance;
use super::super::problem::{Findings, Location};
use super::super::schema::dotted;
use super::super::tree::{Node, Table};
use super::{KnownNames, one_line};

/// Reads the settings that an agent's table and its Markdown file have in common.
pub(super) struct AgentReader<'a> {
    /// The prefix of its settings' names: `agents.NAME`, or empty for front matter.
    pub table: &'a str,
    pub source: &'a Location,
    pub settings: &'a Table,
    pub known: KnownNames<'a>,
    pub findings: &'a mut Findings,
}

impl AgentReader<'_> {
    pub fn error(&mut self, location: &Location, setting: &str, text: impl Into<String>) {
        self.findings.error(location, dotted(self.table, setting), text);
    }

    pub fn missing(&mut self, setting: &str, text: &str) {
        self.findings.missing(self.source, dotted(self.table, setting), text);
    }

    pub fn warning(&mut self, location: &Location, setting: &str, text: impl Into<String>) {
        self.findings.warning(location, dotted(self.table, setting), text);
    }

    pub fn check_name(&mut self, name: &str, location: &Location) {
        if check_agent_name(name).is_ok() {
            return;
        }
        let setting = if self.table.is_empty() { "name" } else { self.table };
        let rule = "an agent name has 1 to 64 characters: a-z, 0-9, _ and -";
        let text = match allowed_form(name) {
            Some(form) => format!("{rule}; for example {form}"),
            None => rule.to_owned(),
        };
        self.findings.error(location, setting, text);
    }

    pub fn require_description(&mut self) {
        if !self.settings.contains_key("description") {
            self.missing("description", "is required: one line that says what the agent is for");
        }
    }

    pub fn text(&self, setting: &str) -> Option<(&Node, &str)> {
        let node = self.settings.get(setting)?;
        Some((node, node.as_text()?))
    }

    pub fn skills(&mut self) -> Vec<Skill> {
        let (known, table) = (self.known, self.table);
        known.skills_in(self.settings, table, self.findings)
    }

    /// The tenants that have the agent; `None` is all of them.
    fn tenants(&self) -> Option<Vec<String>> {
        let node = self.settings.get("tenants")?;
        Some(node.texts().map(|(_, tenant)| tenant.trim().to_owned()).collect())
    }

    fn integer(&self, setting: &str) -> Option<i64> {
        self.settings.get(setting).and_then(Node::as_integer)
    }

    fn number(&self, setting: &str) -> Option<f64> {
        self.settings.get(setting).and_then(Node::as_number)
    }

    fn object(&self, setting: &str) -> Map<String, Value> {
        match self.settings.get(setting).map(Node::to_json) {
            Some(Value::Object(fields)) => fields,
            Some(_) | None => Map::new(),
        }
    }

    /// The settings that need no lookup.
    pub fn draft(&self) -> AgentDraft {
        AgentDraft {
            description: self.text("description").map(|(_, text)| one_line(text)),
            max_turns: self.integer("max_turns"),
            summary_prompt: self.text("summary_prompt").map(|(_, text)| text.to_owned()),
            extra_body: self.object("extra_body"),
            compaction: self.text("compaction").and_then(|(_, word)| word.parse().ok()),
            timeout_s: self.number("timeout_s"),
            max_input_tokens: self.integer("max_input_tokens"),
            max_output_tokens: self.integer("max_output_tokens"),
            max_cost_usd: self.number("max_cost_usd"),
            on_budget: self.text("on_budget").and_then(|(_, word)| word.parse().ok()),
            on_worker_loss: self.text("on_worker_loss").and_then(|(_, word)| match word {
                "fail" => Some(OnWorkerLoss::Fail),
                "resume" => Some(OnWorkerLoss::Resume),
                _ => None,
            }),
            inheritance: self.settings.get("inheritance").and_then(inheritance::read),
            may_delegate: self.settings.get("may_delegate").map(Node::is_true),
            missing_tools: self.text("missing_tools").and_then(|(_, word)| word.parse().ok()),
            pool: self.text("pool").map(|(_, pool)| pool.trim().to_owned()),
            ..AgentDraft::default()
        }
    }

    pub fn define(&mut self, draft: AgentDraft) -> Option<AgentDefinition> {
        let ceiling = self.known.max_turns_ceiling;
        if let (Some(wanted), Some(node)) = (draft.max_turns, self.settings.get("max_turns"))
            && wanted > i64::from(ceiling)
        {
            let location = node.location.clone();
            let text = format!("is {wanted}, reduced to limits.max_turns_ceiling ({ceiling})");
            self.warning(&location, "max_turns", text);
        }
        let source = self.source.clone();
        let tokens = draft.system_prompt.as_deref().map_or(0, estimate_tokens);
        if tokens > TextLimits::DEFAULT.prompt {
            let text = format!("has about {tokens} tokens, which every turn pays for");
            self.warning(&source, "system_prompt", text);
        }
        // The prompt limit is for agents that sessions define. The operator's may be longer.
        let limits = DefinitionLimits {
            max_turns: ceiling,
            max_prompt_tokens: None,
            may_delegate: true,
            defined_by: DefinedBy::Operator,
        };
        match draft.check(&limits) {
            Ok(definition) => Some(AgentDefinition { tenants: self.tenants(), ..definition }),
            Err(refusal) => {
                self.findings.error(&source, self.table, refusal.message);
                None
            }
        }
    }
}

/// A name that is allowed and resembles this one.
fn allowed_form(name: &str) -> Option<String> {
    let words: Vec<String> = name
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let mut form = words.join("-");
    form.truncate(64);
    check_agent_name(&form).is_ok().then_some(form)
}
