use serde::Serialize;
use serde_json::Value;

use crate::fields::{Fields, integer_in, text_in};
use crate::word_enum::word_enum;
use crate::{ErrorCode, Refusal, TextLimits, check_key};

const MAX_LABEL_CHARS: usize = 64;
/// The most keys in one `read_batch`.
const MAX_KEYS: usize = 100;
/// The default and the largest `limit` of `read_history`.
const DEFAULT_HISTORY: i64 = 10;
const MAX_HISTORY: i64 = 100;

word_enum! {
    /// The actions of the tool `shared_context`.
    ContextAction {
        ListKeys = "list_keys",
        Read = "read",
        Write = "write",
        Delete = "delete",
        ReadBatch = "read_batch",
        ReadHistory = "read_history",
        Snapshot = "snapshot",
        ReadSnapshot = "read_snapshot",
    }
}

/// A call of `shared_context` with checked arguments. It serializes to the argument of the SQL
/// function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum ContextCall {
    ListKeys,
    Read {
        key: ContextKey,
    },
    Write {
        key: ContextKey,
        value: ContextValue,
    },
    Delete {
        key: ContextKey,
    },
    ReadBatch {
        keys: Vec<ContextKey>,
    },
    /// Newest first.
    ReadHistory {
        key: ContextKey,
        limit: i64,
    },
    /// Stores a copy of all entries under a label.
    Snapshot {
        label: String,
    },
    ReadSnapshot {
        label: String,
    },
}

impl ContextCall {
    /// Parses the arguments of a call, and refuses them by the name of the invalid field.
    pub fn parse(arguments: &Value, limits: &TextLimits) -> Result<Self, Refusal> {
        let mut fields = Fields::of(arguments)?;
        let action = action(&mut fields)?;
        fields.refuse_unknown(action.forms())?;
        let call = match action {
            ContextAction::ListKeys => Self::ListKeys,
            ContextAction::Read => Self::Read { key: key(&mut fields)? },
            ContextAction::Write => {
                let key = key(&mut fields)?;
                Self::Write { key, value: ContextValue::new(fields.text("value")?, limits)? }
            }
            ContextAction::Delete => Self::Delete { key: key(&mut fields)? },
            ContextAction::ReadBatch => Self::ReadBatch { keys: keys(&mut fields)? },
            ContextAction::ReadHistory => {
                Self::ReadHistory { key: key(&mut fields)?, limit: limit(&mut fields)? }
            }
            ContextAction::Snapshot => Self::Snapshot { label: label(&mut fields)? },
            ContextAction::ReadSnapshot => Self::ReadSnapshot { label: label(&mut fields)? },
        };
        fields.end()?;
        Ok(call)
    }

    /// Whether it is a write, which an archived session refuses.
    pub fn writes(&self) -> bool {
        match self {
            Self::Write { .. } | Self::Delete { .. } | Self::Snapshot { .. } => true,
            Self::ListKeys
            | Self::Read { .. }
            | Self::ReadBatch { .. }
            | Self::ReadHistory { .. }
            | Self::ReadSnapshot { .. } => false,
        }
    }
}

fn action(fields: &mut Fields) -> Result<ContextAction, Refusal> {
    let word = fields.text("action")?;
    word.parse().map_err(|_| {
        let valid: Vec<_> = ContextAction::ALL.iter().map(|action| action.as_str()).collect();
        Refusal::new(
            ErrorCode::InvalidAction,
            format!("Unknown action {word:?}; valid actions are: {}", valid.join(", ")),
        )
    })
}

fn key(fields: &mut Fields) -> Result<ContextKey, Refusal> {
    ContextKey::new(fields.text("key")?)
}

fn keys(fields: &mut Fields) -> Result<Vec<ContextKey>, Refusal> {
    let keys = fields.take("keys").ok_or_else(|| Refusal::invalid("keys", "is required"))?;
    let keys =
        keys.as_array().ok_or_else(|| Refusal::invalid("keys", "must be an array of strings"))?;
    if keys.is_empty() || keys.len() > MAX_KEYS {
        return Err(Refusal::invalid(
            "keys",
            format_args!("must be 1 to {MAX_KEYS} keys, not {}", keys.len()),
        ));
    }
    keys.iter().map(|key| ContextKey::new(text_in("keys", key)?)).collect()
}

fn label(fields: &mut Fields) -> Result<String, Refusal> {
    let label = fields.text("label")?;
    match label.chars().count() {
        1..=MAX_LABEL_CHARS => Ok(label.to_owned()),
        _ => Err(Refusal::invalid(
            "label",
            format_args!("must have 1 to {MAX_LABEL_CHARS} characters"),
        )),
    }
}

fn limit(fields: &mut Fields) -> Result<i64, Refusal> {
    let Some(limit) = fields.take("limit") else { return Ok(DEFAULT_HISTORY) };
    match integer_in(limit) {
        Some(limit @ 1..=MAX_HISTORY) => Ok(limit),
        Some(_) | None => Err(Refusal::invalid(
            "limit",
            format_args!("must be a whole number from 1 to {MAX_HISTORY}"),
        )),
    }
}

/// A valid key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ContextKey(String);

impl ContextKey {
    pub fn new(key: &str) -> Result<Self, Refusal> {
        check_key(key)?;
        Ok(Self(key.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A value within the size limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ContextValue(String);

impl ContextValue {
    pub fn new(value: &str, limits: &TextLimits) -> Result<Self, Refusal> {
        limits.check_value(value)?;
        Ok(Self(value.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(arguments: &Value) -> Refusal {
        ContextCall::parse(arguments, &TextLimits::DEFAULT).expect_err("should be refused")
    }

    #[test]
    fn every_action_is_read_with_its_own_fields_and_written_as_it_was_read() {
        for (arguments, writes) in [
            (json!({"action": "list_keys"}), false),
            (json!({"action": "read", "key": "a_1"}), false),
            (json!({"action": "write", "key": "a", "value": "text"}), true),
            (json!({"action": "delete", "key": "a"}), true),
            (json!({"action": "read_batch", "keys": ["a", "b"]}), false),
            (json!({"action": "read_history", "key": "a", "limit": 3}), false),
            (json!({"action": "snapshot", "label": "Before the change"}), true),
            (json!({"action": "read_snapshot", "label": "é"}), false),
        ] {
            let call = ContextCall::parse(&arguments, &TextLimits::DEFAULT).unwrap();
            assert_eq!(serde_json::to_value(&call).unwrap(), arguments);
            assert_eq!(call.writes(), writes, "{arguments}");
        }
    }

    #[test]
    fn an_unknown_action_is_refused_and_the_valid_ones_are_listed() {
        let refusal = refused(&json!({"action": "append"}));
        assert_eq!(refusal.code, ErrorCode::InvalidAction);
        for action in ContextAction::ALL {
            assert!(refusal.message.contains(action.as_str()), "{refusal}");
        }
    }

    #[test]
    fn null_is_absent_and_an_empty_value_is_a_value() {
        let arguments = json!({"action": "write", "key": "a", "value": "", "keys": null, "label": null, "nonsense": null});
        let key = ContextKey::new("a").unwrap();
        assert_eq!(
            ContextCall::parse(&arguments, &TextLimits::DEFAULT),
            Ok(ContextCall::Write { key, value: ContextValue(String::new()) })
        );
        assert_eq!(
            ContextCall::parse(
                &json!({"action": "read_history", "key": "a", "limit": null}),
                &TextLimits::DEFAULT
            ),
            Ok(ContextCall::ReadHistory {
                key: ContextKey::new("a").unwrap(),
                limit: DEFAULT_HISTORY
            })
        );
    }

    #[test]
    fn what_is_missing_unknown_or_of_another_type_is_refused_by_name() {
        for (arguments, field) in [
            (json!([]), "arguments"),
            (json!({}), "action"),
            (json!({"action": null}), "action"),
            (json!({"action": 1}), "action"),
            (json!({"action": "read"}), "key"),
            (json!({"action": "read", "key": 1}), "key"),
            (json!({"action": "read", "key": "nul\0"}), "key"),
            (json!({"action": "read", "key": "a", "value": "of another action"}), "value"),
            (json!({"action": "list_keys", "key": "a"}), "key"),
            (json!({"action": "read", "key": "a", "colour": "red"}), "colour"),
            (json!({"action": "write", "key": "a"}), "value"),
            (json!({"action": "write", "key": "a", "value": null}), "value"),
            (json!({"action": "write", "key": "a", "value": {"a": "object"}}), "value"),
            (json!({"action": "write", "key": "a", "value": "nul\0"}), "value"),
            (json!({"action": "read_batch"}), "keys"),
            (json!({"action": "read_batch", "keys": "a"}), "keys"),
            (json!({"action": "read_batch", "keys": []}), "keys"),
            (json!({"action": "read_batch", "keys": [1]}), "keys"),
            (json!({"action": "read_batch", "keys": vec!["a"; 101]}), "keys"),
            (json!({"action": "read_history", "key": "a", "limit": 0}), "limit"),
            (json!({"action": "read_history", "key": "a", "limit": 101}), "limit"),
            (json!({"action": "read_history", "key": "a", "limit": "3"}), "limit"),
            (json!({"action": "snapshot"}), "label"),
            (json!({"action": "snapshot", "label": ""}), "label"),
            (json!({"action": "snapshot", "label": "x".repeat(65)}), "label"),
        ] {
            let refusal = refused(&arguments);
            assert_eq!(refusal.code, ErrorCode::InvalidArgument, "{arguments}");
            assert!(refusal.message.starts_with(&format!("{field}: ")), "{arguments}: {refusal}");
        }
    }

    #[test]
    fn a_malformed_key_has_its_own_code_wherever_it_is() {
        for call in [
            json!({"action": "read", "key": ""}),
            json!({"action": "write", "key": "a-b", "value": "text"}),
            json!({"action": "read_batch", "keys": ["fine", "a.b"]}),
        ] {
            assert_eq!(refused(&call).code, ErrorCode::InvalidKey, "{call}");
        }
    }

    #[test]
    fn a_value_has_4003_characters_at_most_unless_the_operator_says_more() {
        let limits = TextLimits::DEFAULT;
        assert!(ContextValue::new(&"é".repeat(4003), &limits).is_ok());
        let refusal = ContextValue::new(&"é".repeat(4004), &limits).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::ValueTooLarge);
        assert!(refusal.message.contains("limits.max_value_tokens"), "{refusal}");
        let limits = TextLimits { value: 1001, ..limits };
        assert!(ContextValue::new(&"é".repeat(4004), &limits).is_ok());
    }
}
