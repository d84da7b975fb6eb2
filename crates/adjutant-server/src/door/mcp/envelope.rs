//! What a message is, before rmcp reads it: as strictly as every other body here. A tool call that is refused is still answered by
//! the tool, since its caller is a model that reads tool results and never sees a fault of the protocol.

use adjutant_agent::{ErrorCode, Refusal};
use axum::Json;
use axum::extract::Request;
use axum::http::header::HeaderName;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::super::Shared;
use super::super::request::{Parameters, check_type, read_away};
use crate::{Dialect, Result, body};

const PARSE_ERROR: i32 = -32700;

/// Where the newest revision repeats what a message names, for those between who read no bodies.
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// A message that can be read.
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    value: Value,
}

impl Message {
    fn method(&self) -> &str {
        self.value["method"].as_str().unwrap_or_default()
    }

    /// Whether it is the first of a client that speaks a revision with sessions.
    pub(super) fn begins(&self) -> bool {
        self.method() == "initialize"
    }

    /// Says the name of a task in the header too if its client did not: libraries that speak the extension leave it out. One that says
    /// another name is refused.
    pub(super) fn name_task(&self, headers: &mut HeaderMap) {
        if !self.method().starts_with("tasks/") || headers.contains_key(NAME) {
            return;
        }
        let id = self.value["params"]["taskId"].as_str();
        if let Some(id) = id.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert(NAME, id);
        }
    }

    /// The request that its sender no longer wants to be answered.
    pub(super) fn cancels(&self) -> Option<&Value> {
        if self.method() == "notifications/cancelled" { self.value["params"].get("requestId") } else { None }
    }
}

/// The dialect that the address names.
pub(super) fn dialect(uri: &Uri) -> Result<Dialect, Refusal> {
    let mut parameters = Parameters::of(uri)?;
    let dialect = parameters.text("dialect")?.map_or(Ok(Dialect::default()), |word| word.parse());
    parameters.end()?;
    dialect
}

/// The message in a request, or the answer to what is none.
pub(super) async fn open(
    request: Request,
    shared: &Shared,
) -> Result<(Parts, std::result::Result<Message, Response>)> {
    let (parts, body) = request.into_parts();
    check_type(&parts.headers)?;
    let mut reading = Request::new(body);
    *reading.headers_mut() = parts.headers.clone();
    let (_, bytes) = read_away(reading, shared.settings.max_body_bytes).await?;
    let message = match body::read(&bytes) {
        Ok(value) => match refuse_arguments(&value) {
            None => Ok(Message { bytes, value }),
            Some(answer) => Err(answer),
        },
        Err(refusal) => Err(refuse(&bytes, &refusal)),
    };
    Ok((parts, message))
}

/// Arguments that are no object are the tool's to refuse, and rmcp would not let it.
fn refuse_arguments(message: &Value) -> Option<Response> {
    let arguments = message["params"].get("arguments")?;
    let is_fine = arguments.is_object() || arguments.is_null();
    if is_fine || message["method"] != "tools/call" {
        return None;
    }
    Some(tool_refused(message.get("id")?, &Refusal::invalid("arguments", "must be an object")))
}

/// The answer to what the strict reading refuses.
fn refuse(bytes: &[u8], refusal: &Refusal) -> Response {
    // What others would read: a key that is there twice, a NUL.
    let lenient: Value = serde_json::from_slice(bytes).unwrap_or_default();
    match (lenient["method"].as_str(), lenient.get("id")) {
        (Some("tools/call"), Some(id)) => {
            let message = refusal.message.replacen("params.arguments.", "", 1);
            tool_refused(id, &Refusal::new(refusal.code, message))
        }
        (_, id) => {
            let error = json!({"code": PARSE_ERROR, "message": refusal.message});
            let body = json!({"jsonrpc": "2.0", "id": id, "error": error});
            (StatusCode::BAD_REQUEST, Json(body)).into_response()
        }
    }
}

fn tool_refused(id: &Value, refusal: &Refusal) -> Response {
    let body = refused(refusal.code, &refusal.message);
    let result = json!({
        "content": [{"type": "text", "text": body.to_string()}], "structuredContent": body, "isError": true,
    });
    Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
}

/// The one form that every error has.
pub(super) fn refused(code: ErrorCode, message: &str) -> Value {
    json!({"error": code, "message": message})
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    async fn refused_as(body: &str) -> (u16, Value) {
        let refusal = body::read(body.as_bytes()).unwrap_err();
        let response = refuse(body.as_bytes(), &refusal);
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&to_bytes(response.into_body(), 10_000).await.unwrap()).unwrap())
    }

    #[tokio::test]
    async fn a_tool_call_that_cannot_be_read_is_the_tools_to_refuse() {
        let call = r#"{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "subagent", "arguments": {"action": "spawn", "task": "x", "task": "y"}}}"#;
        let (status, answer) = refused_as(call).await;
        assert_eq!((status, &answer["id"], &answer["result"]["isError"]), (200, &json!(7), &json!(true)));
        assert_eq!(answer["result"]["structuredContent"]["error"], "INVALID_ARGUMENT");
        assert_eq!(answer["result"]["structuredContent"]["message"], "task: is there twice");
    }

    #[tokio::test]
    async fn whatever_else_cannot_be_read_is_no_message() {
        for (body, id) in [
            ("not JSON", Value::Null),
            ("{", Value::Null),
            (r#"{"jsonrpc": "2.0", "id": 7, "method": "ping", "method": "ping"}"#, json!(7)),
        ] {
            let (status, answer) = refused_as(body).await;
            assert_eq!(
                (status, &answer["id"], &answer["error"]["code"]),
                (400, &id, &json!(-32700)),
                "{body}"
            );
        }
    }

    #[test]
    fn only_arguments_that_are_no_object_are_refused_here() {
        let call = |arguments: Value| json!({"id": 1, "method": "tools/call", "params": {"name": "subagent", "arguments": arguments}});
        for wrong in [json!([]), json!("x"), json!(1), json!(true)] {
            assert!(refuse_arguments(&call(wrong)).is_some());
        }
        for fine in [json!({}), Value::Null] {
            assert!(refuse_arguments(&call(fine)).is_none());
        }
        assert!(refuse_arguments(&json!({"id": 1, "method": "tools/call", "params": {}})).is_none());
        assert!(refuse_arguments(&json!([1, 2])).is_none());
    }
}
