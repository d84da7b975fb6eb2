use std::sync::Arc;

use adjutant_agent::DefinitionLimits;
use adjutant_store::{Operator, Store};
use serde_json::Value;

/// What the operator's config says that a call has to know.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    pub operator: Operator,
    pub definitions: DefinitionLimits,
    /// The models by name; agents and sessions may name no other.
    pub models: Vec<String>,
}

/// Where calls are answered, whatever wire they came over.
#[derive(Debug, Clone)]
pub struct Desk {
    pub(crate) store: Store,
    pub(crate) policy: Arc<Policy>,
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
        Self { store, policy: Arc::new(policy) }
    }
}
