//! The bodies of requests: one schema for each action of a tool, made from the schema that models see.

use adjutant_agent::{
    ActionForm, BATCH_ITEM, ContextAction, LONGEST_S, MAX_USD, Reach, SHARED_CONTEXT, SUBAGENT,
    SubagentAction, ToolDefinition, Webhook, WebhookEvent, shared_context_tool, subagent_tool,
};
use serde_json::{Map, Value, json};

use super::super::session_body::{MOST_SKILLS, MOST_TOOLS};
use super::webhooks::LONGEST_OVERLAP_S;
use crate::Policy;

/// No NUL, which cannot be stored.
const TEXT: &str = "^[^\\u0000]*$";
/// And something that is no blank.
const FILLED: &str = "^[^\\u0000]*[!-~][^\\u0000]*$";
const TASK_ID: &str = "^t_[0-9]{2,9}$";
const KEY: &str = "^[a-z0-9_]{1,64}$";

/// A tool's arguments, action by action.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) actions: Vec<Value>,
    pub(super) examples: Value,
}

pub(super) fn subagent(policy: &Policy) -> Tool {
    let forms = SubagentAction::ALL.iter().map(|action| (action.as_str(), action.forms()));
    let mut actions = schemas(&subagent_tool(), forms);
    for action in &mut actions {
        if let Some(schema) = action["properties"].get_mut("model") {
            *schema = model(policy, schema["description"].clone());
        }
        tell_urls(policy, action);
        if !policy.definitions.may_delegate
            && let Some(schema) = action.pointer_mut("/properties/may_delegate")
        {
            schema["enum"] = json!([false, null]);
        }
    }
    Tool {
        name: SUBAGENT,
        actions,
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
        actions: schemas(
            &shared_context_tool(),
            ContextAction::ALL.iter().map(|action| (action.as_str(), action.forms())),
        ),
        examples: json!({
            "write": {"value": {"action": "write", "key": "problem", "value": "Builds take 20 minutes since Monday."}},
            "read": {"value": {"action": "read", "key": "problem"}},
            "list_keys": {"value": {"action": "list_keys"}},
        }),
    }
}

fn schemas<'a>(
    tool: &ToolDefinition,
    actions: impl Iterator<Item = (&'a str, &'static [ActionForm])>,
) -> Vec<Value> {
    let known = &tool.input_schema["properties"];
    let forms = actions.flat_map(|(action, forms)| forms.iter().map(move |form| (action, form)));
    forms
        .map(|(action, form)| {
            let mut schema = fields(&tool.name, known, action, form);
            schema["properties"]["action"] = json!({"type": "string", "const": action});
            if let Some(needed) = schema["required"].as_array_mut() {
                needed.insert(0, json!("action"));
            }
            schema
        })
        .collect()
}

/// The fields of an action, each as callers are held to it.
fn fields(tool: &str, known: &Value, action: &str, form: &ActionForm) -> Value {
    let field = |name: &str| {
        let mut schema = known[name].clone();
        narrow(tool, action, name, &mut schema);
        schema
    };
    let mut properties = Map::new();
    properties.extend(form.needed.iter().map(|name| ((*name).to_owned(), field(name))));
    properties.extend(form.optional.iter().map(|name| ((*name).to_owned(), or_null(field(name)))));
    object(properties, form.needed)
}

/// A model by its name: any, if the operator has said what any other name means.
fn model(policy: &Policy, description: Value) -> Value {
    let mut schema = json!({"type": ["string", "null"], "description": description});
    if policy.model_aliases.contains_key("*") {
        schema["pattern"] = json!(FILLED);
    } else {
        let names: Vec<_> = policy.models.iter().chain(policy.model_aliases.keys()).map(Some).collect();
        schema["enum"] = json!(names.into_iter().chain([None]).collect::<Vec<_>>());
    }
    schema
}

/// What a task's webhook may be, here and in the tasks of a batch.
fn tell_urls(policy: &Policy, action: &mut Value) {
    let in_tasks = "/properties/tasks/items/properties/webhook";
    for place in ["/properties/webhook", in_tasks] {
        if let Some(schema) = action.pointer_mut(place) {
            let description = schema["description"].clone();
            *schema = or_null(webhook(policy));
            schema["description"] = description;
        }
    }
}

/// A name that a resolver can be asked for, and what may follow it. Longer names, and addresses, are fine too, but for those
/// that are not public.
const URL: &str =
    "://[a-z][a-z0-9]{0,20}(-[a-z0-9]{1,20}){0,2}(\\.[a-z][a-z0-9]{0,20}){1,3}(:[1-9][0-9]{0,3})?(/[!-~]*)?$";

pub(super) fn webhook(policy: &Policy) -> Value {
    let (scheme, needed) = match policy.webhooks {
        Reach::Public => ("^https", "An https URL, of a public address."),
        Reach::Anywhere => ("^https?", "An http or https URL."),
    };
    let properties = json!({
        "url": {
            "type": "string", "pattern": format!("{scheme}{URL}"), "maxLength": Webhook::MAX_URL_CHARS,
            "description": needed, "examples": ["https://hooks.example.com/adjutant"],
        },
        "events": {
            "type": ["array", "null"], "items": {"type": "string", "enum": WebhookEvent::ALL}, "minItems": 1,
            "uniqueItems": true, "description": "Which ends it is told; all of them if you name none.",
        },
    });
    let Value::Object(properties) = properties else { return Value::Null };
    object(properties, &["url"])
}

pub(super) fn new_webhook_secret() -> Value {
    let properties = json!({
        "secret": {
            "type": ["string", "null"], "pattern": "^whsec_([A-Za-z0-9+/]{4}){8,21}$",
            "description": "24 to 64 bytes of your own, in base64; one is made if you give none.",
        },
        "overlap_s": {
            "type": ["number", "null"], "minimum": 0, "maximum": LONGEST_OVERLAP_S,
            "description": "How long the one before is good beside it, in seconds; a day if you say nothing.",
        },
    });
    let Value::Object(properties) = properties else { return Value::Null };
    object(properties, &[])
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
            let item = fields(tool, &schema["items"]["properties"], action, &BATCH_ITEM);
            json!({"items": item, "minItems": 1, "maxItems": 100})
        }
        (SUBAGENT, "name" | "agent" | "extends") => json!({"pattern": "^[a-z0-9_-]{1,64}$"}),
        (SUBAGENT, "task") => json!({"pattern": FILLED, "maxLength": 4003}),
        (SUBAGENT, "description") => json!({"pattern": "^[^\\u0000\\r\\n]*[!-~][^\\u0000\\r\\n]*$"}),
        (SUBAGENT, "system_prompt") => json!({"pattern": FILLED, "maxLength": 16003}),
        (SUBAGENT, "system_prompt_append" | "summary_prompt") => json!({"pattern": TEXT, "maxLength": 16003}),
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
        (SUBAGENT, "max_cost_usd") => json!({"minimum": 0, "maximum": MAX_USD}),
        (SUBAGENT, "priority") => json!({"minimum": -100, "maximum": 100}),
        (SUBAGENT, "timeout_s") if action == "wait" => json!({"minimum": 0}),
        (SUBAGENT, "timeout_s") => json!({"exclusiveMinimum": 0, "maximum": LONGEST_S}),
        (SUBAGENT, "delay_s") => json!({"minimum": 0, "maximum": LONGEST_S}),
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

pub(super) fn new_session(policy: &Policy) -> Value {
    let tokens = |description: &str| json!({"type": ["integer", "null"], "minimum": 0, "maximum": i64::MAX, "description": description});
    let limit = |most: i32, description: &str| json!({"type": ["integer", "null"], "minimum": 1, "maximum": most, "description": description});
    let (limits, of_model) =
        (policy.sessions, "What agents without a model use, by its name in the server's config.");
    let properties = json!({
        "session_id": {
            "type": ["string", "null"], "minLength": 1, "maxLength": 255, "pattern": TEXT,
            "description": "Unique for the tenant; one is made up if you give none.", "examples": ["incident-42"],
        },
        "model": model(policy, json!(of_model)),
        "metadata": {"type": ["object", "null"], "description": "Whatever you want to find there again, up to 16 KiB."},
        "max_active": limit(limits.max_active, "How many of its tasks may run or be next to run; at most what the server allows."),
        "max_queued": limit(limits.max_queued, "How many unfinished tasks it may have; at most what the server allows."),
        "max_input_tokens": tokens("For all of its tasks together."),
        "max_output_tokens": tokens("For all of its tasks together."),
        "max_cost_usd": {"type": ["number", "null"], "minimum": 0, "maximum": MAX_USD, "description": "For all of its tasks together."},
        "webhook": or_null(webhook(policy)),
    });
    let Value::Object(mut properties) = properties else { return Value::Null };
    properties.extend(carried(policy));
    let mut schema = object(properties, &[]);
    schema["example"] = json!({"session_id": "incident-42", "metadata": {"ticket": 42}});
    schema
}

/// What a session carries of its orchestrator.
fn carried(policy: &Policy) -> Map<String, Value> {
    let names: Vec<&str> = policy.skills.iter().map(|skill| skill.name.as_str()).collect();
    let patterns = json!({"type": ["array", "null"], "maxItems": 100, "items": {
        "type": "string", "minLength": 1, "maxLength": 128, "pattern": TEXT,
    }});
    let carried = json!({
        "system_prompt": {
            "type": ["string", "null"], "pattern": FILLED, "maxLength": 16003,
            "description": "The orchestrator's, for agents that inherit it.",
        },
        "tools": {
            "type": ["array", "null"], "maxItems": MOST_TOOLS, "items": {"type": "string", "pattern": FILLED},
            "description": "The orchestrator's, by name, for agents that inherit some of them.",
        },
        "skills": {
            "type": ["array", "null"], "maxItems": if names.is_empty() { 0 } else { MOST_SKILLS },
            "items": if names.is_empty() { json!({"type": "string"}) } else { json!({"type": "string", "enum": names}) },
            "description": "The orchestrator's, by name; agents that inherit a tool of one get the skill.",
        },
        "permissions": {
            "type": ["object", "null"], "properties": {"allow": patterns, "deny": patterns},
            "additionalProperties": {"type": "null"}, "propertyNames": {"pattern": TEXT},
            "description": "Patterns of tools' names (`*` is any text) that bound every task: only what fits one of `allow`, and nothing that fits one of `deny`.",
        },
    });
    if let Value::Object(carried) = carried { carried } else { Map::new() }
}

/// What can be changed of a session.
pub(super) fn session_change(policy: &Policy) -> Value {
    let mut schema = new_session(policy);
    if let Some(properties) = schema["properties"].as_object_mut() {
        let changes = ["model", "metadata", "system_prompt", "tools", "skills", "permissions"];
        properties.retain(|name, _| changes.contains(&name.as_str()));
    }
    schema["example"] = json!({"permissions": {"deny": ["*write*"]}});
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_that_a_model_sees_is_in_an_action() {
        let subagent = SubagentAction::ALL.iter().flat_map(|action| action.forms());
        let context = ContextAction::ALL.iter().flat_map(|action| action.forms());
        let forms: [(_, Vec<&ActionForm>); 2] =
            [(subagent_tool(), subagent.collect()), (shared_context_tool(), context.collect())];
        let has =
            |form: &ActionForm, name: &str| form.needed.contains(&name) || form.optional.contains(&name);
        for (tool, forms) in forms {
            let properties = tool.input_schema["properties"].as_object().unwrap();
            for name in properties.keys().filter(|name| *name != "action") {
                assert!(forms.iter().any(|form| has(form, name)), "{}: {name}", tool.name);
            }
            let item = &properties.get("tasks").unwrap_or(&Value::Null)["items"]["properties"];
            for name in item.as_object().into_iter().flatten().map(|(name, _)| name.as_str()) {
                assert!(has(&BATCH_ITEM, name), "tasks: {name}");
            }
            for name in forms.iter().flat_map(|form| form.needed.iter().chain(form.optional)) {
                assert!(properties.contains_key(*name), "{}: {name}", tool.name);
            }
        }
    }

    #[test]
    fn a_model_is_one_of_the_config_unless_any_name_will_do() {
        let mut policy = Policy { models: vec!["main".to_owned()], ..Policy::default() };
        policy.model_aliases.insert("sonnet".to_owned(), "main".to_owned());
        let session = |policy: &Policy| new_session(policy)["properties"]["model"].clone();
        assert_eq!(session(&policy)["enum"], json!(["main", "sonnet", null]));
        policy.model_aliases.insert("*".to_owned(), "main".to_owned());
        assert_eq!(session(&policy).get("enum"), None);
    }
}
