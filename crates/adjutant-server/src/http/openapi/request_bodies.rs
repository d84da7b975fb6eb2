//! The bodies of requests other than tool calls. Their schemas are derived from the types that they
//! are parsed into; constraints that depend on the server's configuration are added here.

use adjutant_agent::{MAX_USD, NetworkPolicy, Permissions, Webhook, WebhookEvent, longest};
use serde_json::{Map, Value, json};
use utoipa::OpenApi;

use super::super::bulk_body::{TaskFilterBody, TaskSelection};
use super::super::session_body::{CHANGEABLE, MOST_SKILLS, NewSessionBody, RaiseBody};
use super::super::webhooks::NewWebhookSecret;
use crate::Policy;

/// A text without NUL characters, which PostgreSQL cannot store.
pub(super) const TEXT: &str = "^[^\\u0000]*$";
/// A text that is not blank.
pub(super) const FILLED: &str = "^[^\\u0000]*[!-~][^\\u0000]*$";

#[derive(OpenApi)]
#[openapi(components(schemas(
    NewSessionBody,
    NewWebhookSecret,
    Permissions,
    RaiseBody,
    TaskFilterBody,
    TaskSelection
)))]
struct RequestBodies;

/// The schemas of all request bodies by name.
pub(super) fn schemas(policy: &Policy) -> Map<String, Value> {
    let derived = RequestBodies::openapi().components.map(|parts| parts.schemas);
    let mut schemas = Map::new();
    for (name, schema) in derived.unwrap_or_default() {
        let mut schema = serde_json::to_value(schema).unwrap_or_default();
        if schema.get("properties").is_some() {
            refuse_unknown_fields(&mut schema);
        }
        schemas.insert(name, schema);
    }
    // This is the type of responses; in a request the events are optional.
    schemas.remove("TaskWebhook");
    schemas.insert("Webhook".to_owned(), webhook(policy));
    narrow_permissions(&mut schemas["Permissions"]["properties"]);
    narrow_session(policy, &mut schemas["NewSession"]["properties"]);
    narrow_limits(&mut schemas["Raise"]["properties"]);
    narrow_filter(&mut schemas["TaskFilter"]["properties"]);
    schemas["Raise"]["minProperties"] = json!(1);
    let mut change = schemas["NewSession"].clone();
    if let Some(properties) = change["properties"].as_object_mut() {
        properties.retain(|name, _| CHANGEABLE.contains(&name.as_str()));
    }
    change["example"] = json!({"permissions": {"deny": ["*write*"]}});
    schemas.insert("SessionChange".to_owned(), change);
    schemas
}

/// The body of a route that takes no fields.
pub(super) fn empty() -> Value {
    object(Map::new(), &[])
}

fn narrow_session(policy: &Policy, fields: &mut Value) {
    fields["model"] = model(policy, fields["model"]["description"].clone());
    fields["max_active"]["maximum"] = json!(policy.sessions.max_active);
    fields["max_queued"]["maximum"] = json!(policy.sessions.max_queued);
    fields["system_prompt"]["maxLength"] = json!(longest(policy.operator.texts.prompt));
    narrow_limits(fields);
    fields["tools"]["items"]["pattern"] = json!(FILLED);
    let names: Vec<&str> = policy.skills.iter().map(|skill| skill.name.as_str()).collect();
    if names.is_empty() {
        fields["skills"]["maxItems"] = json!(0);
    } else {
        fields["skills"]["maxItems"] = json!(MOST_SKILLS);
        fields["skills"]["items"]["enum"] = json!(names);
    }
    fields["webhook"] = json!({"oneOf": [
        {"$ref": "#/components/schemas/Webhook"}, {"type": "null"},
    ]});
}

fn narrow_filter(fields: &mut Value) {
    fields["state"]["enum"] = words(adjutant_agent::TaskState::ALL);
    fields["failure"]["enum"] = words(adjutant_agent::FailureKind::ALL);
}

/// The words of an optional field.
fn words<T: serde::Serialize>(all: &[T]) -> Value {
    json!(all.iter().map(Some).chain([None]).collect::<Vec<_>>())
}

fn narrow_limits(fields: &mut Value) {
    for name in ["max_input_tokens", "max_output_tokens"] {
        fields[name]["maximum"] = json!(i64::MAX);
    }
    fields["max_cost_usd"]["maximum"] = json!(MAX_USD);
}

fn narrow_permissions(fields: &mut Value) {
    let patterns = json!({"type": ["array", "null"], "maxItems": 100, "items": {
        "type": "string", "minLength": 1, "maxLength": 128, "pattern": TEXT,
    }});
    for name in ["allow", "deny"] {
        let description = fields[name]["description"].clone();
        fields[name] = patterns.clone();
        fields[name]["description"] = description;
    }
}

fn refuse_unknown_fields(schema: &mut Value) {
    schema["additionalProperties"] = json!({"type": "null"});
    schema["propertyNames"] = json!({"pattern": TEXT});
}

/// The name of a model: any name, if the operator has an alias for all of them. The document needs
/// no key, so it names no models if some are not for all tenants.
pub(super) fn model(policy: &Policy, description: Value) -> Value {
    let mut schema = json!({"type": ["string", "null"], "description": description});
    if policy.model_aliases.contains_key("*") || !policy.model_tenants.is_empty() {
        schema["pattern"] = json!(FILLED);
    } else {
        let names: Vec<_> =
            policy.models.iter().chain(policy.model_aliases.keys()).map(Some).collect();
        schema["enum"] = json!(names.into_iter().chain([None]).collect::<Vec<_>>());
    }
    schema
}

/// URLs that a resolver can look up. The server also accepts longer names, and public addresses.
const URL: &str = "://[a-z][a-z0-9]{0,20}(-[a-z0-9]{1,20}){0,2}(\\.[a-z][a-z0-9]{0,20}){1,3}(:[1-9][0-9]{0,3})?(/[!-~]*)?$";

pub(super) fn webhook(policy: &Policy) -> Value {
    let (scheme, needed) = match policy.webhooks {
        NetworkPolicy::Public => ("^https", "An https URL, of a public address."),
        NetworkPolicy::Anywhere => ("^https?", "An http or https URL."),
    };
    let properties = json!({
        "url": {
            "type": "string", "pattern": format!("{scheme}{URL}"), "maxLength": Webhook::MAX_URL_CHARS,
            "description": needed, "examples": ["https://hooks.example.com/adjutant"],
        },
        "events": {
            "type": ["array", "null"], "items": {"type": "string", "enum": WebhookEvent::ALL}, "minItems": 1,
            "uniqueItems": true, "description": "The ends that it receives; all of them if you name none.",
        },
    });
    let Value::Object(properties) = properties else { return Value::Null };
    object(properties, &["url"])
}

/// An object that allows no further fields. A null counts as absent, in any field.
pub(super) fn object(properties: Map<String, Value>, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "properties": properties, "required": required});
    refuse_unknown_fields(&mut schema);
    schema
}

pub(super) fn or_null(mut schema: Value) -> Value {
    schema["type"] = json!([schema["type"], "null"]);
    if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.push(Value::Null);
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_one_of_the_configured_names_unless_there_is_an_alias_for_all() {
        let mut policy = Policy { models: vec!["main".to_owned()], ..Policy::default() };
        policy.model_aliases.insert("sonnet".to_owned(), "main".to_owned());
        let session =
            |policy: &Policy| schemas(policy)["NewSession"]["properties"]["model"].clone();
        assert_eq!(session(&policy)["enum"], json!(["main", "sonnet", null]));
        policy.model_aliases.insert("*".to_owned(), "main".to_owned());
        assert_eq!(session(&policy).get("enum"), None);
    }
}
