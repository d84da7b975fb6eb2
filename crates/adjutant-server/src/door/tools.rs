use std::sync::Arc;

use adjutant_agent::dialects::ecs::{Categories, orchestrator_prompt};
use adjutant_agent::{Refusal, ToolDefinition, prompts};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::Shared;
use super::request::{Arguments, Parameters, Place, idempotency_key};
use crate::{Caller, Dialect, Result, Scope, ToolCall};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/tools", get(definitions))
        .route("/v1/sessions/{session}/prompt", get(prompt))
        .route("/v1/sessions/{session}/tools/{tool}", post(call))
}

fn dialect(parameters: &mut Parameters) -> Result<Dialect, Refusal> {
    parameters.text("dialect")?.map_or(Ok(Dialect::default()), |word| word.parse())
}

/// Call a tool
///
/// The body is the tool's arguments, the answer is the tool's answer.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/tools/{tool}", tag = "tools",
    params(
        ("session" = String, Path, description = "Its `session_id`."),
        ("dialect" = Option<String>, Query, description = "Whose contract the tool is of."),
        ("Idempotency-Key" = Option<String>, Header, description = "For `spawn` and `collect`: the same key gets the same answer, and nothing happens twice. As the argument `idempotency_key`."),
    ),
    responses((status = 200, description = "The tool's answer.", body = Object))
)]
pub(super) async fn call(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    place: Place,
    mut parameters: Parameters,
    headers: HeaderMap,
    Arguments(arguments): Arguments,
) -> Result<Json<Value>> {
    caller.needs(&[Scope::Delegate])?;
    let dialect = dialect(&mut parameters)?;
    parameters.end()?;
    let session = place.get("session");
    let call = ToolCall {
        tool: place.get("tool").to_owned(),
        arguments,
        idempotency_key: idempotency_key(&headers)?.map(str::to_owned),
        traceparent: headers.get(TRACEPARENT).and_then(|value| value.to_str().ok()).map(str::to_owned),
    };
    // They are part of the buffer that the request was read into, which a call that waits would keep for as long.
    drop(headers);
    shared.allow_status(&caller, session, &call)?;
    shared.desk.call(&caller, session, call, dialect).await.map(|answer| Json(answer.value))
}

/// The tools' definitions, as a vendor's API takes them
#[utoipa::path(
    get, path = "/v1/tools", tag = "tools",
    params(
        ("dialect" = Option<String>, Query, description = "Whose contract the tools are of."),
        ("format" = Option<String>, Query, description = "Whose API takes them; `anthropic` if nothing is said."),
    ),
    responses((status = 200, description = "The array to be sent to the model.", body = Vec<Object>))
)]
pub(super) async fn definitions(caller: Caller, mut parameters: Parameters) -> Result<Json<Vec<Value>>> {
    caller.needs(&[Scope::Delegate, Scope::Read])?;
    let tools = dialect(&mut parameters)?.tools();
    let format = parameters.text("format")?;
    parameters.end()?;
    let render: fn(ToolDefinition) -> Value = match format.as_deref() {
        None | Some("anthropic") => {
            |tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.input_schema})
        }
        Some("openai") => |tool| {
            let function =
                json!({"name": tool.name, "description": tool.description, "parameters": tool.input_schema});
            json!({"type": "function", "function": function})
        },
        Some("mcp") => {
            |tool| json!({"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema})
        }
        Some(_) => return Err(Refusal::invalid("format", "must be anthropic, openai or mcp").into()),
    };
    Ok(Json(tools.into_iter().map(render).collect()))
}

/// What an orchestrator should know to delegate well, with the agents that the session has
#[utoipa::path(
    get, path = "/v1/sessions/{session}/prompt", tag = "tools",
    params(
        ("session" = String, Path, description = "Its `session_id`."),
        ("dialect" = Option<String>, Query, description = "`ecs`: the session's own system prompt, with the names of all that it has."),
    ),
    responses((status = 200, description = "A text for its system prompt.", body = String, content_type = "text/plain"))
)]
pub(super) async fn prompt(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    place: Place,
    mut parameters: Parameters,
) -> Result<([(HeaderName, &'static str); 1], String)> {
    caller.needs(&[Scope::Delegate, Scope::Read])?;
    let dialect = dialect(&mut parameters)?;
    parameters.end()?;
    let store = &shared.desk.store;
    let session = store.session(&caller.tenant, place.get("session")).await?;
    let agents = store.agents(session.id).await?;
    let agents = agents.iter().map(|agent| &agent.definition);
    let agents = agents.map(|agent| (agent.name.as_str(), agent.description.as_str()));
    let prompt = if dialect == Dialect::Ecs {
        let parent = store.session_details(&caller.tenant, &session.name).await?.parent;
        let any_name = shared.desk.policy.operator.free_form.is_some();
        let categories = if any_name { Categories::AnyName } else { Categories::Registered };
        orchestrator_prompt(&parent, agents, categories)
    } else {
        prompts::orchestrator_prompt(agents)
    };
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], prompt))
}
