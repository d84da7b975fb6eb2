//! The schemas of response bodies. They are derived from the response types, and completed here
//! where the derive is not exact. `make test-api` checks real responses against them.

use serde_json::{Map, Value, json};

use super::tool_answers::{self, answers_of};
use super::{TOOL_PATH, dialects};

/// Times have milliseconds and are in UTC, everywhere.
const TIME: &str = "\\.[0-9]{3}Z$";

/// Completes the derived schemas of answers, and adds those of the tools.
pub(super) fn complete(schemas: &mut Map<String, Value>) {
    let names: Vec<String> = schemas.keys().cloned().collect();
    for name in &names {
        let flat = flattened(&schemas[name], schemas);
        schemas.insert(name.clone(), flat);
    }
    schemas.values_mut().for_each(require_nullable);
    // Added after `require_nullable`, because tool answers leave out fields that have no value.
    if let Ok(Value::Object(of_tools)) = serde_json::to_value(tool_answers::schemas()) {
        schemas.extend(of_tools);
    }
    schemas.values_mut().for_each(narrow_times);
}

/// Merges the `allOf` that utoipa derives for a flattened field into one object: a part by itself
/// would not allow the fields of the others.
fn flattened(schema: &Value, schemas: &Map<String, Value>) -> Value {
    let Some(parts) = schema.get("allOf").and_then(Value::as_array) else { return schema.clone() };
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for part in parts {
        let name = part["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        // A part may have flattened fields itself.
        let part = flattened(name.and_then(|name| schemas.get(name)).unwrap_or(part), schemas);
        properties.extend(part["properties"].as_object().cloned().unwrap_or_default());
        required.extend(part["required"].as_array().cloned().unwrap_or_default());
    }
    let mut flat = schema.clone();
    if let Some(fields) = flat.as_object_mut() {
        fields.remove("allOf");
    }
    flat["type"] = json!("object");
    flat["properties"] = Value::Object(properties);
    flat["required"] = Value::Array(required);
    flat
}

/// Makes nullable fields required: serde always writes them, but utoipa takes them for optional.
fn require_nullable(schema: &mut Value) {
    let Some(properties) = schema["properties"].as_object() else { return };
    let nullable: Vec<Value> = properties
        .iter()
        .filter(|(_, field)| is_nullable(field))
        .map(|(name, _)| json!(name))
        .collect();
    if schema.get("required").is_none() {
        schema["required"] = json!([]);
    }
    if let Some(required) = schema["required"].as_array_mut() {
        required.extend(nullable);
    }
}

fn is_nullable(schema: &Value) -> bool {
    let has_null =
        |types: &Value| types.as_array().is_some_and(|types| types.contains(&json!("null")));
    let one_of = schema["oneOf"].as_array().into_iter().flatten();
    has_null(&schema["type"]) || one_of.into_iter().any(|one| one["type"] == "null")
}

fn narrow_times(schema: &mut Value) {
    if schema["format"] == "date-time" {
        schema["pattern"] = json!(TIME);
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(narrow_times),
        Value::Array(items) => items.iter_mut().for_each(narrow_times),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The schema of a tool's answers, if the path is that of a tool.
pub(super) fn of_tool(path: &str) -> Option<Value> {
    let tool = path.strip_prefix(TOOL_PATH.trim_end_matches("{tool}"))?;
    let reference = |name: &&str| json!({"$ref": format!("#/components/schemas/{name}")});
    let answers = answers_of(tool).iter().map(reference).chain(dialects::answers(path));
    Some(json!({"anyOf": answers.collect::<Vec<_>>()}))
}

/// The location of the task id in the responses of a path, if they always have one.
pub(super) fn task_in(path: &str) -> Option<&'static str> {
    match path {
        "/v1/tasks/{id}"
        | "/v1/tasks/{id}/cancel"
        | "/v1/tasks/{id}/retry"
        | "/v1/tasks/{id}/raise" => Some("$response.body#/id"),
        _ => None,
    }
}
