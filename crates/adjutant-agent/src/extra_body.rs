//! Fields that an agent adds to the body of its model's requests, such as `reasoning_effort`.

use serde_json::{Map, Value};

use crate::Refusal;

/// Fields that Adjutant sets itself, and those that change what an answer is.
const RESERVED: &[&str] = &[
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "n",
];

/// The fields that an agent of a session may set: they say how the model answers, and reach nothing
/// else.
pub const SESSION_BODY_FIELDS: &[&str] = &[
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "reasoning_effort",
    "verbosity",
];

/// The longest text of such a field, in characters.
pub const MAX_BODY_WORD: usize = 64;

/// Who defines an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DefinedBy {
    /// In the config: any field that is not reserved.
    Operator,
    /// With `define`: only harmless fields.
    #[default]
    Session,
}

/// Whether no agent may set this field of a request.
pub fn is_reserved_field(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Checks the `extra_body` of an agent.
pub(crate) fn check_extra_body(
    fields: &Map<String, Value>,
    defined_by: DefinedBy,
) -> Result<(), Refusal> {
    for (name, value) in fields {
        let refuse = |why: String| Err(Refusal::invalid(&format!("extra_body.{name}"), why));
        if is_reserved_field(name) {
            return refuse("is set by Adjutant; remove it".to_owned());
        }
        if defined_by == DefinedBy::Operator {
            continue;
        }
        if !SESSION_BODY_FIELDS.contains(&name.as_str()) {
            return refuse(format!(
                "is not one of those allowed here: {}",
                SESSION_BODY_FIELDS.join(", ")
            ));
        }
        let is_short = match value {
            Value::Bool(_) | Value::Number(_) => true,
            Value::String(word) => word.chars().count() <= MAX_BODY_WORD,
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        };
        if !is_short {
            return refuse(format!(
                "must be a number or a text of at most {MAX_BODY_WORD} characters"
            ));
        }
    }
    Ok(())
}
