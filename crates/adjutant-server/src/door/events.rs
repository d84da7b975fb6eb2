//! What happens, as Server-Sent Events: history first, then whatever comes, without a gap or a repeat between them. A client
//! that loses its server goes on at any other, after the last event that it has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use adjutant_agent::{ErrorCode, Refusal, TaskId};
use adjutant_store::{Store, TextOf};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use tokio_util::sync::CancellationToken;

use super::stream::{Place, Reader};
use crate::{Caller, Error, Hub, Result, Scope};

/// How many streams there may be at a time.
#[derive(Debug, Clone, Copy)]
pub struct StreamLimits {
    pub of_all: usize,
    pub of_a_tenant: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { of_all: 2000, of_a_tenant: 500 }
    }
}

/// The streams of a process.
#[derive(Debug, Clone)]
pub struct EventStreams {
    pub(super) store: Store,
    hub: Hub,
    limits: StreamLimits,
    open: Arc<Mutex<HashMap<String, usize>>>,
    pub(super) stopping: CancellationToken,
}

impl EventStreams {
    pub fn new(store: Store, hub: Hub, limits: StreamLimits) -> Self {
        Self { store, hub, limits, open: Arc::default(), stopping: CancellationToken::new() }
    }

    /// Streams that end when this is cancelled.
    pub(super) fn until(self, stopping: CancellationToken) -> Self {
        Self { stopping, ..self }
    }

    /// Ends every stream; their clients go on elsewhere.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    fn admit(&self, tenant: &str) -> Option<Admission> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let own = open.get(tenant).copied().unwrap_or_default();
        if own >= self.limits.of_a_tenant || open.values().sum::<usize>() >= self.limits.of_all {
            return None;
        }
        open.insert(tenant.to_owned(), own + 1);
        Some(Admission { open: self.open.clone(), tenant: tenant.to_owned() })
    }
}

/// One of the streams that there may be, until it is dropped.
#[derive(Debug)]
pub(super) struct Admission {
    open: Arc<Mutex<HashMap<String, usize>>>,
    tenant: String,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = open.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.tenant);
            }
        }
    }
}

/// The routes. Whoever puts them in front of people adds the [`Caller`] to each request.
pub fn routes(streams: EventStreams) -> Router {
    Router::new()
        .route("/v1/sessions/{session}/events", get(session_events))
        .route("/v1/tasks/{id}/events", get(task_events))
        .with_state(streams)
}

type Parameters = std::result::Result<Query<Vec<(String, String)>>, QueryRejection>;

/// Follow a session
///
/// Server-Sent Events: history first, then whatever comes, without a gap or a repeat.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/events", tag = "events",
    params(
        ("session" = String, Path, description = "Its `session_id`."),
        ("Last-Event-ID" = Option<String>, Header, description = "The last event that the client has: the next one comes first."),
        ("after" = Option<String>, Query, description = "The same, for clients that cannot set headers; the header wins."),
        ("from" = Option<String>, Query, description = "`now` leaves history out."),
        ("text" = Option<bool>, Query, description = "Also what models say while they say it, as events `text` without an id."),
    ),
    responses(
        (status = 200, description = "Events, each with a kind, an id and an object as its data.", body = String, content_type = "text/event-stream"),
    )
)]
pub async fn session_events(
    State(streams): State<EventStreams>,
    Extension(caller): Extension<Caller>,
    Path(session): Path<String>,
    headers: HeaderMap,
    parameters: Parameters,
) -> Result<Response> {
    caller.needs(&[Scope::Read, Scope::Delegate])?;
    let wish = Wish::of(&headers, parameters)?;
    let session = streams.store.session(&caller.tenant, &session).await?;
    let text = TextOf::Session(session.id);
    let watch = streams.hub.watch(session.id);
    let Some(admission) = streams.admit(&caller.tenant) else { return Err(too_many()) };
    let reader = Reader {
        place: wish.place(&streams.store, session.id).await?,
        text: wish.text.then(|| streams.hub.text(text)),
        session_name: session.name,
        task: None,
        watch,
        streams,
        session: session.id,
        _admission: admission,
    };
    Ok(reader.begin().await?.unwrap_or_else(nothing_more))
}

/// Follow a task
///
/// Server-Sent Events: history first, then whatever comes, without a gap or a repeat; it ends with the task.
#[utoipa::path(
    get, path = "/v1/tasks/{id}/events", tag = "events",
    params(
        ("id" = String, Path, description = "The task's `id`, not its `task_id`."),
        ("Last-Event-ID" = Option<String>, Header, description = "The last event that the client has: the next one comes first."),
        ("after" = Option<String>, Query, description = "The same, for clients that cannot set headers; the header wins."),
        ("from" = Option<String>, Query, description = "`now` leaves history out."),
        ("text" = Option<bool>, Query, description = "Also what models say while they say it, as events `text` without an id."),
    ),
    responses(
        (status = 200, description = "Events, each with a kind, an id and an object as its data.", body = String, content_type = "text/event-stream"),
        (status = 204, description = "There will never be more after the event that was named."),
    )
)]
pub async fn task_events(
    State(streams): State<EventStreams>,
    Extension(caller): Extension<Caller>,
    Path(task): Path<String>,
    headers: HeaderMap,
    parameters: Parameters,
) -> Result<Response> {
    caller.needs(&[Scope::Read, Scope::Delegate])?;
    let wish = Wish::of(&headers, parameters)?;
    let not_found = || Refusal::new(ErrorCode::TaskNotFound, format!("Task not found: {task}"));
    let task = TaskId(task.parse().map_err(|_| not_found())?);
    let place = streams.store.place_of(&caller.tenant, task).await?;
    let watch = streams.hub.watch(place.session);
    let Some(admission) = streams.admit(&caller.tenant) else { return Err(too_many()) };
    let reader = Reader {
        place: wish.place(&streams.store, place.session).await?,
        text: wish.text.then(|| streams.hub.text(TextOf::Task(task))),
        session_name: place.session_name,
        task: Some(task),
        watch,
        streams,
        session: place.session,
        _admission: admission,
    };
    let stream = reader.begin().await?;
    Ok(stream.unwrap_or_else(nothing_more))
}

/// What a client wants to see.
#[derive(Debug, Default)]
struct Wish {
    after: Option<Place>,
    from_now: bool,
    text: bool,
}

impl Wish {
    fn of(headers: &HeaderMap, parameters: Parameters) -> Result<Self> {
        let mut wish = Self::default();
        let Query(parameters) = parameters.map_err(|_| Refusal::invalid("query", "is not a query"))?;
        for (name, value) in &parameters {
            match (name.as_str(), value.as_str()) {
                ("after", id) => wish.after = Some(Place::parse("after", id)?),
                ("from", "now") => wish.from_now = true,
                ("from", "start") => wish.from_now = false,
                ("from", _) => return Err(Refusal::invalid("from", "must be \"start\" or \"now\"").into()),
                ("text", "true") => wish.text = true,
                ("text", "false") => wish.text = false,
                ("text", _) => return Err(Refusal::invalid("text", "must be \"true\" or \"false\"").into()),
                (name, _) => {
                    let known = "there is no such parameter; there are: after, from, text";
                    return Err(Refusal::invalid(name, known).into());
                }
            }
        }
        // It is the later one: a browser that connects again sends the same query.
        if let Some(last) = headers.get("last-event-id").filter(|last| !last.is_empty()) {
            let last = last.to_str().unwrap_or_default();
            wish.after = Some(Place::parse("Last-Event-ID", last)?);
        }
        Ok(wish)
    }

    async fn place(&self, store: &Store, session: adjutant_agent::SessionId) -> Result<Place> {
        match self.after {
            Some(place) => Ok(place),
            None if self.from_now => {
                Ok(Place::after(store.event_page(session, None, i64::MAX, 1).await?.upto))
            }
            None => Ok(Place::default()),
        }
    }
}

fn too_many() -> Error {
    Error::TooOften(Duration::from_secs(5))
}

/// A browser that gets this does not connect again.
fn nothing_more() -> Response {
    StatusCode::NO_CONTENT.into_response()
}
