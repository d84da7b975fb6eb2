use std::collections::BTreeMap;

use serde_json::Value;

use crate::Refusal;

/// As long as a row of stored answers takes.
pub const MAX_IDEMPOTENCY_KEY_CHARS: usize = 300;

const KEY: &str = "idempotency_key";

/// Refuses a key that no answer could be stored under.
pub fn check_idempotency_key(key: &str) -> Result<(), Refusal> {
    if key.contains('\0') {
        return Err(Refusal::invalid(KEY, "must not contain a NUL character"));
    }
    match key.chars().count() {
        1..=MAX_IDEMPOTENCY_KEY_CHARS => Ok(()),
        _ => {
            Err(Refusal::invalid(KEY, format_args!("must have 1 to {MAX_IDEMPOTENCY_KEY_CHARS} characters")))
        }
    }
}

/// What two requests with the same key are compared by: the arguments without the key and without nulls, in one order.
pub fn request_body(arguments: &Value) -> String {
    match arguments {
        Value::Object(fields) => object(fields.iter().filter(|(name, _)| *name != KEY)),
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            ordered(arguments)
        }
    }
}

fn ordered(value: &Value) -> String {
    match value {
        Value::Object(fields) => object(fields.iter()),
        Value::Array(items) => format!("[{}]", items.iter().map(ordered).collect::<Vec<_>>().join(",")),
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

    #[test]
    fn a_key_has_1_to_300_characters() {
        assert_eq!(check_idempotency_key("é"), Ok(()));
        assert_eq!(check_idempotency_key(&"é".repeat(300)), Ok(()));
        for wrong in ["", "a\0", &"é".repeat(301)] {
            assert!(check_idempotency_key(wrong).unwrap_err().message.starts_with("idempotency_key: "));
        }
    }
}
