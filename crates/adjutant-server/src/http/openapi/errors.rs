//! The errors of each route.

use std::collections::BTreeMap;

use adjutant_agent::ErrorCode;
use serde_json::{Value, json};

use super::{OPEN, TOOL_PATH};
use crate::error::status;

/// Errors of every route that needs a key.
const COMMON: [ErrorCode; 6] = [
    ErrorCode::InvalidArgument,
    ErrorCode::Unauthenticated,
    ErrorCode::Forbidden,
    ErrorCode::RateLimited,
    ErrorCode::Unavailable,
    ErrorCode::Internal,
];

const WITH_BODY: [ErrorCode; 3] =
    [ErrorCode::BodyTooLarge, ErrorCode::UnsupportedMediaType, ErrorCode::RequestTimeout];

const OF_SUBAGENT: [ErrorCode; 15] = [
    ErrorCode::AgentAlreadyExists,
    ErrorCode::AgentNotFound,
    ErrorCode::IdempotencyConflict,
    ErrorCode::InvalidAction,
    ErrorCode::InvalidAgentName,
    ErrorCode::InvalidModel,
    ErrorCode::InvalidTool,
    ErrorCode::MaxTasksExceeded,
    ErrorCode::PromptTooLarge,
    ErrorCode::SessionArchived,
    ErrorCode::SessionNotFound,
    ErrorCode::TaskNotFound,
    ErrorCode::TaskNotReady,
    ErrorCode::TaskTooLarge,
    ErrorCode::WebhookSecretNotFound,
];

const OF_SHARED_CONTEXT: [ErrorCode; 8] = [
    ErrorCode::InvalidAction,
    ErrorCode::InvalidKey,
    ErrorCode::InvalidTool,
    ErrorCode::KeyNotFound,
    ErrorCode::SessionArchived,
    ErrorCode::SessionNotFound,
    ErrorCode::StoreFull,
    ErrorCode::ValueTooLarge,
];

pub(super) fn of(path: &str, method: &str) -> Vec<ErrorCode> {
    match path {
        "/healthz" => return Vec::new(),
        "/readyz" => return vec![ErrorCode::Unavailable],
        _ if OPEN.contains(&path) => {
            return vec![ErrorCode::Forbidden, ErrorCode::Unavailable, ErrorCode::Internal];
        }
        _ => {}
    }
    let mut codes = COMMON.to_vec();
    if ["post", "put", "patch"].contains(&method) {
        codes.extend(WITH_BODY);
    }
    if path.contains('{') {
        codes.push(ErrorCode::RouteNotFound);
    }
    if path == TOOL_PATH.replace("{tool}", adjutant_agent::SUBAGENT) {
        codes.extend(OF_SUBAGENT);
    } else if path == TOOL_PATH.replace("{tool}", adjutant_agent::SHARED_CONTEXT) {
        codes.extend(OF_SHARED_CONTEXT);
    } else if path.starts_with("/v1/sessions/{session}/tools/") {
        codes.extend([ErrorCode::SessionNotFound, ErrorCode::IdempotencyConflict]);
    } else if path.starts_with("/v1/sessions/{session}") {
        codes.push(ErrorCode::SessionNotFound);
    } else if path == "/v1/sessions" && method == "post" {
        codes.extend([
            ErrorCode::SessionAlreadyExists,
            ErrorCode::InvalidModel,
            ErrorCode::InvalidTool,
            ErrorCode::PromptTooLarge,
            ErrorCode::MaxSessionsExceeded,
            ErrorCode::WebhookSecretNotFound,
        ]);
    } else if path.starts_with("/v1/tasks/{id}") {
        codes.push(ErrorCode::TaskNotFound);
    }
    if method == "patch" {
        codes.extend([
            ErrorCode::InvalidModel,
            ErrorCode::InvalidTool,
            ErrorCode::PromptTooLarge,
            ErrorCode::SessionArchived,
        ]);
    }
    match (path, method) {
        ("/v1/sessions/{session}/webhook", "put") | ("/v1/webhooks/secrets/{id}", _) => {
            codes.push(ErrorCode::WebhookSecretNotFound)
        }
        _ if path.ends_with("/redeliver") => codes.push(ErrorCode::DeliveryNotFound),
        _ => {}
    }
    if path == "/v1/tasks/{id}/retry" {
        codes.extend([
            ErrorCode::AgentNotFound,
            ErrorCode::IdempotencyConflict,
            ErrorCode::InvalidModel,
            ErrorCode::MaxTasksExceeded,
            ErrorCode::SessionArchived,
            ErrorCode::TaskNotReady,
        ]);
    }
    codes
}

/// The error responses by status.
pub(super) fn responses(codes: &[ErrorCode]) -> BTreeMap<String, Value> {
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in codes {
        by_status.entry(status(*code).as_u16()).or_default().push(code.as_str());
    }
    by_status
        .into_iter()
        .map(|(status, words)| (status.to_string(), response(status, &words)))
        .collect()
}

fn response(status: u16, words: &[&str]) -> Value {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    let mut response = json!({
        "description": quoted.join(", "),
        "content": {"application/json": {"schema": {
            "type": "object",
            "required": ["error", "message"],
            "properties": {
                "error": {"type": "string", "enum": words},
                "message": {"type": "string", "description": "A sentence for people. It starts with the name of the argument that is wrong."},
            },
            "additionalProperties": false,
        }}},
    });
    if status == 429 || status == 503 {
        response["headers"] = json!({"Retry-After": {
            "description": "In seconds.", "required": true, "schema": {"type": "integer", "minimum": 1},
        }});
    }
    response
}
