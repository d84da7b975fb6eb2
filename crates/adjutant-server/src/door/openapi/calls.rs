//! The bodies of requests: one schema for each action of a tool, made from the schema that models see.

use adjutant_agent::{SHARED_CONTEXT, SUBAGENT, ToolDefinition, shared_context_tool, subagent_tool};
use serde_json::{Map, Value, json};

/// No NUL, which cannot be stored.
const TEXT: &str = "^[^\\u0000]*$";
/// And something that is no blank.
const FILLED: &str = "^[^\\u0000]*[!-~][^\\u0000]*$";
const TASK_ID: &str = "^t_[0-9]{2,9}$";
const KEY: &str = "^[a-z0-9_]{1,64}$";
/// The longest that a task may be put off or run.
const YEAR_S: u32 = 366 * 24 * 3600;

/// A tool's arguments, action by action.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) actions: Vec<Value>,
    pub(super) examples: Value,
}

/// An action, the fields that it needs, and those that it may have.
type Action = (&'static str, &'static [&'static str], &'static [&'static str]);

const SUBAGENT_ACTIONS: &[Action] = &[
    ("list_agents", &[], &[]),
    ("define", &["name", "description", "system_prompt"], AGENT),
    ("define", &["name", "extends"], EXTENDED_AGENT),
    ("spawn", &["agent", "task"], SPAWN),
    ("status", &["task_id"], &[]),
    ("collect", &["task_id"], &["idempotency_key"]),
    ("wait", &[], &["task_ids", "mode", "timeout_s"]),
    ("read", &["task_id"], &["offset", "limit"]),
    ("cancel", &["task_id"], &[]),
    ("continue", &["task_id", "task"], CONTINUE),
    ("batch", &["tasks"], &["queue", "idempotency_key"]),
];

/// A task of a batch, read as if it were an action.
const ITEM: Action = ("batch", &["agent", "task"], BATCH_ITEM);

macro_rules! agent_fields {
    ($($more:literal),*) => {
        &[
            "tools", "model", "max_turns", "replace", "on_worker_loss", "timeout_s", "max_input_tokens",
            "max_output_tokens", "max_cost_usd", "summary_prompt", $($more),*
        ]
    };
}
macro_rules! task_fields {
    ($($more:literal),*) => {
        &[
            "queue", "priority", "delay_s", "timeout_s", "max_input_tokens", "max_output_tokens", "max_cost_usd",
            "summary_prompt", "label", "metadata", $($more),*
        ]
    };
}

const AGENT: &[&str] = agent_fields!();
const EXTENDED_AGENT: &[&str] = agent_fields!("description", "system_prompt", "system_prompt_append");
const SPAWN: &[&str] = task_fields!("depends_on", "idempotency_key");
const CONTINUE: &[&str] = task_fields!("idempotency_key");
const BATCH_ITEM: &[&str] = task_fields!("name", "depends_on");

const CONTEXT_ACTIONS: &[Action] = &[
    ("list_keys", &[], &[]),
    ("read", &["key"], &[]),
    ("write", &["key", "value"], &[]),
    ("delete", &["key"], &[]),
    ("read_batch", &["keys"], &[]),
    ("read_history", &["key"], &["limit"]),
    ("snapshot", &["label"], &[]),
    ("read_snapshot", &["label"], &[]),
];

pub(super) fn subagent() -> Tool {
    Tool {
        name: SUBAGENT,
        actions: schemas(&subagent_tool(), SUBAGENT_ACTIONS),
        examples: json!({
            "list_agents": {"value": {"action": "list_agents"}},
            "define": {"value": {
                "action": "define", "name": "log_reader", "description": "Reads logs",
                "system_prompt": "You read logs and report what is unusual.", "tools": ["shared_context"],
            }},
            "spawn": {"value": {"action": "spawn", "agent": "researcher", "task": "Find out why the build is slow."}},
            "batch": {"value": {"action": "batch", "queue": true, "tasks": [
                {"name": "look", "agent": "researcher", "task": "Find out why the build is slow."},
                {"agent": "researcher", "task": "Say it in one sentence.", "depends_on": ["look"]},
            ]}},
            "status": {"value": {"action": "status", "task_id": "t_01"}},
            "wait": {"value": {"action": "wait", "task_ids": ["t_01"], "timeout_s": 30}},
            "collect": {"value": {"action": "collect", "task_id": "t_01"}},
        }),
    }
}

pub(super) fn shared_context() -> Tool {
    Tool {
        name: SHARED_CONTEXT,
        actions: schemas(&shared_context_tool(), CONTEXT_ACTIONS),
        examples: json!({
            "write": {"value": {"action": "write", "key": "problem", "value": "Builds take 20 minutes since Monday."}},
            "read": {"value": {"action": "read", "key": "problem"}},
            "list_keys": {"value": {"action": "list_keys"}},
        }),
    }
}

fn schemas(tool: &ToolDefinition, actions: &[Action]) -> Vec<Value> {
    let known = &tool.input_schema["properties"];
    actions
        .iter()
        .map(|action| {
            let mut schema = fields(&tool.name, known, action);
            schema["properties"]["action"] = json!({"type": "string", "const": action.0});
            if let Some(needed) = schema["required"].as_array_mut() {
                needed.insert(0, json!("action"));
            }
            schema
        })
        .collect()
}

/// The fields of an action, each as callers are held to it.
fn fields(tool: &str, known: &Value, (action, needed, optional): &Action) -> Value {
    let field = |name: &str| {
        let mut schema = known[name].clone();
        narrow(tool, action, name, &mut schema);
        schema
    };
    let mut properties = Map::new();
    properties.extend(needed.iter().map(|name| ((*name).to_owned(), field(name))));
    properties.extend(optional.iter().map(|name| ((*name).to_owned(), or_null(field(name)))));
    object(properties, needed)
}

/// Null is absent, also where nothing is known.
fn object(properties: Map<String, Value>, required: &[&str]) -> Value {
    json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": {"type": "null"}, "propertyNames": {"pattern": TEXT},
    })
}

fn or_null(mut schema: Value) -> Value {
    schema["type"] = json!([schema["type"], "null"]);
    if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.push(Value::Null);
    }
    schema
}

/// What callers are held to, and models need not read.
fn narrow(tool: &str, action: &str, name: &str, schema: &mut Value) {
    let more = match (tool, name) {
        (SUBAGENT, "tasks") => {
            let item = fields(tool, &schema["items"]["properties"], &ITEM);
            json!({"items": item, "minItems": 1, "maxItems": 100})
        }
        (SUBAGENT, "name" | "agent" | "extends") => json!({"pattern": "^[a-z0-9_-]{1,64}$"}),
        (SUBAGENT, "task") => json!({"pattern": FILLED, "maxLength": 4003}),
        (SUBAGENT, "description") => json!({"pattern": "^[^\\u0000\\r\\n]*[!-~][^\\u0000\\r\\n]*$"}),
        (SUBAGENT, "system_prompt") => json!({"pattern": FILLED, "maxLength": 16003}),
        (SUBAGENT, "system_prompt_append" | "summary_prompt") => json!({"pattern": TEXT, "maxLength": 16003}),
        (SUBAGENT, "model") => json!({"pattern": FILLED}),
        (SUBAGENT, "tools") => json!({"items": {"type": "string", "pattern": FILLED}}),
        (SUBAGENT, "task_id") => json!({"pattern": TASK_ID}),
        (SUBAGENT, "task_ids") => {
            json!({"items": {"type": "string", "pattern": TASK_ID}, "minItems": 1, "maxItems": 100})
        }
        (SUBAGENT, "depends_on") if action == "spawn" => {
            json!({"items": {"type": "string", "pattern": TASK_ID}, "maxItems": 100})
        }
        (SUBAGENT, "depends_on") => {
            json!({"items": {"type": "string", "pattern": "^[a-z0-9_-]{1,64}$"}, "maxItems": 100})
        }
        (SUBAGENT, "offset") => json!({"minimum": 0, "maximum": i64::MAX}),
        (SUBAGENT, "limit" | "max_turns") => json!({"minimum": 1, "maximum": i64::MAX}),
        (SUBAGENT, "max_input_tokens" | "max_output_tokens") => json!({"minimum": 0, "maximum": i64::MAX}),
        (SUBAGENT, "max_cost_usd") => json!({"minimum": 0, "maximum": 9_223_372_036_i64}),
        (SUBAGENT, "priority") => json!({"minimum": -100, "maximum": 100}),
        (SUBAGENT, "timeout_s") if action == "wait" => json!({"minimum": 0}),
        (SUBAGENT, "timeout_s") => json!({"exclusiveMinimum": 0, "maximum": YEAR_S}),
        (SUBAGENT, "delay_s") => json!({"minimum": 0, "maximum": YEAR_S}),
        (SUBAGENT, "label") => json!({"pattern": TEXT, "minLength": 1, "maxLength": 200}),
        (SUBAGENT, "idempotency_key") => json!({"pattern": TEXT, "minLength": 1, "maxLength": 300}),
        (SHARED_CONTEXT, "key") => json!({"pattern": KEY}),
        (SHARED_CONTEXT, "keys") => {
            json!({"items": {"type": "string", "pattern": KEY}, "minItems": 1, "maxItems": 100})
        }
        (SHARED_CONTEXT, "value") => json!({"pattern": TEXT, "maxLength": 4003}),
        (SHARED_CONTEXT, "label") => json!({"pattern": TEXT, "minLength": 1, "maxLength": 64}),
        (SHARED_CONTEXT, "limit") => json!({"minimum": 1, "maximum": 100}),
        _ => json!({}),
    };
    for (name, value) in more.as_object().into_iter().flatten() {
        schema[name] = value.clone();
    }
}

/// The body of a route that needs none.
pub(super) fn nothing() -> Value {
    object(Map::new(), &[])
}

pub(super) fn new_session() -> Value {
    let tokens = |description: &str| json!({"type": ["integer", "null"], "minimum": 0, "maximum": i64::MAX, "description": description});
    let limit =
        |description: &str| json!({"type": ["integer", "null"], "minimum": 1, "description": description});
    let properties = json!({
        "session_id": {
            "type": ["string", "null"], "minLength": 1, "maxLength": 255, "pattern": "^[^\\u0000]*$",
            "description": "Unique for the tenant; one is made up if you give none.", "examples": ["incident-42"],
        },
        "model": {"type": ["string", "null"], "description": "What agents without a model use, by its name in the server's config."},
        "metadata": {"type": ["object", "null"], "description": "Whatever you want to find there again, up to 16 KiB."},
        "max_active": limit("How many of its tasks may run or be next to run; at most what the server allows."),
        "max_queued": limit("How many unfinished tasks it may have; at most what the server allows."),
        "max_input_tokens": tokens("For all of its tasks together."),
        "max_output_tokens": tokens("For all of its tasks together."),
        "max_cost_usd": {"type": ["number", "null"], "minimum": 0, "maximum": 1e9, "description": "For all of its tasks together."},
    });
    let Value::Object(properties) = properties else { return Value::Null };
    let mut schema = object(properties, &[]);
    schema["example"] = json!({"session_id": "incident-42", "metadata": {"ticket": 42}});
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_that_a_model_sees_is_in_an_action() {
        for (tool, actions) in [(subagent_tool(), SUBAGENT_ACTIONS), (shared_context_tool(), CONTEXT_ACTIONS)]
        {
            let properties = tool.input_schema["properties"].as_object().unwrap();
            let words = tool.input_schema["properties"]["action"]["enum"].as_array().unwrap();
            for word in words {
                assert!(actions.iter().any(|(action, _, _)| word == action), "{}: {word}", tool.name);
            }
            for name in properties.keys().filter(|name| *name != "action") {
                let named = |(_, needed, optional): &Action| {
                    needed.contains(&name.as_str()) || optional.contains(&name.as_str())
                };
                assert!(actions.iter().any(named), "{}: {name}", tool.name);
            }
            let item = &properties.get("tasks").unwrap_or(&Value::Null)["items"]["properties"];
            for name in item.as_object().into_iter().flatten().map(|(name, _)| name.as_str()) {
                assert!(ITEM.1.contains(&name) || ITEM.2.contains(&name), "tasks: {name}");
            }
            for (action, needed, optional) in actions {
                for name in needed.iter().chain(optional.iter()) {
                    assert!(properties.contains_key(*name), "{} {action}: {name}", tool.name);
                }
            }
        }
    }
}
