use std::collections::BTreeMap;
use std::sync::Arc;

use adjutant_agent::{DefinitionLimits, ErrorCode, Refusal};
use adjutant_store::{Operator, Store};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// What the operator's config says that a call has to know.
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
}

/// What a session has if it says nothing, and the most that it may say.
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

/// What each tenant may have at a time; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantLimits {
    pub max_sessions: Option<i64>,
    pub max_active: Option<i64>,
    /// Unfinished tasks in all.
    pub max_queued: Option<i64>,
}

impl Policy {
    /// The model that a name means.
    pub fn model(&self, name: &str) -> Result<&str, Refusal> {
        let known = self.models.iter().find(|known| *known == name);
        let known = known.or_else(|| self.model_aliases.get(name)).or_else(|| self.model_aliases.get("*"));
        known.map(String::as_str).ok_or_else(|| {
            let message = if self.models.is_empty() {
                "model: this server's config has no models".to_owned()
            } else {
                format!("model: there is none of this name; there are: {}", self.models.join(", "))
            };
            Refusal::new(ErrorCode::InvalidModel, message)
        })
    }
}

/// Where calls are answered, whatever wire they came over.
#[derive(Debug, Clone)]
pub struct Desk {
    pub(crate) store: Store,
    pub(crate) policy: Arc<Policy>,
    /// The process is about to end: what waits answers now, and its caller goes on elsewhere.
    pub(crate) stopping: CancellationToken,
}

/// A tool called by an orchestrator, as its source writes it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub tool: String,
    pub arguments: Value,
    /// From the wire's header, if it has one; the argument of the same name counts as well.
    pub idempotency_key: Option<String>,
    pub traceparent: Option<String>,
}

impl Desk {
    pub fn new(store: Store, policy: Policy) -> Self {
        Self { store, policy: Arc::new(policy), stopping: CancellationToken::new() }
    }
}
