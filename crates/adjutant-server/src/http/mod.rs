//! The HTTP routes, and the middleware and state that they share.

mod audit;
mod bulk_body;
mod client_connection;
mod client_stream;
mod connections;
mod dashboard;
mod events;
mod health;
mod mcp;
mod metrics;
mod openapi;
mod page;
mod reads;
mod request;
mod session_body;
mod sessions;
mod stats;
mod stream;
mod tasks;
mod tools;
mod webhooks;

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use adjutant_agent::ErrorCode;
use adjutant_dialects::{Answer, Dialect, ParsedCall, ToolCall};
use adjutant_store::EventTexts;
use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::Method;
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use events::{EventStreams, StreamLimits, routes as event_routes};

use self::client_connection::{Addresses, ClientConnection};
use self::reads::Reads;
use crate::auth::{Authenticator, check_address};
use crate::error::{immediate_error, internal};
use crate::rate_limit::RateLimiter;
use crate::service::MAX_WAITS;
use crate::tenant_counter::TenantCounter;
use crate::{Caller, Error, Network, Result, ToolService, fold};

/// The operator's limits of requests.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpSettings {
    pub max_body_bytes: usize,
    /// For each tenant, at each server; `None` is no limit.
    pub tenant_requests_per_s: Option<f64>,
    /// How often each session may poll the status of tasks.
    pub session_status_per_s: Option<f64>,
    /// Reads of history and sums that a tenant may make at a time, at each server.
    pub tenant_max_reads: usize,
    /// A search of the history that takes longer answers a short page.
    pub search_time: Duration,
    /// Calls of a tenant that may wait at a time, at each server.
    pub tenant_max_waits: usize,
    /// Connections of a tenant, and of a client's address, at each server.
    pub tenant_max_connections: usize,
    pub address_max_connections: usize,
    /// Bytes of request bodies that are in memory at a time, at each server.
    pub bodies_max_bytes: usize,
    pub tenant_bodies_max_bytes: usize,
    /// Whether event streams contain the texts of tasks.
    pub event_texts: EventTexts,
    /// Proxies whose headers tell the addresses of clients.
    pub trusted_proxies: Vec<Network>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            max_body_bytes: 1 << 20,
            tenant_requests_per_s: None,
            session_status_per_s: None,
            tenant_max_reads: 8,
            search_time: Duration::from_millis(500),
            tenant_max_waits: MAX_WAITS,
            tenant_max_connections: 4096,
            address_max_connections: 4096,
            bodies_max_bytes: 256 << 20,
            tenant_bodies_max_bytes: 64 << 20,
            event_texts: EventTexts::Omitted,
            trusted_proxies: Vec::new(),
        }
    }
}

/// The HTTP server of a tool service.
#[derive(Debug)]
pub struct HttpServer {
    service: ToolService,
    settings: HttpSettings,
}

impl HttpServer {
    pub fn new(service: ToolService, settings: HttpSettings) -> Self {
        let service = service
            .with_max_waits(settings.tenant_max_waits)
            .with_search_time(settings.search_time);
        Self { service, settings }
    }

    /// Refuses an address that is not loopback as long as there is no API key.
    pub async fn check_address(&self, address: SocketAddr) -> Result<()> {
        check_address(&self.service.store, address).await
    }

    /// Serves until `stop`. Then it accepts no more connections, lets waiting requests answer
    /// early, and returns when all requests are answered.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: CancellationToken,
    ) -> std::io::Result<()> {
        let stopping = self.service.stopping.clone();
        let HttpSettings { address_max_connections, trusted_proxies, .. } = self.settings.clone();
        let addresses = Addresses::new(address_max_connections, trusted_proxies);
        let service = self.service.clone();
        let shared = Shared::new(self.service, self.settings, listener.local_addr()?);
        let router = router(Arc::new(shared));
        tokio::select! {
            () = connections::serve(listener, router, addresses, stop, stopping) => {}
            () = fold::run(&service) => {}
        }
        Ok(())
    }
}

/// The state of all routes.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: ToolService,
    reads: Reads,
    connections: TenantCounter,
    /// Bytes of request bodies.
    bodies: TenantCounter,
    settings: HttpSettings,
    authenticator: Authenticator,
    request_limiter: Option<RateLimiter<String>>,
    status_limiter: Option<RateLimiter<(String, String)>>,
    /// The body of `/openapi.json`. It is built at the first request: building it takes memory
    /// that the process would keep.
    openapi: OnceLock<String>,
    /// The tools of `spec` for MCP clients, built at the first request.
    mcp_tools: OnceLock<[rmcp::model::Tool; 2]>,
}

impl Shared {
    fn new(service: ToolService, settings: HttpSettings, address: SocketAddr) -> Self {
        Self {
            authenticator: Authenticator::new(
                service.store.clone(),
                service.policy.clone(),
                address,
                settings.trusted_proxies.clone(),
            ),
            request_limiter: settings.tenant_requests_per_s.map(RateLimiter::new),
            status_limiter: settings.session_status_per_s.map(RateLimiter::new),
            openapi: OnceLock::new(),
            mcp_tools: OnceLock::new(),
            reads: Reads::new(&service.store, settings.tenant_max_reads),
            connections: TenantCounter::new(settings.tenant_max_connections),
            bodies: TenantCounter::with_total(
                settings.tenant_bodies_max_bytes,
                settings.bodies_max_bytes,
            ),
            service,
            settings,
        }
    }

    /// Calls a tool. Refuses a status call of a session that polls too often.
    async fn call(
        &self,
        caller: &Caller,
        session: &str,
        call: ToolCall,
        dialect: Dialect,
    ) -> Result<Answer> {
        let call = self.service.parse(&caller.tenant, session, call, dialect)?;
        self.allow_status(caller, session, &call)?;
        self.service.call_parsed(caller, session, &call, &CancellationToken::new()).await
    }

    /// Refuses a status call of a session that polls too often.
    fn allow_status(&self, caller: &Caller, session: &str, call: &ParsedCall) -> Result<()> {
        if call.polls_status()
            && let Some(limiter) = &self.status_limiter
        {
            limiter
                .take((caller.tenant.clone(), session.to_owned()))
                .map_err(Error::RateLimited)?;
        }
        Ok(())
    }
}

fn router(shared: Arc<Shared>) -> Router {
    let streams = EventStreams::new(
        shared.service.store.clone(),
        shared.service.hub.clone(),
        StreamLimits::default(),
    )
    .with_texts(shared.settings.event_texts);
    let streams = event_routes(streams.until(shared.service.stopping.clone()));
    let authenticated = streams.merge(mcp::routes(shared.clone()));
    let authenticated = authenticated.layer(from_fn_with_state(shared.clone(), authenticate));
    Router::new()
        .merge(health::routes())
        .merge(metrics::routes())
        .merge(dashboard::routes())
        .merge(openapi::routes())
        .merge(sessions::routes())
        .merge(tools::routes())
        .merge(tasks::routes())
        .merge(stats::routes())
        .merge(audit::routes())
        .merge(webhooks::routes())
        .with_state(shared)
        .merge(authenticated)
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn(catch_panic))
}

impl FromRequestParts<Arc<Shared>> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self> {
        let caller = shared.authenticator.caller(parts).await?;
        if let Some(connection) = parts.extensions.get::<ClientConnection>() {
            connection.belongs_to(&caller.tenant, &shared.connections)?;
        }
        if let Some(limiter) = &shared.request_limiter {
            limiter.take(caller.tenant.clone()).map_err(Error::RateLimited)?;
        }
        Ok(caller)
    }
}

/// Middleware for routes that read their caller from the extensions of the request.
async fn authenticate(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match Caller::from_request_parts(&mut parts, &shared).await {
        Ok(caller) => {
            parts.extensions.insert(caller);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(error) => error.into_response(),
    }
}

/// Extractor of routes that need no key: refuses cross-origin requests.
pub(crate) struct SameOrigin;

impl FromRequestParts<Arc<Shared>> for SameOrigin {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self> {
        shared.authenticator.check_origin(&parts.uri, &parts.headers).await?;
        Ok(Self)
    }
}

async fn no_route() -> Response {
    immediate_error(
        ErrorCode::RouteNotFound,
        "There is no such route; /openapi.json lists the routes",
    )
}

async fn no_method(method: Method) -> Response {
    immediate_error(ErrorCode::MethodNotAllowed, &format!("This route does not support {method}"))
}

/// Answers a request whose handler panicked, instead of closing the connection.
async fn catch_panic(request: Request, next: Next) -> Response {
    AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        immediate_error(ErrorCode::Internal, &internal(&format_args!("panicked: {text}")))
    })
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::routing::get;
    use serde_json::Value;
    use tower::ServiceExt;

    use super::*;

    async fn panics() {
        panic!("a secret");
    }

    #[tokio::test]
    async fn a_panic_is_an_internal_error_with_a_trace_id() {
        let router: Router = Router::new().route("/", get(panics)).layer(from_fn(catch_panic));
        let response = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), 500);
        let body: Value =
            serde_json::from_slice(&to_bytes(response.into_body(), 10_000).await.unwrap()).unwrap();
        assert_eq!(body["error"], "INTERNAL");
        assert!(body["message"].as_str().unwrap().contains("trace id"), "{body}");
        assert!(!body["message"].as_str().unwrap().contains("secret"), "{body}");
    }
}
