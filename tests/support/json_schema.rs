//! The part of JSON Schema that the tools' output schemas use.

use serde_json::Value;

/// Checks that the text of a tool result equals its structured content, and that the content fits
/// the tool's output schema, without fields that the schema lacks.
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
        let known = schema["properties"]
            .get(name)
            .unwrap_or_else(|| panic!("{path}: {name} is not in the schema"));
        check(field, known, &format!("{path}.{name}"));
    }
    for item in value.as_array().into_iter().flatten() {
        check(item, &schema["items"], &format!("{path}[]"));
    }
}
