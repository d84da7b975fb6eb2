use std::collections::BTreeMap;

use adjutant_agent::{DefinitionLimits, ErrorCode, Grants, NetworkPolicy, Refusal, Skill, Webhook};
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
    /// The tenants of models that not all tenants may use.
    pub model_tenants: BTreeMap<String, Vec<String>>,
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
    /// What a caller of this tenant may use with these grants: the models of other tenants are
    /// left out.
    pub fn grants_of(&self, tenant: &str, grants: Grants) -> Grants {
        let is_withheld = |model: &String| {
            let tenants = self.model_tenants.get(model);
            tenants.is_some_and(|tenants| !tenants.iter().any(|known| known == tenant))
        };
        if !self.models.iter().any(is_withheld) {
            return grants;
        }
        let left =
            self.models.iter().filter(|model| !is_withheld(model) && grants.allows_model(model));
        Grants { models: Some(left.cloned().collect()), ..grants }
    }

    /// The configured model of this name or alias, if it is granted.
    pub fn model(&self, name: &str, grants: &Grants) -> Result<&str, Refusal> {
        let known = self.models.iter().find(|known| *known == name);
        let known =
            known.or_else(|| self.model_aliases.get(name)).or_else(|| self.model_aliases.get("*"));
        known.filter(|model| grants.allows_model(model)).map(String::as_str).ok_or_else(|| {
            let usable = self.models.iter().filter(|model| grants.allows_model(model));
            let usable: Vec<&str> = usable.map(String::as_str).collect();
            let message = if usable.is_empty() {
                "model: this server's config has no models".to_owned()
            } else {
                format!("model: there is none of this name; there are: {}", usable.join(", "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_of_other_tenants_do_not_exist_for_a_caller() {
        let policy = Policy {
            models: vec!["main".to_owned(), "dear".to_owned()],
            model_tenants: BTreeMap::from([("dear".to_owned(), vec!["acme".to_owned()])]),
            model_aliases: BTreeMap::from([("*".to_owned(), "dear".to_owned())]),
            ..Policy::default()
        };
        assert_eq!(policy.grants_of("acme", Grants::EVERYTHING), Grants::EVERYTHING);
        let other = policy.grants_of("other", Grants::EVERYTHING);
        assert_eq!(other.models.as_deref(), Some(&["main".to_owned()][..]));
        assert_eq!(policy.model("x", &Grants::EVERYTHING), Ok("dear"));
        assert_eq!(policy.model("main", &other), Ok("main"));
        let refusal = policy.model("x", &other).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "INVALID_MODEL: model: there is none of this name; there are: main"
        );
        let narrow = Grants { models: Some(vec!["d*".to_owned()]), ..Grants::default() };
        assert_eq!(policy.grants_of("other", narrow).models, Some(Vec::new()));
    }
}
