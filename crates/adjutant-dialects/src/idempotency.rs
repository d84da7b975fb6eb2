use std::collections::BTreeMap;

use adjutant_agent::{IDEMPOTENCY_KEY, Refusal, check_idempotency_key};
use adjutant_store::IdempotencyKey;
use serde_json::Value;

use crate::ToolCall;

/// The idempotency key of a call, and the body that calls with the same key are compared by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallKey {
    pub(crate) key: String,
    body: String,
}

impl CallKey {
    /// Refuses a key that cannot be stored.
    pub(crate) fn new(key: &str, body: String) -> Result<Self, Refusal> {
        check_idempotency_key(key)?;
        Ok(Self { key: key.to_owned(), body })
    }

    /// The key of a call that spawns a task: the same arguments of another tool are another call.
    pub(crate) fn of(call: &ToolCall, dialect: &str) -> Result<Option<Self>, Refusal> {
        let Some(key) = &call.idempotency_key else { return Ok(None) };
        let body = format!("{dialect} {} {}", call.tool, request_body(&call.arguments));
        Self::new(key, body).map(Some)
    }

    pub(crate) fn as_ref(&self) -> IdempotencyKey<'_> {
        IdempotencyKey { key: &self.key, body: self.body.as_bytes() }
    }
}

/// The canonical form in which two requests with the same key are compared: the arguments, sorted,
/// without the key and without nulls.
pub(crate) fn request_body(arguments: &Value) -> String {
    match arguments {
        Value::Object(fields) => object(fields.iter().filter(|(name, _)| *name != IDEMPOTENCY_KEY)),
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            ordered(arguments)
        }
    }
}

fn ordered(value: &Value) -> String {
    match value {
        Value::Object(fields) => object(fields.iter()),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(ordered).collect::<Vec<_>>().join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

fn object<'a>(fields: impl Iterator<Item = (&'a String, &'a Value)>) -> String {
    let fields: BTreeMap<_, _> = fields.filter(|(_, value)| !value.is_null()).collect();
    let fields = fields.into_iter().map(|(name, value)| format!("{:?}:{}", name, ordered(value)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bodies_are_the_same_without_the_key_and_without_nulls() {
        let body = |arguments: Value| request_body(&arguments);
        let plain = json!({"action": "spawn", "task": "x", "metadata": {"b": 1, "a": [true, {}]}});
        let same = json!({"metadata": {"a": [true, {"c": null}], "b": 1}, "task": "x", "action": "spawn",
            "idempotency_key": "k", "label": null});
        assert_eq!(body(plain.clone()), body(same));
        for other in [
            json!({"action": "spawn", "task": "y", "metadata": {"b": 1, "a": [true, {}]}}),
            json!({"action": "spawn", "task": "x", "metadata": {"b": 1, "a": [{}, true]}}),
            json!({"action": "spawn", "task": "x", "metadata": {"b": 1, "a": [true, {}], "idempotency_key": "k"}}),
        ] {
            assert_ne!(body(plain.clone()), body(other));
        }
    }
}
