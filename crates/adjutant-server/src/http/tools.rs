//! Tool calls, tool definitions and the prompt of an orchestrator.

use std::sync::Arc;

use adjutant_agent::{Refusal, SHARED_CONTEXT, ToolDefinition};
use adjutant_dialects::SessionRef;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::Shared;
use super::request::{JsonBody, PathParams, QueryParams, idempotency_key};
use crate::{Caller, Dialect, Result, Scope, ToolCall};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/tools", get(definitions))
        .route("/v1/sessions/{session}/prompt", get(prompt))
        .route("/v1/sessions/{session}/tools/{tool}", post(call))
}

fn dialect(parameters: &mut QueryParams) -> Result<Dialect, Refusal> {
    parameters.text("dialect")?.map_or(Ok(Dialect::default()), |word| word.parse())
}

/// Whether an orchestrator's tool is shown to a caller. Only the shared context is granted; the
/// other tools delegate, which the scope of a key allows.
pub(super) fn is_shown(caller: &Caller, tool: &str) -> bool {
    tool != SHARED_CONTEXT || caller.grants.check_shared_context().is_ok()
}

/// Call a tool
///
/// The body is the tool's arguments, the answer is the tool's answer.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/tools/{tool}", tag = "tools",
    params(
        ("session" = String, Path, description = "Its `session_id`."),
        ("dialect" = Option<String>, Query, description = "The dialect of the tool."),
        ("Idempotency-Key" = Option<String>, Header, description = "For `spawn` and `collect`: requests with the same key take effect once and get the same answer. The same as the argument `idempotency_key`."),
    ),
    responses((status = 200, description = "The tool's answer.", body = Object))
)]
pub(super) async fn call(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    mut parameters: QueryParams,
    headers: HeaderMap,
    JsonBody(arguments): JsonBody,
) -> Result<Json<Value>> {
    caller.require(&[Scope::Delegate])?;
    let dialect = dialect(&mut parameters)?;
    parameters.end()?;
    let session = path.get("session");
    let call = ToolCall {
        tool: path.get("tool").to_owned(),
        arguments,
        idempotency_key: idempotency_key(&headers)?.map(str::to_owned),
        traceparent: headers
            .get(TRACEPARENT)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned),
    };
    // The headers are slices of the read buffer, which a call that waits would keep in memory.
    drop(headers);
    shared.call(&caller, session, call, dialect).await.map(|answer| Json(answer.value))
}

/// The tool definitions in the format of a vendor's API
#[utoipa::path(
    get, path = "/v1/tools", tag = "tools",
    params(
        ("dialect" = Option<String>, Query, description = "The dialect of the tools."),
        ("format" = Option<String>, Query, description = "The vendor's format; `anthropic` by default."),
    ),
    responses((status = 200, description = "The array for the request to the model.", body = Vec<Object>))
)]
pub(super) async fn definitions(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    mut parameters: QueryParams,
) -> Result<Json<Vec<Value>>> {
    caller.require(&[Scope::Delegate, Scope::Read])?;
    let mut tools = dialect(&mut parameters)?.tools(shared.service.texts());
    tools.retain(|tool| is_shown(&caller, &tool.name));
    let format = parameters.text("format")?;
    parameters.end()?;
    let render: fn(ToolDefinition) -> Value = match format.as_deref() {
        None | Some("anthropic") => {
            |tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.input_schema})
        }
        Some("openai") => |tool| {
            let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.input_schema});
            json!({"type": "function", "function": function})
        },
        Some("mcp") => {
            |tool| json!({"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema})
        }
        Some(_) => {
            return Err(Refusal::invalid("format", "must be anthropic, openai or mcp").into());
        }
    };
    Ok(Json(tools.into_iter().map(render).collect()))
}

/// What an orchestrator should know to delegate well, with the agents that the session has
#[utoipa::path(
    get, path = "/v1/sessions/{session}/prompt", tag = "tools",
    params(
        ("session" = String, Path, description = "Its `session_id`."),
        ("dialect" = Option<String>, Query, description = "The dialect whose tools the prompt describes."),
    ),
    responses((status = 200, description = "A text for its system prompt.", body = String, content_type = "text/plain"))
)]
pub(super) async fn prompt(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    mut parameters: QueryParams,
) -> Result<([(HeaderName, &'static str); 1], String)> {
    caller.require(&[Scope::Delegate, Scope::Read])?;
    let dialect = dialect(&mut parameters)?;
    parameters.end()?;
    let store = &shared.service.store_of(&caller);
    let session = store.session(&caller.tenant, path.get("session")).await?;
    let session_ref = SessionRef { tenant: &caller.tenant, name: &session.name, id: session.id };
    let prompt = dialect.prompt(&shared.service.context(store), &session_ref).await?;
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], prompt))
}
