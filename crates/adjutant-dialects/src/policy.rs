use std::collections::BTreeMap;

use adjutant_agent::{DefinitionLimits, ErrorCode, NetworkPolicy, Refusal, Skill, Webhook};
use adjutant_store::{Operator, TenantLimits};
use serde_json::Value;

use crate::DialectSettings;

/// The operator's config, as far as tool calls depend on it.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    pub operator: Operator,
    pub definitions: DefinitionLimits,
    /// The models by name; agents and sessions may name no other.
    pub models: Vec<String>,
    /// Other names for them; `*` stands for every name that is not there.
    pub model_aliases: BTreeMap<String, String>,
    pub sessions: SessionLimits,
    pub tenants: TenantLimits,
    /// The skills that agents can load.
    pub skills: Vec<Skill>,
    /// The addresses that webhooks may have.
    pub webhooks: NetworkPolicy,
    pub dialects: DialectSettings,
}

/// The limits of a session that sets none, and the most that it may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    pub max_active: i32,
    pub max_queued: i32,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { max_active: 5, max_queued: 1000 }
    }
}

impl Policy {
    /// The configured model of this name or alias.
    pub fn model(&self, name: &str) -> Result<&str, Refusal> {
        let known = self.models.iter().find(|known| *known == name);
        let known =
            known.or_else(|| self.model_aliases.get(name)).or_else(|| self.model_aliases.get("*"));
        known.map(String::as_str).ok_or_else(|| {
            let message = if self.models.is_empty() {
                "model: this server's config has no models".to_owned()
            } else {
                format!("model: there is none of this name; there are: {}", self.models.join(", "))
            };
            Refusal::new(ErrorCode::InvalidModel, message)
        })
    }

    /// The skill of this name, for the argument `field`.
    pub fn skill(&self, field: &str, name: &str) -> Result<&Skill, Refusal> {
        self.skills.iter().find(|skill| skill.name == name).ok_or_else(|| {
            let start: String = name.chars().take(64).collect();
            Refusal::invalid(field, format_args!("there is no skill {start:?}"))
        })
    }

    /// The webhook in the argument `field`, if deliveries to it are allowed.
    pub fn webhook(&self, value: &Value, field: &str) -> Result<Webhook, Refusal> {
        let webhook = Webhook::parse(field, value)?;
        webhook.check(field, self.webhooks)?;
        Ok(webhook)
    }
}
