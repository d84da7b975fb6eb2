//! `/mcp`: the same tools for MCP clients, over streamable HTTP.
//!
//! Nothing is kept between two requests, whatever revision of the protocol they are in: a client that loses this server goes on at
//! another. The id that older clients get at their `initialize` is the name of a session of ours, which is made at its first
//! use. What cannot be a message is refused before rmcp reads it; what is wrong with a tool call is the tool's answer.

mod calls;
mod envelope;
mod prompts;
mod resources;
mod revoked;
mod sessions;
mod tasks;
mod tools;

use std::borrow::Cow;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::HeaderName;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig, Tool, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};

use self::revoked::Revoked;
use self::sessions::SessionHeaders;
use super::Shared;
use super::request::idempotency_key;
use crate::auth::refuse_cross_origin;
use crate::error::internal;
use crate::{Caller, Dialect, Error, Result, Scope};

/// Names the session that calls without the argument `session_id` are in. It is made if it is not there.
pub(crate) const SESSION: HeaderName = HeaderName::from_static("adjutant-session");

/// What MCP calls a session, in revisions that have them.
const MCP_SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

const VERSIONS: &[ProtocolVersion] =
    &[ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

/// The route, for those who have been let in.
pub(super) fn routes(shared: Arc<Shared>) -> Router {
    let revoked = Arc::<Revoked>::default();
    let services = Dialect::ALL.map(|dialect| {
        (dialect, service(Mcp { shared: shared.clone(), revoked: revoked.clone(), dialect }))
    });
    Router::new().route("/mcp", post(answer)).with_state(Arc::new(McpState {
        shared,
        revoked,
        services,
    }))
}

type Service = StreamableHttpService<Mcp, NeverSessionManager>;

fn service(mcp: Mcp) -> Service {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        // Both are checked for all routes alike, before this.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(usize::MAX);
    StreamableHttpService::new(
        move || Ok(mcp.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    )
}

/// What the route needs.
struct McpState {
    shared: Arc<Shared>,
    revoked: Arc<Revoked>,
    /// What a client sees of a server differs from dialect to dialect.
    services: [(Dialect, Service); Dialect::ALL.len()],
}

impl McpState {
    fn service(&self, dialect: Dialect) -> Result<&Service> {
        let found = self.services.iter().find(|(known, _)| *known == dialect);
        found.map(|(_, service)| service).ok_or_else(|| Error::bug(&"a dialect without a service"))
    }
}

/// Answers one message of a client.
async fn answer(State(at): State<Arc<McpState>>, request: Request) -> Response {
    match take_in(&at, request).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

async fn take_in(at: &McpState, request: Request) -> Result<Response> {
    refuse_cross_origin(request.uri(), request.headers())?;
    let dialect = envelope::dialect(request.uri())?;
    let whereabouts = SessionHeaders::of(request.headers())?;
    idempotency_key(request.headers())?;
    let (mut parts, message) = envelope::open(request, &at.shared).await?;
    let message = match message {
        Ok(message) => message,
        Err(answer) => return Ok(answer),
    };
    if let (Some(id), Some(caller)) = (message.cancels(), parts.extensions.get::<Caller>()) {
        at.revoked.revoke(&caller.tenant, &whereabouts, id);
    }
    message.name_task(&mut parts.headers);
    let (begins, id) = (message.begins(), message.id().clone());
    parts.extensions.insert(whereabouts);
    let answer =
        at.service(dialect)?.handle(Request::from_parts(parts, Body::from(message.bytes))).await;
    let mut answer = answer.map(Body::new);
    // The media type was checked above.
    if answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return Ok(envelope::invalid_request(&id));
    }
    if begins && answer.status().is_success() {
        answer.headers_mut().insert(MCP_SESSION, sessions::new_id()?);
    }
    Ok(answer)
}

/// Answers messages that are well formed.
#[derive(Debug, Clone)]
struct Mcp {
    shared: Arc<Shared>,
    revoked: Arc<Revoked>,
    /// Of the connection, or of the call.
    dialect: Dialect,
}

/// Who sent a message, and what it says of its session.
struct McpRequest<'a> {
    caller: &'a Caller,
    whereabouts: &'a SessionHeaders,
    idempotency_key: Option<String>,
}

impl<'a> McpRequest<'a> {
    fn of(context: &'a RequestContext<RoleServer>) -> Result<Self, ErrorData> {
        let known = context.extensions.get::<Parts>().and_then(|parts| {
            let (caller, whereabouts) = (parts.extensions.get()?, parts.extensions.get()?);
            // One that is not a key was refused at the door.
            Some(Self {
                caller,
                whereabouts,
                idempotency_key: idempotency_key(&parts.headers).ok()?.map(str::to_owned),
            })
        });
        known
            .ok_or_else(|| ErrorData::internal_error(internal(&"a message without a caller"), None))
    }

    /// For what shows things and changes nothing.
    fn may_look(&self) -> Result<(), ErrorData> {
        self.caller.needs(&[Scope::Delegate, Scope::Read]).map_err(fault)
    }
}

/// An error of what is not a tool.
fn fault(error: Error) -> ErrorData {
    let code = error.code();
    let is_ours = matches!(error, Error::Unavailable(_) | Error::Internal(_));
    let message = format!("{code}: {}", error.into_message());
    if is_ours {
        ErrorData::internal_error(message, None)
    } else {
        ErrorData::invalid_params(message, None)
    }
}

impl ServerHandler for Mcp {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_tasks()
            .build();
        let mut info =
            ServerConfig::new(capabilities).with_instructions(self.dialect.instructions());
        info.server_info =
            Implementation::new("adjutant", env!("CARGO_PKG_VERSION")).with_title("Adjutant");
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(VERSIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all(self.dialect)))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::all(self.dialect).into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.answer_call(request, context).await
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::all(self.dialect)))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.prompt(request, &McpRequest::of(&context)?).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.resources(&McpRequest::of(&context)?).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.resource(&request.uri, &McpRequest::of(&context)?).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.task(&request.task_id, &McpRequest::of(&context)?).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.answer_task(&request.task_id, &McpRequest::of(&context)?).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.stop_task(&request.task_id, &McpRequest::of(&context)?).await
    }
}
