//! The routes, and what they have in common.

mod client_stream;
mod connections;
mod dashboard;
mod events;
mod health;
mod mcp;
mod metrics;
mod openapi;
mod page;
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
use std::sync::Arc;

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

use crate::auth::{Authenticator, check_address};
use crate::error::{immediate_error, internal};
use crate::rate_limit::RateLimiter;
use crate::{Caller, Error, Result, ToolService};

/// What the operator decides about requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HttpSettings {
    pub max_body_bytes: usize,
    /// Of each tenant at each server; `None` is no limit.
    pub tenant_requests_per_s: Option<f64>,
    /// How often each session may ask for the status of tasks.
    pub session_status_per_s: Option<f64>,
    /// Whether event streams contain the texts of tasks.
    pub event_texts: EventTexts,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            max_body_bytes: 1 << 20,
            tenant_requests_per_s: None,
            session_status_per_s: None,
            event_texts: EventTexts::Omitted,
        }
    }
}

/// The HTTP server over a service.
#[derive(Debug)]
pub struct HttpServer {
    service: ToolService,
    settings: HttpSettings,
}

impl HttpServer {
    pub fn new(service: ToolService, settings: HttpSettings) -> Self {
        Self { service, settings }
    }

    /// Refuses an address that others can reach, as long as nobody has a key.
    pub async fn check_address(&self, address: SocketAddr) -> Result<()> {
        check_address(&self.service.store, address).await
    }

    /// Serves until `stop`; then nothing new is taken in, what waits answers early, and it returns when all is answered.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: CancellationToken,
    ) -> std::io::Result<()> {
        let stopping = self.service.stopping.clone();
        let shared = Shared::new(self.service, self.settings, listener.local_addr()?);
        connections::serve(listener, router(Arc::new(shared)), stop, stopping).await;
        Ok(())
    }
}

/// What all routes share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: ToolService,
    settings: HttpSettings,
    authenticator: Authenticator,
    requests: Option<RateLimiter<String>>,
    statuses: Option<RateLimiter<(String, String)>>,
    /// What `/openapi.json` says.
    document: String,
}

impl Shared {
    fn new(service: ToolService, settings: HttpSettings, address: SocketAddr) -> Self {
        Self {
            authenticator: Authenticator::new(service.store.clone(), address),
            requests: settings.tenant_requests_per_s.map(RateLimiter::new),
            statuses: settings.session_status_per_s.map(RateLimiter::new),
            document: openapi::document(&service.policy).to_string(),
            service,
            settings,
        }
    }

    /// Calls a tool, unless its session polls the status of tasks too often.
    async fn call(
        &self,
        caller: &Caller,
        session: &str,
        call: ToolCall,
        dialect: Dialect,
    ) -> Result<Answer> {
        let call = self.service.parse(session, call, dialect)?;
        self.allow_status(caller, session, &call)?;
        self.service.call_parsed(caller, session, &call, &CancellationToken::new()).await
    }

    /// Refuses a session that asks for the status of tasks too often.
    fn allow_status(&self, caller: &Caller, session: &str, call: &ParsedCall) -> Result<()> {
        if call.polls_status()
            && let Some(statuses) = &self.statuses
        {
            statuses
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
    let for_callers = streams.merge(mcp::routes(shared.clone()));
    let for_callers = for_callers.layer(from_fn_with_state(shared.clone(), know_caller));
    Router::new()
        .merge(health::routes())
        .merge(metrics::routes())
        .merge(dashboard::routes())
        .merge(openapi::routes())
        .merge(sessions::routes())
        .merge(tools::routes())
        .merge(tasks::routes())
        .merge(stats::routes())
        .merge(webhooks::routes())
        .with_state(shared)
        .merge(for_callers)
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn(catch_panic))
}

impl FromRequestParts<Arc<Shared>> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self> {
        let caller = shared.authenticator.caller(parts).await?;
        if let Some(requests) = &shared.requests {
            requests.take(caller.tenant.clone()).map_err(Error::RateLimited)?;
        }
        Ok(caller)
    }
}

/// For routes that find their caller in the request.
async fn know_caller(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match Caller::from_request_parts(&mut parts, &shared).await {
        Ok(caller) => {
            parts.extensions.insert(caller);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(error) => error.into_response(),
    }
}

/// Somebody who needs no key, but is no web page of others.
pub(crate) struct Visitor;

impl FromRequestParts<Arc<Shared>> for Visitor {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self> {
        shared.authenticator.check_origin(&parts.uri, &parts.headers).await?;
        Ok(Self)
    }
}

async fn no_route() -> Response {
    immediate_error(
        ErrorCode::RouteNotFound,
        "There is nothing at this path; /openapi.json says what there is",
    )
}

async fn no_method(method: Method) -> Response {
    immediate_error(ErrorCode::MethodNotAllowed, &format!("This path does not take {method}"))
}

/// A bug in one request must not end the connection without a word.
async fn catch_panic(request: Request, next: Next) -> Response {
    AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        immediate_error(ErrorCode::Internal, &internal(&format_args!("panicked: {said}")))
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
        panic!("the secret of the house");
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
