//! `/openapi.json`. Paths, parameters and bodies are derived from the routes and their types.
//! Errors, security and the arguments of tools, which the derive does not cover, are added here.

mod answers;
mod dialects;
mod errors;
mod request_bodies;
pub(super) mod tool_answers;
mod tool_arguments;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::routing::get;
use serde_json::{Value, json};
use utoipa::OpenApi;

use super::{
    SameOrigin, Shared, audit, dashboard, events, health, metrics, sessions, stats, tasks, tools,
    webhooks,
};
use crate::{Dialect, Policy};

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/openapi.json", get(show))
}

#[derive(OpenApi)]
#[openapi(
    info(title = "Adjutant", description = "Durable delegation for AI agents."),
    paths(
        health::lives, health::ready, metrics::show, dashboard::page, show,
        sessions::create, sessions::list, sessions::show, sessions::change, sessions::archive,
        sessions::remove, sessions::raise,
        tools::definitions, tools::prompt, tools::call,
        tasks::list, tasks::show, tasks::turns, tasks::cancel, tasks::retry, tasks::raise,
        tasks::cancel_matching, tasks::retry_matching,
        stats::show,
        events::session_events, events::task_events,
        webhooks::set, webhooks::unset, webhooks::rotate, webhooks::secrets, webhooks::revoke,
        webhooks::list, webhooks::redeliver, audit::list,
    ),
    tags(
        (name = "tools", description = "The tools of orchestrators."),
        (name = "sessions", description = "A session has the agents, tasks and shared context of one orchestrator."),
        (name = "history", description = "All tasks of the tenant."),
        (name = "webhooks", description = "Webhooks receive the ends of tasks."),
        (name = "events", description = "Streams of events."),
        (name = "operations", description = "For operators."),
    )
)]
struct Routes;

/// This document
#[utoipa::path(get, path = "/openapi.json", tag = "operations", responses((status = 200, description = "OpenAPI 3.1.", body = Object)))]
async fn show(
    State(shared): State<Arc<Shared>>,
    _: SameOrigin,
) -> ([(HeaderName, &'static str); 1], String) {
    let body = shared.openapi.get_or_init(|| document(&shared.service.policy).to_string());
    ([(CONTENT_TYPE, "application/json")], body.clone())
}

/// Paths that need no key.
const OPEN: [&str; 4] = ["/healthz", "/readyz", "/openapi.json", "/"];

const DELIVERIES: &str = "/v1/webhooks/deliveries";

const TOOL_PATH: &str = "/v1/sessions/{session}/tools/{tool}";

/// The document of this server, with the limits and the models of its configuration.
pub(super) fn document(policy: &Policy) -> Value {
    // The document is constant, so a failure would show in every test of it.
    let mut document = serde_json::to_value(Routes::openapi()).unwrap_or_default();
    document["security"] = json!([{"key": []}]);
    document["components"]["securitySchemes"] = json!({"key": {
        "type": "http", "scheme": "bearer", "bearerFormat": "adj_...",
        "description": "A key of `adjutant keys create`. Not needed on a loopback address as long as there is no key.",
    }});
    if let Some(paths) = document["paths"].as_object_mut() {
        if let Some(call) = paths.remove(TOOL_PATH) {
            for tool_arguments::Tool { name, actions, examples } in
                [tool_arguments::subagent(policy), tool_arguments::shared_context(policy)]
            {
                paths.insert(
                    TOOL_PATH.replace("{tool}", name),
                    tool_path(&call, name, actions, examples),
                );
            }
            dialects::add(paths, &call);
        }
        for (path, item) in paths {
            for (method, operation) in item.as_object_mut().into_iter().flatten() {
                complete(path, method, operation);
            }
        }
    }
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        answers::complete(schemas);
        schemas.extend(request_bodies::schemas(policy));
    }
    document
}

/// The route of tool calls for one tool.
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
        // Function names are not unique across modules, and paths are.
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
    if let Some(answer) = answers::of_tool(path) {
        operation["responses"]["200"]["content"]["application/json"]["schema"] = answer;
    }
    if let Some(id) = answers::task_in(path) {
        operation["responses"]["200"]["links"] = links(id);
    }
    if ["/v1/tasks/cancel", "/v1/tasks/retry"].contains(&path) {
        operation["requestBody"] = body("TaskSelection");
        operation["requestBody"]["required"] = json!(true);
    } else if method == "put" {
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

/// Constraints of parameters that the macros cannot express.
fn parameter_schema(path: &str, parameter: &mut Value) {
    let text = json!({"type": "string", "minLength": 1, "pattern": "^[^\\u0000]*$"});
    let schema = match parameter["name"].as_str().unwrap_or_default() {
        "dialect" => dialect_schema(path),
        "format" => {
            json!({"type": "string", "enum": ["anthropic", "openai", "mcp"], "default": "anthropic"})
        }
        "failure" => json!({"type": "string", "enum": adjutant_agent::FailureKind::ALL}),
        "state" if path == DELIVERIES => {
            json!({"type": "string", "enum": adjutant_agent::DeliveryState::ALL})
        }
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
        // The cursor of the list of sessions is a name, and any text is valid there.
        "cursor" if path == "/v1/tasks" => json!({"type": "string", "pattern": "^[0-9a-f]{32}$"}),
        "cursor" if path == "/v1/audit" => {
            json!({"type": "string", "pattern": "^[1-9][0-9]{0,17}$"})
        }
        "cursor" if path.ends_with("/turns") => {
            json!({"type": "string", "pattern": "^[1-9][0-9]{0,8}$"})
        }
        "limit" => json!({"type": "integer", "minimum": 1, "maximum": 500, "default": 50}),
        _ => text,
    };
    if parameter["name"] == "dialect" && schema.get("default").is_none() {
        parameter["required"] = json!(true);
    }
    parameter["schema"] = schema;
}

/// The dialects of a path. Without a default the parameter is required.
fn dialect_schema(path: &str) -> Value {
    let dialects = dialects::at(path);
    let words: Vec<_> = dialects.iter().map(|dialect| dialect.as_str()).collect();
    let mut schema = json!({"type": "string", "enum": words});
    if dialects.contains(&Dialect::Spec) {
        schema["default"] = json!(Dialect::Spec.as_str());
    }
    schema
}

/// Links to the operations on the task whose id is in the answer.
fn links(id: &str) -> Value {
    let to = |operation: &str| json!({"operationId": operation, "parameters": {"id": id}});
    json!({
        "show": to("get_v1_tasks_id"), "turns": to("get_v1_tasks_id_turns"),
        "cancel": to("post_v1_tasks_id_cancel"), "raise": to("post_v1_tasks_id_raise"),
        "retry": to("post_v1_tasks_id_retry"),
    })
}

fn optional_body(path: &str) -> Value {
    let name = match path {
        "/v1/sessions" => "NewSession",
        "/v1/sessions/{session}" => "SessionChange",
        "/v1/webhooks/secrets" => "NewWebhookSecret",
        "/v1/tasks/{id}/raise" | "/v1/sessions/{session}/raise" => "Raise",
        _ => {
            return json!({"required": false, "content": {"application/json": {"schema": request_bodies::empty()}}});
        }
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
    fn every_route_is_documented_once_with_its_errors() {
        let document = document(&Policy::default());
        let operations = operations(&document);
        assert_eq!(
            operations.len(),
            41,
            "{:?}",
            operations.iter().map(|(name, _)| name).collect::<Vec<_>>()
        );
        let ids: BTreeSet<_> =
            operations.iter().map(|(_, one)| one["operationId"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), operations.len(), "{ids:?}");
        for (name, operation) in &operations {
            let statuses: Vec<&String> =
                operation["responses"].as_object().unwrap().keys().collect();
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

    /// Indexing a mutable JSON value inserts a null where the field is missing.
    #[test]
    fn nothing_is_null_except_in_enums() {
        fn check(path: &str, value: &Value) {
            match value {
                Value::Null => assert!(path.contains("/enum/"), "{path}"),
                Value::Object(fields) => {
                    fields.iter().for_each(|(name, value)| check(&format!("{path}/{name}"), value));
                }
                Value::Array(items) => {
                    items
                        .iter()
                        .enumerate()
                        .for_each(|(nth, value)| check(&format!("{path}/{nth}"), value));
                }
                Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        check("", &document(&Policy::default()));
    }

    #[test]
    fn every_reference_can_be_resolved() {
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
