//! `/mcp`: the same tools for MCP clients, over streamable HTTP.
//!
//! A server keeps nothing between two requests, in any revision of the protocol, so a client that
//! loses its server continues at another. The `Mcp-Session-Id` that a client of an older revision
//! gets at `initialize` is the name of a session, which is created when a call first needs it. A
//! body that is not a message is refused before rmcp parses it; an error of a tool call is a tool
//! result.

mod message;
mod prompts;
mod resources;
mod running_requests;
mod sessions;
mod tasks;
mod tool_calls;
mod tools;
mod wait_id;

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
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CustomRequest, CustomResult,
    GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, Tool, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};

use self::message::{invalid_request, read_message};
use self::running_requests::RunningRequests;
use self::sessions::SessionHeaders;
use super::Shared;
use super::request::idempotency_key;
use super::tools::is_shown;
use crate::auth::refuse_cross_origin;
use crate::error::internal;
use crate::{Caller, Dialect, Error, Result, Scope};

/// Names the session of calls without the argument `session_id`. It is created if it does not
/// exist.
const ADJUTANT_SESSION: HeaderName = HeaderName::from_static("adjutant-session");

/// The id that a client got at `initialize`, in revisions that have it.
const MCP_SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

const VERSIONS: &[ProtocolVersion] =
    &[ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

/// The route. A middleware must add the [`Caller`] to each request.
pub(super) fn routes(shared: Arc<Shared>) -> Router {
    let running = Arc::<RunningRequests>::default();
    let services = Dialect::ALL.map(|dialect| {
        (dialect, service(McpServer { shared: shared.clone(), running: running.clone(), dialect }))
    });
    Router::new().route("/mcp", post(respond)).with_state(Arc::new(McpState {
        shared,
        running,
        services,
    }))
}

type Service = StreamableHttpService<McpServer, NeverSessionManager>;

fn service(server: McpServer) -> Service {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        // Host, origin and body size are checked before rmcp, as for all routes.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(usize::MAX);
    StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    )
}

/// The state of the route.
struct McpState {
    shared: Arc<Shared>,
    running: Arc<RunningRequests>,
    /// One for each dialect, because tools and instructions differ.
    services: [(Dialect, Service); Dialect::ALL.len()],
}

impl McpState {
    fn service(&self, dialect: Dialect) -> Result<&Service> {
        let found = self.services.iter().find(|(known, _)| *known == dialect);
        found.map(|(_, service)| service).ok_or_else(|| Error::bug(&"a dialect without a service"))
    }
}

async fn respond(State(state): State<Arc<McpState>>, request: Request) -> Response {
    match handle(&state, request).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

/// Handles one message of a client.
async fn handle(state: &McpState, request: Request) -> Result<Response> {
    refuse_cross_origin(request.uri(), request.headers())?;
    let dialect = message::dialect(request.uri())?;
    let mcp_request = McpRequest::parse(&request)?;
    let (mut parts, message) = read_message(request, &state.shared).await?;
    let message = match message {
        Ok(message) => message,
        Err(response) => return Ok(response),
    };
    if let Some(id) = message.cancelled_request() {
        state.running.cancel(&mcp_request.caller.tenant, &mcp_request.session_headers, id);
    }
    message.add_name_header(&mut parts.headers);
    let (is_initialize, id) = (message.is_initialize(), message.id().clone());
    let key = state.shared.service.hub.hold_key(mcp_request.caller.key_id());
    parts.extensions.insert(mcp_request);
    let request = Request::from_parts(parts, Body::from(message.bytes));
    // A response that has begun as a stream ends with the answer of its call instead.
    let mut response = tokio::select! {
        biased;
        error = key.ended() => return Err(error),
        response = state.service(dialect)?.handle(request) => response.map(Body::new),
    };
    // The media type was checked above.
    if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return Ok(invalid_request(&id));
    }
    if is_initialize && response.status().is_success() {
        response.headers_mut().insert(MCP_SESSION, sessions::new_session_id()?);
    }
    Ok(response)
}

/// Answers the messages of one dialect.
#[derive(Debug, Clone)]
struct McpServer {
    shared: Arc<Shared>,
    running: Arc<RunningRequests>,
    dialect: Dialect,
}

/// The caller and the headers of a request.
#[derive(Debug, Clone)]
struct McpRequest {
    caller: Caller,
    session_headers: SessionHeaders,
    idempotency_key: Option<String>,
}

impl McpRequest {
    fn parse(request: &Request) -> Result<Self> {
        let caller = request.extensions().get::<Caller>().cloned();
        Ok(Self {
            session_headers: SessionHeaders::parse(request.headers())?,
            idempotency_key: idempotency_key(request.headers())?.map(str::to_owned),
            caller: caller.ok_or_else(|| Error::bug(&"an MCP request without a caller"))?,
        })
    }

    /// The request that a message of rmcp came with.
    fn of(context: &RequestContext<RoleServer>) -> Result<&Self, ErrorData> {
        let parts = context.extensions.get::<Parts>();
        parts.and_then(|parts| parts.extensions.get()).ok_or_else(|| {
            ErrorData::internal_error(internal(&"an MCP message without its request"), None)
        })
    }

    fn require_read(&self) -> Result<(), ErrorData> {
        self.caller.require(&[Scope::Delegate, Scope::Read]).map_err(error_data)
    }
}

/// An error as a protocol error, for methods other than tool calls.
fn error_data(error: Error) -> ErrorData {
    let code = error.code();
    let is_internal = matches!(error, Error::Unavailable(_) | Error::Internal(_));
    let message = format!("{code}: {}", error.into_message());
    if is_internal {
        ErrorData::internal_error(message, None)
    } else {
        ErrorData::invalid_params(message, None)
    }
}

impl ServerHandler for McpServer {
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
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let caller = &McpRequest::of(&context)?.caller;
        let mut tools = tools::all(self.dialect, &self.shared);
        tools.retain(|tool| is_shown(caller, &tool.name));
        Ok(ListToolsResult::with_all_items(tools))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::all(self.dialect, &self.shared).into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.tool_call(request, context).await
    }

    /// Answers a method that there is not, or whose params are not those of the method.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let start: String = request.method.chars().take(64).collect();
        let message = format!("There is no method {start:?}, or its params are not valid");
        Err(ErrorData::new(rmcp::model::ErrorCode::METHOD_NOT_FOUND, message, None))
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
        self.prompt(request, McpRequest::of(&context)?).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.session_resources(McpRequest::of(&context)?).await
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
        self.resource(&request.uri, McpRequest::of(&context)?).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.mcp_task(&request.task_id, McpRequest::of(&context)?).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.update_mcp_task(&request.task_id, McpRequest::of(&context)?).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.cancel_mcp_task(&request.task_id, McpRequest::of(&context)?).await
    }
}
