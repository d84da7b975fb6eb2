//! The routes, and what they have in common.

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
mod wire;

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use adjutant_agent::dialects::ecs;
use adjutant_agent::{ErrorCode, SUBAGENT};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::Method;
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use futures::FutureExt;
use serde::Serialize;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use events::{EventStreams, StreamLimits, routes as event_routes};

use crate::auth::{Keys, check_address};
use crate::error::{answer_now, internal};
use crate::rates::Rate;
use crate::{Caller, Desk, Error, Result, ToolCall};

/// What the operator decides about requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DoorSettings {
    pub max_body_bytes: usize,
    /// Of each tenant at each server; `None` is no limit.
    pub tenant_requests_per_s: Option<f64>,
    /// How often each session may ask for the status of tasks.
    pub session_status_per_s: Option<f64>,
}

impl Default for DoorSettings {
    fn default() -> Self {
        Self { max_body_bytes: 1 << 20, tenant_requests_per_s: None, session_status_per_s: None }
    }
}

/// The HTTP server over a desk.
#[derive(Debug)]
pub struct Door {
    desk: Desk,
    settings: DoorSettings,
}

impl Door {
    pub fn new(desk: Desk, settings: DoorSettings) -> Self {
        Self { desk, settings }
    }

    /// Refuses an address that others can reach, as long as nobody has a key.
    pub async fn check_address(&self, address: SocketAddr) -> Result<()> {
        check_address(&self.desk.store, address).await
    }

    /// Serves until `stop`; then nothing new is taken in, what waits answers early, and it returns when all is answered.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) -> std::io::Result<()> {
        let stopping = self.desk.stopping.clone();
        let shared = Shared::new(self.desk, self.settings, listener.local_addr()?);
        connections::serve(listener, router(Arc::new(shared)), stop, stopping).await;
        Ok(())
    }
}

/// What all routes share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) desk: Desk,
    settings: DoorSettings,
    keys: Keys,
    requests: Option<Rate<String>>,
    statuses: Option<Rate<(String, String)>>,
    /// What `/openapi.json` says.
    document: String,
}

impl Shared {
    fn new(desk: Desk, settings: DoorSettings, address: SocketAddr) -> Self {
        Self {
            keys: Keys::new(desk.store.clone(), address),
            requests: settings.tenant_requests_per_s.map(Rate::new),
            statuses: settings.session_status_per_s.map(Rate::new),
            document: openapi::document(&desk.policy).to_string(),
            desk,
            settings,
        }
    }

    /// Refuses a session that asks for the status of tasks too often.
    fn allow_status(&self, caller: &Caller, session: &str, call: &ToolCall) -> Result<()> {
        let is_status =
            call.tool == ecs::STATUS || (call.tool == SUBAGENT && call.arguments["action"] == "status");
        if is_status && let Some(statuses) = &self.statuses {
            statuses.take((caller.tenant.clone(), session.to_owned())).map_err(Error::TooOften)?;
        }
        Ok(())
    }
}

fn router(shared: Arc<Shared>) -> Router {
    let streams =
        EventStreams::new(shared.desk.store.clone(), shared.desk.hub.clone(), StreamLimits::default());
    let streams = event_routes(streams.until(shared.desk.stopping.clone()));
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

/// What the store gives, as the wire has it.
fn json(given: &impl Serialize) -> Result<Json<Value>> {
    serde_json::to_value(given)
        .map(Json)
        .map_err(|error| Error::refused(ErrorCode::Internal, internal(&error)))
}

impl FromRequestParts<Arc<Shared>> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self> {
        let caller = shared.keys.caller(parts).await?;
        if let Some(requests) = &shared.requests {
            requests.take(caller.tenant.clone()).map_err(Error::TooOften)?;
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
        shared.keys.visitor(&parts.uri, &parts.headers).await?;
        Ok(Self)
    }
}

async fn no_route() -> Response {
    answer_now(ErrorCode::RouteNotFound, "There is nothing at this path; /openapi.json says what there is")
}

async fn no_method(method: Method) -> Response {
    answer_now(ErrorCode::MethodNotAllowed, &format!("This path does not take {method}"))
}

/// A bug in one request must not end the connection without a word.
async fn catch_panic(request: Request, next: Next) -> Response {
    AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        answer_now(ErrorCode::Internal, &internal(&format_args!("panicked: {said}")))
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
