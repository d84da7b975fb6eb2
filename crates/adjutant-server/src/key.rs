use adjutant_agent::{Refusal, check_idempotency_key, request_body};
use adjutant_store::IdempotencyKey;

use crate::{Dialect, ToolCall};

/// The key of a call that can be asked again, and what it is compared by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) key: String,
    pub(crate) body: String,
}

impl Key {
    /// A key that can be stored.
    pub(crate) fn new(key: &str, body: String) -> Result<Self, Refusal> {
        check_idempotency_key(key)?;
        Ok(Self { key: key.to_owned(), body })
    }

    /// The key of a call that makes a task: the same arguments of another tool are another call.
    pub(crate) fn of(call: &ToolCall, dialect: Dialect) -> Result<Option<Self>, Refusal> {
        let Some(key) = &call.idempotency_key else { return Ok(None) };
        let body = format!("{} {} {}", dialect.as_str(), call.tool, request_body(&call.arguments));
        Self::new(key, body).map(Some)
    }

    pub(crate) fn as_ref(&self) -> IdempotencyKey<'_> {
        IdempotencyKey { key: &self.key, body: self.body.as_bytes() }
    }
}
