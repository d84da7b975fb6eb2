//! PostgreSQL's text type cannot hold NUL characters. Requests of clients that have one are
//! refused. In the output of models and tools it is replaced by U+FFFD, so that no answer is lost.

use adjutant_agent::Refusal;
use serde_json::Value;

/// Refuses a request with a NUL in any text, and names the field.
pub(crate) fn refuse_nul(field: &str, value: &Value) -> Result<(), Refusal> {
    match value {
        Value::String(text) => refuse_nul_in(field, text),
        Value::Array(items) => items.iter().try_for_each(|item| refuse_nul(field, item)),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            refuse_nul_in(field, name)?;
            refuse_nul(if field.is_empty() { name } else { field }, value)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

pub(crate) fn refuse_nul_in(field: &str, text: &str) -> Result<(), Refusal> {
    if text.contains('\0') {
        Err(Refusal::invalid(field, "must not contain a NUL character"))
    } else {
        Ok(())
    }
}

/// Replaces NUL characters.
pub(crate) fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// Replaces NUL characters in all strings of a JSON value.
pub(crate) fn storable_json(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(storable(text)),
        Value::Array(items) => Value::Array(items.into_iter().map(storable_json).collect()),
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| (storable(name), storable_json(value)))
                .collect(),
        ),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_nul_is_refused_by_the_name_of_its_field() {
        let task = json!({"agent": "a", "metadata": {"deep": [{"x": "\0"}]}});
        assert_eq!(
            refuse_nul("", &task),
            Err(Refusal::invalid("metadata", "must not contain a NUL character"))
        );
        assert_eq!(refuse_nul("", &json!({"agent": "a", "n": 1, "none": null})), Ok(()));
    }

    #[test]
    fn a_models_nul_is_replaced_and_nothing_else_is_lost() {
        assert_eq!(
            storable_json(json!({"a\0": ["b\0c", 1, true, null]})),
            json!({"a\u{fffd}": ["b\u{fffd}c", 1, true, null]})
        );
    }
}
