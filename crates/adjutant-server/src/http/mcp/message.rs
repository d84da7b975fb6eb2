//! An MCP message, parsed as strictly as every other body before rmcp gets it. A tool call that is
//! refused here is answered with a tool result, because the model behind the client reads tool
//! results and never sees a protocol error.

use adjutant_agent::{ErrorCode, Refusal};
use axum::Json;
use axum::extract::Request;
use axum::http::header::HeaderName;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use rmcp::model::ProtocolVersion;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::Shared;
use super::super::request::{QueryParams, check_content_type, read_body};
use crate::{Dialect, Result, strict_json};

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;

/// The revision of a request, in its HTTP header and in its `_meta`.
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// Repeats the name in the params of a request for proxies that do not read bodies, in the newest
/// revision.
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// A message that passed the strict parser.
pub(super) struct Message {
    /// The body. rmcp accepts only an HTTP request, so it parses the body again.
    pub(super) bytes: Vec<u8>,
    value: Value,
}

impl Message {
    /// The request id; null if there is none.
    pub(super) fn id(&self) -> &Value {
        &self.value["id"]
    }

    fn method(&self) -> &str {
        self.value["method"].as_str().unwrap_or_default()
    }

    /// Whether it is the first request of a client, in revisions that have `initialize`.
    pub(super) fn is_initialize(&self) -> bool {
        self.method() == "initialize"
    }

    /// Adds the header `Mcp-Name` to a request of the tasks extension, which requires it: client
    /// libraries leave it out. A header that contradicts the message stays, and rmcp refuses it.
    pub(super) fn add_name_header(&self, headers: &mut HeaderMap) {
        if !self.method().starts_with("tasks/") || headers.contains_key(NAME) {
            return;
        }
        let id = self.value["params"]["taskId"].as_str();
        if let Some(id) = id.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert(NAME, id);
        }
    }

    /// The id of the request that this message cancels.
    pub(super) fn cancelled_request(&self) -> Option<&Value> {
        if self.method() == "notifications/cancelled" {
            self.value["params"].get("requestId")
        } else {
            None
        }
    }
}

/// The dialect in the query of the URL.
pub(super) fn dialect(uri: &Uri) -> Result<Dialect, Refusal> {
    let mut parameters = QueryParams::parse(uri)?;
    let dialect = parameters.text("dialect")?.map_or(Ok(Dialect::default()), |word| word.parse());
    parameters.end()?;
    dialect
}

/// Reads the message of a request, or returns the response to a message that is refused.
pub(super) async fn read_message(
    request: Request,
    shared: &Shared,
) -> Result<(Parts, std::result::Result<Message, Response>)> {
    let (parts, body) = request.into_parts();
    check_content_type(&parts.headers)?;
    let mut body_request = Request::new(body);
    *body_request.headers_mut() = parts.headers.clone();
    *body_request.extensions_mut() = parts.extensions.clone();
    let (_, bytes) = read_body(body_request, shared).await?;
    let message = match strict_json::parse(&bytes) {
        Ok(value) => match refuse_arguments(&parts.headers, &value) {
            None => Ok(Message { bytes, value }),
            Some(response) => Err(response),
        },
        Err(refusal) => Err(refuse_body(&parts.headers, &bytes, &refusal)),
    };
    Ok((parts, message))
}

/// Refuses a tool call that names no tool, or whose arguments are not an object. rmcp would answer
/// with a protocol error, which the model behind the client never sees.
fn refuse_arguments(headers: &HeaderMap, message: &Value) -> Option<Response> {
    if message["method"] != "tools/call" || message.get("id").is_none() {
        return None;
    }
    let arguments = &message["params"]["arguments"];
    let refusal = if !message["params"]["name"].is_string() {
        Refusal::invalid("name", "is required: the name of a tool; tools/list has them")
    } else if arguments.is_object() || arguments.is_null() {
        return None;
    } else {
        Refusal::invalid("arguments", "must be an object")
    };
    Some(tool_refusal(headers, message, &refusal))
}

/// The response to a body that the strict parser refuses.
fn refuse_body(headers: &HeaderMap, bytes: &[u8], refusal: &Refusal) -> Response {
    let message = parse_leniently(bytes);
    if message["method"] == "tools/call" && message.get("id").is_some() {
        let text = refusal.message.replacen("params.arguments.", "", 1);
        return tool_refusal(headers, &message, &Refusal::new(refusal.code, text));
    }
    protocol_error(&message["id"], PARSE_ERROR, &refusal.message)
}

/// Parses a message that may have duplicate keys and NUL characters; a message that is nested too
/// deeply for serde_json is returned without its arguments.
fn parse_leniently(bytes: &[u8]) -> Value {
    #[derive(Deserialize)]
    struct Envelope {
        id: Option<Value>,
        method: Option<String>,
        #[serde(default)]
        params: Params,
    }
    #[derive(Default, Deserialize)]
    struct Params {
        #[serde(default)]
        _meta: Value,
    }
    serde_json::from_slice(bytes).unwrap_or_else(|_| {
        let envelope: Option<Envelope> = serde_json::from_slice(bytes).ok();
        envelope.map_or(Value::Null, |Envelope { id, method, params: Params { _meta } }| {
            let mut message = json!({"method": method, "params": {"_meta": _meta}});
            if let Some(id) = id {
                message["id"] = id;
            }
            message
        })
    })
}

/// A refusal as a tool result, in the revision of the request.
fn tool_refusal(headers: &HeaderMap, message: &Value, refusal: &Refusal) -> Response {
    let body = error_body(refusal.code, &refusal.message);
    let mut result = json!({
        "content": [{"type": "text", "text": body.to_string()}], "structuredContent": body, "isError": true,
    });
    if has_result_types(headers, message) {
        result["resultType"] = json!("complete");
    }
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

/// Whether results have a `resultType` in the revision of this message. Older clients may refuse
/// the field.
fn has_result_types(headers: &HeaderMap, message: &Value) -> bool {
    let header = headers.get(VERSION).and_then(|version| version.to_str().ok());
    let version = message["params"]["_meta"][META_VERSION].as_str().or(header);
    // Revisions are ISO dates, so they compare as strings.
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str())
}

/// The response to JSON that is not a JSON-RPC message. rmcp would answer it with 415 in plain
/// text, although its media type is right.
pub(super) fn invalid_request(id: &Value) -> Response {
    let id = if id.is_string() || id.is_number() { id } else { &Value::Null };
    protocol_error(id, INVALID_REQUEST, "The body is not a JSON-RPC 2.0 request or notification")
}

fn protocol_error(id: &Value, code: i32, message: &str) -> Response {
    let error = json!({"code": code, "message": message});
    let body = json!({"jsonrpc": "2.0", "id": id, "error": error});
    (StatusCode::BAD_REQUEST, Json(body)).into_response()
}

/// The JSON of every error.
pub(super) fn error_body(code: ErrorCode, message: &str) -> Value {
    json!({"error": code, "message": message})
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    async fn refusal_of(body: &str) -> (u16, Value) {
        let refusal = strict_json::parse(body.as_bytes()).unwrap_err();
        let response = refuse_body(&HeaderMap::new(), body.as_bytes(), &refusal);
        let status = response.status().as_u16();
        (
            status,
            serde_json::from_slice(&to_bytes(response.into_body(), 10_000).await.unwrap()).unwrap(),
        )
    }

    #[tokio::test]
    async fn a_tool_call_that_cannot_be_parsed_gets_a_tool_result() {
        let call = r#"{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "subagent", "arguments": {"action": "spawn", "task": "x", "task": "y"}}}"#;
        let (status, answer) = refusal_of(call).await;
        assert_eq!(
            (status, &answer["id"], &answer["result"]["isError"]),
            (200, &json!(7), &json!(true))
        );
        assert_eq!(answer["result"]["structuredContent"]["error"], "INVALID_ARGUMENT");
        assert_eq!(answer["result"]["structuredContent"]["message"], "task: appears twice");
    }

    #[tokio::test]
    async fn any_other_message_that_cannot_be_parsed_gets_a_protocol_error() {
        for (body, id) in [
            ("not JSON", Value::Null),
            ("{", Value::Null),
            (r#"{"jsonrpc": "2.0", "id": 7, "method": "ping", "method": "ping"}"#, json!(7)),
        ] {
            let (status, answer) = refusal_of(body).await;
            assert_eq!(
                (status, &answer["id"], &answer["error"]["code"]),
                (400, &id, &json!(-32700)),
                "{body}"
            );
        }
    }

    #[test]
    fn a_call_without_a_name_or_with_arguments_that_are_not_an_object_is_refused() {
        let call = |arguments: Value| json!({"id": 1, "method": "tools/call", "params": {"name": "subagent", "arguments": arguments}});
        for wrong in [json!([]), json!("x"), json!(1), json!(true)] {
            assert!(refuse_arguments(&HeaderMap::new(), &call(wrong)).is_some());
        }
        for valid in [json!({}), Value::Null] {
            assert!(refuse_arguments(&HeaderMap::new(), &call(valid)).is_none());
        }
        for params in [Value::Null, json!({}), json!({"name": 7}), json!({"arguments": {}})] {
            let call = json!({"id": 1, "method": "tools/call", "params": params});
            assert!(refuse_arguments(&HeaderMap::new(), &call).is_some(), "{call}");
        }
        let other = json!({"id": 1, "method": "tools/list", "params": {}});
        assert!(refuse_arguments(&HeaderMap::new(), &other).is_none());
        assert!(refuse_arguments(&HeaderMap::new(), &json!([1, 2])).is_none());
    }
}
