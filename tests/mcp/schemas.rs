//! The tools' schemas, and that answers are what they say.

use serde_json::{Value, json};

use super::client::Modern;
use crate::http::server::Server;
use crate::world::World;

/// A result has its structured content as text too, and it is what the tool's output schema says; each field is in it.
#[track_caller]
pub fn assert_fits(tools: &Value, tool: &str, result: &Value) {
    let content = &result["structuredContent"];
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(&text, content);
    let Some(tool) = tools.as_array().unwrap().iter().find(|known| known["name"] == tool) else {
        assert_eq!(content["error"], "TOOL_NOT_FOUND");
        return;
    };
    check(content, &tool["outputSchema"], "structuredContent");
}

#[track_caller]
fn check(value: &Value, schema: &Value, path: &str) {
    let kinds: Vec<&str> = match schema["type"].as_array() {
        Some(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        None => schema["type"].as_str().into_iter().collect(),
    };
    let fits = kinds.iter().any(|kind| match *kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{path}: a type {other}"),
    });
    assert!(fits, "{path}: {value} is none of {kinds:?}");
    if let Some(words) = schema["enum"].as_array() {
        assert!(words.contains(value), "{path}: {value} is none of {words:?}");
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        let known =
            schema["properties"].get(name).unwrap_or_else(|| panic!("{path}: {name} is not in the schema"));
        check(field, known, &format!("{path}.{name}"));
    }
    for item in value.as_array().into_iter().flatten() {
        check(item, &schema["items"], &format!("{path}[]"));
    }
}

/// What strict clients want of a schema: objects with properties, arrays with items, no references, nothing without a type.
#[track_caller]
fn assert_strict(schema: &Value, path: &str) {
    assert!(schema["type"].is_string() || schema["type"].is_array(), "{path} has no type: {schema}");
    assert!(schema["description"].is_string() || path.ends_with("Schema") || path.ends_with("[]"), "{path}");
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        assert_strict(field, &format!("{path}.{name}"));
    }
    if schema["type"] == "array" {
        assert_strict(&schema["items"], &format!("{path}[]"));
    }
    for odd in ["$ref", "oneOf", "anyOf", "allOf", "not", "if"] {
        assert!(schema.get(odd).is_none(), "{path} has {odd}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_have_schemas_that_strict_clients_take_and_words_that_teach() {
    let world = World::new().await;
    let client = Modern::without_key(Server::on(&world));
    let answer = client.request("tools/list", json!({})).await;
    let listed = answer["result"]["tools"].as_array().unwrap();
    assert_eq!(listed.iter().map(|tool| &tool["name"]).collect::<Vec<_>>(), ["subagent", "shared_context"]);
    for tool in listed {
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object");
            assert_strict(&tool[schema], schema);
        }
        assert_eq!(tool["inputSchema"]["required"], json!(["action"]));
        assert_eq!(tool["annotations"]["readOnlyHint"], false);
    }
    let about = listed[0]["description"].as_str().unwrap();
    for word in ["When to delegate", "not", "list_agents", "spawn", "wait", "collect", "shared_context"] {
        assert!(about.contains(word), "{word} in {about}");
    }
}
