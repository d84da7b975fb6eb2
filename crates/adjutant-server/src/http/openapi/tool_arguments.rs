//! The arguments of the tools: one schema for each action, made from the schema that models see.

use adjutant_agent::{
    ActionForm, ContextAction, MAX_BODY_WORD, MAX_SECONDS, MAX_USD, SESSION_BODY_FIELDS,
    SHARED_CONTEXT, SUBAGENT, TextLimits, ToolDefinition, longest, shared_context_tool,
};
use adjutant_dialects::spec::{BATCH_ITEM, SubagentAction, subagent_tool};
use serde_json::{Map, Value, json};

use super::request_bodies::{FILLED, TEXT, model, object, or_null, webhook};
use crate::Policy;

const TASK_ID: &str = "^t_[0-9]{2,9}$";
const KEY: &str = "^[a-z0-9_]{1,64}$";

/// The schemas of a tool's arguments, one for each form of each action.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) actions: Vec<Value>,
    pub(super) examples: Value,
}

pub(super) fn subagent(policy: &Policy) -> Tool {
    let forms = SubagentAction::ALL.iter().map(|action| (action.as_str(), action.forms()));
    let limits = &policy.operator.texts;
    let mut actions = schemas(&subagent_tool(limits), forms, limits);
    for action in &mut actions {
        if let Some(schema) = action["properties"].get_mut("model") {
            *schema = model(policy, schema["description"].clone());
        }
        narrow_webhooks(policy, action);
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
                {"name": "research", "agent": "researcher", "task": "Find out why the build is slow."},
                {"agent": "researcher", "task": "Say it in one sentence.", "depends_on": ["research"]},
            ]}},
            "status": {"value": {"action": "status", "task_id": "t_01"}},
            "wait": {"value": {"action": "wait", "task_ids": ["t_01"], "timeout_s": 30}},
            "collect": {"value": {"action": "collect", "task_id": "t_01"}},
        }),
    }
}

pub(super) fn shared_context(policy: &Policy) -> Tool {
    let limits = &policy.operator.texts;
    Tool {
        name: SHARED_CONTEXT,
        actions: schemas(
            &shared_context_tool(limits),
            ContextAction::ALL.iter().map(|action| (action.as_str(), action.forms())),
            limits,
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
    limits: &TextLimits,
) -> Vec<Value> {
    let known = &tool.input_schema["properties"];
    let forms = actions.flat_map(|(action, forms)| forms.iter().map(move |form| (action, form)));
    forms
        .map(|(action, form)| {
            let mut schema = fields((&tool.name, known), action, form, limits);
            schema["properties"]["action"] = json!({"type": "string", "const": action});
            if let Some(needed) = schema["required"].as_array_mut() {
                needed.insert(0, json!("action"));
            }
            schema
        })
        .collect()
}

/// The fields of an action, with the limits that the server enforces.
fn fields(
    (tool, known): (&str, &Value),
    action: &str,
    form: &ActionForm,
    limits: &TextLimits,
) -> Value {
    let field = |name: &str| {
        let mut schema = known[name].clone();
        narrow((tool, name), action, &mut schema, limits);
        schema
    };
    let mut properties = Map::new();
    properties.extend(form.required.iter().map(|name| ((*name).to_owned(), field(name))));
    properties.extend(form.optional.iter().map(|name| ((*name).to_owned(), or_null(field(name)))));
    object(properties, form.required)
}

/// Narrows the webhook of a task, and those of the tasks of a batch.
fn narrow_webhooks(policy: &Policy, action: &mut Value) {
    let in_tasks = "/properties/tasks/items/properties/webhook";
    for pointer in ["/properties/webhook", in_tasks] {
        if let Some(schema) = action.pointer_mut(pointer) {
            let description = schema["description"].clone();
            *schema = or_null(webhook(policy));
            schema["description"] = description;
        }
    }
}

/// Adds the limits that the server enforces and that the schemas for models leave out.
fn narrow((tool, name): (&str, &str), action: &str, schema: &mut Value, limits: &TextLimits) {
    let more = match (tool, name) {
        (SUBAGENT, "tasks") => {
            let item = fields((tool, &schema["items"]["properties"]), action, &BATCH_ITEM, limits);
            json!({"items": item, "minItems": 1, "maxItems": 100})
        }
        (SUBAGENT, "name" | "agent" | "extends") => json!({"pattern": "^[a-z0-9_-]{1,64}$"}),
        (SUBAGENT, "task") => {
            json!({"pattern": FILLED, "maxLength": longest(limits.task)})
        }
        (SUBAGENT, "description") => {
            json!({"pattern": "^[^\\u0000\\r\\n]*[!-~][^\\u0000\\r\\n]*$"})
        }
        (SUBAGENT, "system_prompt") => {
            json!({"pattern": FILLED, "maxLength": longest(limits.prompt)})
        }
        (SUBAGENT, "system_prompt_append" | "summary_prompt") => {
            json!({"pattern": TEXT, "maxLength": longest(limits.prompt)})
        }
        (SUBAGENT, "tools") => json!({"items": {"type": "string", "pattern": FILLED}}),
        (SUBAGENT, "extra_body") => {
            let field =
                json!({"type": ["number", "boolean", "string"], "maxLength": MAX_BODY_WORD});
            let fields = SESSION_BODY_FIELDS.iter().map(|name| ((*name).to_owned(), field.clone()));
            let fields: Map<String, Value> = fields.collect();
            json!({"properties": fields, "additionalProperties": false})
        }
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
        (SUBAGENT, "max_input_tokens" | "max_output_tokens") => {
            json!({"minimum": 0, "maximum": i64::MAX})
        }
        (SUBAGENT, "max_cost_usd") => json!({"minimum": 0, "maximum": MAX_USD}),
        (SUBAGENT, "pool") => json!({"pattern": "^[A-Za-z0-9_.-]{1,64}$"}),
        (SUBAGENT, "priority") => json!({"minimum": -100, "maximum": 100}),
        (SUBAGENT, "timeout_s") if action == "wait" => json!({"minimum": 0}),
        (SUBAGENT, "timeout_s") => json!({"exclusiveMinimum": 0, "maximum": MAX_SECONDS}),
        (SUBAGENT, "delay_s") => json!({"minimum": 0, "maximum": MAX_SECONDS}),
        (SUBAGENT, "label") => json!({"pattern": TEXT, "minLength": 1, "maxLength": 200}),
        (SUBAGENT, "idempotency_key") => json!({"pattern": TEXT, "minLength": 1, "maxLength": 300}),
        (SHARED_CONTEXT, "key") => json!({"pattern": KEY}),
        (SHARED_CONTEXT, "keys") => {
            json!({"items": {"type": "string", "pattern": KEY}, "minItems": 1, "maxItems": 100})
        }
        (SHARED_CONTEXT, "value") => {
            json!({"pattern": TEXT, "maxLength": longest(limits.value)})
        }
        (SHARED_CONTEXT, "label") => json!({"pattern": TEXT, "minLength": 1, "maxLength": 64}),
        (SHARED_CONTEXT, "limit") => json!({"minimum": 1, "maximum": 100}),
        _ => json!({}),
    };
    for (name, value) in more.as_object().into_iter().flatten() {
        schema[name] = value.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_tool_definition_is_in_an_action() {
        let subagent = SubagentAction::ALL.iter().flat_map(|action| action.forms());
        let context = ContextAction::ALL.iter().flat_map(|action| action.forms());
        let limits = &TextLimits::DEFAULT;
        let forms: [(_, Vec<&ActionForm>); 2] = [
            (subagent_tool(limits), subagent.collect()),
            (shared_context_tool(limits), context.collect()),
        ];
        let has = |form: &ActionForm, name: &str| {
            form.required.contains(&name) || form.optional.contains(&name)
        };
        for (tool, forms) in forms {
            let properties = tool.input_schema["properties"].as_object().unwrap();
            for name in properties.keys().filter(|name| *name != "action") {
                assert!(forms.iter().any(|form| has(form, name)), "{}: {name}", tool.name);
            }
            let item = &properties.get("tasks").unwrap_or(&Value::Null)["items"]["properties"];
            for name in item.as_object().into_iter().flatten().map(|(name, _)| name.as_str()) {
                assert!(has(&BATCH_ITEM, name), "tasks: {name}");
            }
            for name in forms.iter().flat_map(|form| form.required.iter().chain(form.optional)) {
                assert!(properties.contains_key(*name), "{}: {name}", tool.name);
            }
        }
    }
}
