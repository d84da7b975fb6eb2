//! `/openapi.json`. Paths, parameters and answers come from the routes themselves; what they have in common, errors, keys and
//! the arguments of tools, is laid over them here.

mod answers;
mod calls;
mod dialects;
mod errors;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::routing::get;
use serde_json::{Value, json};
use utoipa::OpenApi;

use super::{Shared, Visitor, dashboard, events, health, metrics, sessions, stats, tasks, tools, webhooks};
use crate::{Dialect, Policy};

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/openapi.json", get(show))
}

#[derive(OpenApi)]
#[openapi(
    info(title = "Adjutant", description = "Durable delegation for AI agents."),
    paths(
        health::lives, health::ready, metrics::show, dashboard::page, show,
        sessions::create, sessions::list, sessions::show, sessions::change, sessions::archive, sessions::remove,
        tools::definitions, tools::prompt, tools::call,
        tasks::list, tasks::show, tasks::turns, tasks::cancel, tasks::retry, stats::show,
        events::session_events, events::task_events,
        webhooks::set, webhooks::unset, webhooks::rotate, webhooks::secrets, webhooks::revoke, webhooks::list,
        webhooks::redeliver,
    ),
    tags(
        (name = "tools", description = "What an orchestrator calls."),
        (name = "sessions", description = "What one orchestrator works in."),
        (name = "history", description = "What became of tasks."),
        (name = "webhooks", description = "Who is told how tasks end."),
        (name = "events", description = "What happens, as it happens."),
        (name = "operations", description = "For those who run it."),
    )
)]
struct Routes;

/// This document
#[utoipa::path(get, path = "/openapi.json", tag = "operations", responses((status = 200, description = "OpenAPI 3.1.", body = Object)))]
async fn show(State(shared): State<Arc<Shared>>, _: Visitor) -> ([(HeaderName, &'static str); 1], String) {
    ([(CONTENT_TYPE, "application/json")], shared.document.clone())
}

/// Paths that are answered without a key.
const OPEN: [&str; 4] = ["/healthz", "/readyz", "/openapi.json", "/"];

const DELIVERIES: &str = "/v1/webhooks/deliveries";

const TOOL_PATH: &str = "/v1/sessions/{session}/tools/{tool}";

/// What this server takes and answers, with the limits and the models of its config.
pub(super) fn document(policy: &Policy) -> Value {
    // A document that cannot be written would be a bug that every test of it finds.
    let mut document = serde_json::to_value(Routes::openapi()).unwrap_or_default();
    document["security"] = json!([{"key": []}]);
    document["components"]["securitySchemes"] = json!({"key": {
        "type": "http", "scheme": "bearer", "bearerFormat": "adj_...",
        "description": "A key of `adjutant keys create`. Not needed on a loopback address as long as there is no key.",
    }});
    if let Some(paths) = document["paths"].as_object_mut() {
        if let Some(call) = paths.remove(TOOL_PATH) {
            for calls::Tool { name, actions, examples } in [calls::subagent(policy), calls::shared_context()]
            {
                paths.insert(TOOL_PATH.replace("{tool}", name), tool_path(&call, name, actions, examples));
            }
            dialects::add(paths, &call);
        }
        for (path, item) in paths {
            for (method, operation) in item.as_object_mut().into_iter().flatten() {
                complete(path, method, operation);
            }
        }
    }
    document["components"]["schemas"]["NewSession"] = calls::new_session(policy);
    document["components"]["schemas"]["SessionChange"] = calls::session_change(policy);
    document["components"]["schemas"]["Webhook"] = calls::webhook(policy);
    document["components"]["schemas"]["NewWebhookSecret"] = calls::new_webhook_secret();
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        schemas.extend(answers::schemas());
    }
    document
}

/// The same route, as it is for one tool.
fn tool_path(call: &Value, name: &str, forms: Vec<Value>, examples: Value) -> Value {
    let mut item = call.clone();
    let operation = &mut item["post"];
    operation["operationId"] = json!(format!("call_{name}"));
    operation["summary"] = json!(format!("Call {name}"));
    operation["requestBody"] = json!({"required": true, "content": {"application/json": {
        "schema": {"oneOf": forms}, "examples": examples,
    }}});
    item
}

fn complete(path: &str, method: &str, operation: &mut Value) {
    if operation["operationId"].as_str().is_none_or(|id| ["show", "list"].contains(&id))
        || path.starts_with("/v1/")
    {
        // The names of functions are not unique; those of paths are.
        let name = path.replace(['{', '}'], "").replace('/', "_");
        operation["operationId"] = json!(format!("{method}{name}"));
    }
    if OPEN.contains(&path) {
        operation["security"] = json!([]);
    }
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten() {
        parameter_schema(path, parameter);
    }
    if let Some((status, answer)) = answers::of(path, method) {
        operation["responses"][status]["content"]["application/json"]["schema"] = answer;
    }
    if let Some(id) = answers::task_in(path) {
        operation["responses"]["200"]["links"] = links(id);
    }
    if method == "put" {
        operation["requestBody"] = body("Webhook");
        operation["requestBody"]["required"] = json!(true);
    } else if ["post", "patch"].contains(&method) && operation.get("requestBody").is_none() {
        operation["requestBody"] = optional_body(path);
    }
    let codes = errors::of(path, method);
    for (status, answer) in errors::responses(&codes) {
        operation["responses"][status] = answer;
    }
}

/// What the macros cannot say of parameters.
fn parameter_schema(path: &str, parameter: &mut Value) {
    let text = json!({"type": "string", "minLength": 1, "pattern": "^[^\\u0000]*$"});
    let schema = match parameter["name"].as_str().unwrap_or_default() {
        "dialect" => dialect_schema(path),
        "format" => json!({"type": "string", "enum": ["anthropic", "openai", "mcp"], "default": "anthropic"}),
        "failure" => json!({"type": "string", "enum": adjutant_agent::FailureKind::ALL}),
        "state" if path == DELIVERIES => json!({"type": "string", "enum": webhooks::STATES}),
        "cursor" if path == DELIVERIES => json!({"type": "string", "format": "uuid"}),
        "state" => json!({"type": "string", "enum": adjutant_agent::TaskState::ALL}),
        "since" | "until" => json!({"type": "string", "format": "date-time"}),
        "id" => json!({"type": "string", "format": "uuid"}),
        "Last-Event-ID" | "after" => json!({"type": "string", "pattern": "^[0-9]{1,18}(\\.0)?$"}),
        "from" => json!({"type": "string", "enum": ["start", "now"], "default": "start"}),
        "text" => json!({"type": "boolean", "default": false}),
        "Idempotency-Key" => {
            json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"})
        }
        // What is no page's cursor is refused, but for the names of sessions: whatever comes after a name has a place.
        "cursor" if path == "/v1/tasks" => json!({"type": "string", "pattern": "^[0-9a-f]{32}$"}),
        "cursor" if path.ends_with("/turns") => json!({"type": "string", "pattern": "^[1-9][0-9]{0,8}$"}),
        "limit" => json!({"type": "integer", "minimum": 1, "maximum": 500, "default": 50}),
        _ => text,
    };
    if parameter["name"] == "dialect" && schema.get("default").is_none() {
        parameter["required"] = json!(true);
    }
    parameter["schema"] = schema;
}

/// Which dialects there are at a path; where ours is not among them, one has to be named.
fn dialect_schema(path: &str) -> Value {
    let dialects = dialects::at(path);
    let words: Vec<_> = dialects.iter().map(|dialect| dialect.as_str()).collect();
    let mut schema = json!({"type": "string", "enum": words});
    if dialects.contains(&Dialect::Spec) {
        schema["default"] = json!(Dialect::Spec.as_str());
    }
    schema
}

/// What can be asked about the task whose id is there in the answer.
fn links(id: &str) -> Value {
    let to = |operation: &str| json!({"operationId": operation, "parameters": {"id": id}});
    json!({
        "show": to("get_v1_tasks_id"), "turns": to("get_v1_tasks_id_turns"),
        "cancel": to("post_v1_tasks_id_cancel"), "retry": to("post_v1_tasks_id_retry"),
    })
}

fn optional_body(path: &str) -> Value {
    let name = match path {
        "/v1/sessions" => "NewSession",
        "/v1/sessions/{session}" => "SessionChange",
        "/v1/webhooks/secrets" => "NewWebhookSecret",
        _ => return json!({"required": false, "content": {"application/json": {"schema": calls::nothing()}}}),
    };
    body(name)
}

fn body(name: &str) -> Value {
    let schema = json!({"$ref": format!("#/components/schemas/{name}")});
    json!({"required": false, "content": {"application/json": {"schema": schema}}})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn operations(document: &Value) -> Vec<(String, &Value)> {
        let paths = document["paths"].as_object().unwrap();
        paths
            .iter()
            .flat_map(|(path, item)| {
                let item = item.as_object().unwrap().iter();
                item.map(move |(method, operation)| (format!("{method} {path}"), operation))
            })
            .collect()
    }

    #[test]
    fn every_route_is_in_it_once_with_its_errors() {
        let document = document(&Policy::default());
        let operations = operations(&document);
        assert_eq!(operations.len(), 36, "{:?}", operations.iter().map(|(name, _)| name).collect::<Vec<_>>());
        let ids: BTreeSet<_> =
            operations.iter().map(|(_, one)| one["operationId"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), operations.len(), "{ids:?}");
        for (name, operation) in &operations {
            let statuses: Vec<&String> = operation["responses"].as_object().unwrap().keys().collect();
            assert!(statuses.iter().any(|status| status.starts_with('2')), "{name}");
            if !OPEN.iter().any(|open| name.split(' ').nth(1) == Some(open)) {
                for status in ["400", "401", "403", "429", "500", "503"] {
                    assert!(statuses.iter().any(|known| *known == status), "{name}: no {status}");
                }
            }
            let path = name.split(' ').nth(1).unwrap();
            for part in path.split('/').filter_map(|part| part.strip_prefix('{')) {
                let part = part.trim_end_matches('}');
                let parameters = operation["parameters"].as_array().unwrap();
                assert!(
                    parameters.iter().any(|one| one["name"] == part && one["required"] == true),
                    "{name}: {part}"
                );
            }
        }
    }

    /// Asking for a field of a value that can change makes it: a null where a list should be.
    #[test]
    fn nothing_is_null_but_a_word_among_others() {
        fn look(place: &str, value: &Value) {
            match value {
                Value::Null => assert!(place.contains("/enum/"), "{place}"),
                Value::Object(fields) => {
                    fields.iter().for_each(|(name, value)| look(&format!("{place}/{name}"), value));
                }
                Value::Array(items) => {
                    items.iter().enumerate().for_each(|(nth, value)| look(&format!("{place}/{nth}"), value));
                }
                Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        look("", &document(&Policy::default()));
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(fields) => {
                    found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    fields.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, found)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let document = document(&Policy::default());
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
        }
    }
}
