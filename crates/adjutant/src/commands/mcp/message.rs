//! A message of the MCP client.

use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::Refusal;

const IDEMPOTENCY_KEY: &str = "adjutant/idempotency-key";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The first revision whose results have a `resultType`. Revisions are dates and compare as text.
const RESULT_TYPES: &str = "2026-07-28";
const INTERNAL_ERROR: i32 = -32603;

/// Servers refuse larger headers. Without the header they refuse the message with a clearer error.
const MAX_HEADER: usize = 4 << 10;

/// Actions that are not idempotent and take no idempotency key.
const NOT_IDEMPOTENT: [&str; 4] = ["define", "write", "delete", "snapshot"];

/// One message. An invalid message is forwarded unchanged, and the server reports the error.
#[derive(Debug, Clone)]
pub struct Message {
    value: Value,
    line: String,
    key: Option<String>,
}

/// How the bridge treats a message.
#[derive(Debug, PartialEq)]
pub enum Kind {
    /// It needs an answer.
    Request,
    /// It cancels the request with this id.
    Cancel(String),
    /// It is not forwarded: servers keep no state that it could change.
    Notification,
}

impl Message {
    pub fn parse(line: &str) -> Self {
        let value: Value = serde_json::from_str(line).unwrap_or_default();
        Self { key: new_key(&value), value, line: line.to_owned() }
    }

    pub fn line(&self) -> &str {
        &self.line
    }

    pub fn kind(&self) -> Kind {
        match (self.value.get("id"), self.method()) {
            (None, "notifications/cancelled") => {
                Kind::Cancel(self.value["params"]["requestId"].to_string())
            }
            (None, method) if !method.is_empty() => Kind::Notification,
            // An answer to a request that the server never makes.
            (Some(_), "")
                if self.value.get("result").is_some() || self.value.get("error").is_some() =>
            {
                Kind::Notification
            }
            (Some(_) | None, _) => Kind::Request,
        }
    }

    /// The id as JSON, as cancellations name it.
    pub fn id(&self) -> String {
        self.value["id"].to_string()
    }

    fn method(&self) -> &str {
        self.value["method"].as_str().unwrap_or_default()
    }

    pub fn is_initialize(&self) -> bool {
        self.method() == "initialize"
    }

    fn is_tool_call(&self) -> bool {
        self.method() == "tools/call"
    }

    /// The revision that the message names.
    pub fn version(&self) -> Option<&str> {
        self.value["params"]["_meta"][VERSION].as_str()
    }

    /// The headers that newer revisions require, and the idempotency key.
    pub fn headers(&self) -> Vec<(&'static str, HeaderValue)> {
        let params = &self.value["params"];
        let name = match self.method() {
            "tools/call" | "prompts/get" => &params["name"],
            "resources/read" => &params["uri"],
            "tasks/get" | "tasks/update" | "tasks/cancel" => &params["taskId"],
            _ => &Value::Null,
        };
        let headers = [
            ("mcp-method", Some(self.method())),
            ("mcp-name", name.as_str()),
            ("idempotency-key", self.key.as_deref()),
        ];
        headers
            .into_iter()
            .filter_map(|(header, value)| Some((header, header_value(value?)?)))
            .collect()
    }

    /// Whether the message may be sent again if its outcome is unknown.
    pub fn may_be_repeated(&self) -> bool {
        let action = self.value["params"]["arguments"]["action"].as_str().unwrap_or_default();
        !(self.is_tool_call() && NOT_IDEMPOTENT.contains(&action))
    }

    /// Whether this line is the answer to the message.
    pub fn is_answered_by(&self, line: &str) -> bool {
        let answer: Value = serde_json::from_str(line).unwrap_or_default();
        answer.get("method").is_none()
            && (answer["id"] == self.value["id"] || answer["id"].is_null())
    }

    /// The answer to a request of this revision that the server refused or did not receive. For a
    /// tool call it is a tool result.
    pub fn refused(&self, version: &str, refusal: &Refusal) -> String {
        let body = json!({"error": refusal.code, "message": refusal.message});
        let id = &self.value["id"];
        if self.is_tool_call() {
            let content = json!([{"type": "text", "text": body.to_string()}]);
            let mut result =
                json!({"content": content, "structuredContent": body, "isError": true});
            if version >= RESULT_TYPES {
                result["resultType"] = json!("complete");
            }
            return json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        }
        let message = format!("{}: {}", refusal.code, refusal.message);
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": INTERNAL_ERROR, "message": message}})
            .to_string()
    }
}

/// A key that makes a tool call idempotent, so that it can be repeated if its answer is lost.
fn new_key(message: &Value) -> Option<String> {
    let params = &message["params"];
    let has_key = !params["arguments"]["idempotency_key"].is_null()
        || !params["_meta"][IDEMPOTENCY_KEY].is_null();
    (message["method"] == "tools/call" && !has_key).then(|| Uuid::new_v4().to_string())
}

/// The text itself, or the encoding that the protocol defines for text that a header cannot
/// contain.
fn header_value(text: &str) -> Option<HeaderValue> {
    use base64::Engine;
    if text.len() > MAX_HEADER {
        return None;
    }
    let is_plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && text.trim() == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    if is_plain {
        return HeaderValue::from_str(text).ok();
    }
    let encoded = base64::prelude::BASE64_STANDARD.encode(text);
    HeaderValue::from_str(&format!("=?base64?{encoded}?=")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: Value) -> Message {
        let params = json!({"name": "subagent", "arguments": arguments});
        Message::parse(
            &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
                .to_string(),
        )
    }

    #[test]
    fn a_call_without_an_idempotency_key_gets_one() {
        let (one, other) = (call(json!({"action": "spawn"})), call(json!({"action": "spawn"})));
        assert!(one.key.is_some());
        assert_ne!(one.key, other.key);
        assert_eq!(call(json!({"action": "spawn", "idempotency_key": "k"})).key, None);
        assert_eq!(Message::parse(r#"{"id": 1, "method": "ping"}"#).key, None);
    }

    #[test]
    fn only_idempotent_calls_are_repeated() {
        for (action, repeated) in
            [("spawn", true), ("wait", true), ("define", false), ("write", false)]
        {
            assert_eq!(call(json!({"action": action})).may_be_repeated(), repeated, "{action}");
        }
    }

    #[test]
    fn only_requests_and_invalid_messages_are_answered() {
        for (line, kind) in [
            (r#"{"id": 1, "method": "ping"}"#, Kind::Request),
            (r#"{"method": "notifications/initialized"}"#, Kind::Notification),
            (
                r#"{"method": "notifications/cancelled", "params": {"requestId": "a"}}"#,
                Kind::Cancel("\"a\"".into()),
            ),
            (r#"{"id": 1, "result": {}}"#, Kind::Notification),
            ("not JSON", Kind::Request),
            (r#"{"id": 1}"#, Kind::Request),
            ("{}", Kind::Request),
        ] {
            assert_eq!(Message::parse(line).kind(), kind, "{line}");
        }
    }

    #[test]
    fn text_that_a_header_cannot_contain_is_encoded() {
        let message =
            Message::parse(r#"{"id": 1, "method": "tools/call", "params": {"name": "é"}}"#);
        let headers = message.headers();
        assert_eq!(headers[0], ("mcp-method", HeaderValue::from_static("tools/call")));
        assert_eq!(headers[1], ("mcp-name", HeaderValue::from_static("=?base64?w6k=?=")));
    }
}
