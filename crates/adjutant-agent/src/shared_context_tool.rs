//! The definition of the tool `shared_context` for models. As in the specification, one schema
//! serves all actions and requires only `action`; the parser names the missing fields of each
//! action.

use serde_json::{Value, json};

use crate::{Replay, SHARED_CONTEXT, TextLimits, ToolDefinition};

pub fn shared_context_tool(limits: &TextLimits) -> ToolDefinition {
    let TextLimits { value, store, .. } = limits;
    ToolDefinition {
        name: SHARED_CONTEXT.to_owned(),
        description: format!(
            "Reads and writes the notes that everybody who works in this session shares, the orchestrator and all agents. A note is a text of at most {value} tokens under a key, and all notes together have at most {store}; the last write wins, and its version grows. Write findings here that others need; list the keys before you read."
        ),
        input_schema: object(json!({
            "action": words(&["list_keys", "read", "write", "delete", "read_batch", "read_history", "snapshot", "read_snapshot"],
                "list_keys: all keys, their versions and sizes, without values. read, write, delete: one key. read_batch: several keys at once. read_history: earlier versions of a key. snapshot: keeps all keys as they are now under a label. read_snapshot: what was kept under a label."),
            "key": text("For read, write, delete and read_history: 1 to 64 characters of a-z, 0-9 and _."),
            "value": text("For write: the text to store."),
            "keys": texts("For read_batch: the keys to read."),
            "label": text("For snapshot and read_snapshot: a name to recognise it by, at most 64 characters."),
            "limit": number("integer", "For read_history: how many versions to show, the newest first; 10 if you say nothing."),
        })),
        // A write is stored together with the call's result, so a call without a result has not
        // written.
        replay: Replay::Safe,
    }
}

fn object(properties: Value) -> Value {
    json!({ "type": "object", "properties": properties, "required": ["action"], "additionalProperties": false })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn texts(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

fn number(kind: &str, description: &str) -> Value {
    json!({ "type": kind, "description": description })
}

fn words(words: &[&str], description: &str) -> Value {
    json!({ "type": "string", "enum": words, "description": description })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ContextAction;

    #[test]
    fn only_the_action_is_required() {
        let tool = shared_context_tool(&TextLimits::DEFAULT);
        assert_eq!(tool.name, SHARED_CONTEXT);
        assert_eq!(tool.input_schema["type"], "object");
        assert_eq!(tool.input_schema["required"], json!(["action"]));
        let known = &tool.input_schema["properties"]["action"]["enum"];
        let actions: Vec<_> = ContextAction::ALL.iter().map(|action| action.as_str()).collect();
        assert_eq!(known, &json!(actions));
    }
}
