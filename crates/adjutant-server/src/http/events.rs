//! Events of sessions and tasks as Server-Sent Events: first the stored ones, then new ones,
//! without a gap or a repeat. A client that loses its server continues at any other, after its last
//! event.

use std::time::Duration;

use adjutant_agent::{ErrorCode, Refusal, TaskId};
use adjutant_store::{EventQuery, EventTexts, Store, TextFilter};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use tokio_util::sync::CancellationToken;

use super::stream::{EventStream, StreamPosition};
use crate::hub::KeyHold;
use crate::tenant_counter::{Permit, TenantCounter};
use crate::{Caller, Error, Hub, Result, Scope};

/// When a client that was refused should try again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// How many streams may be open at a time.
#[derive(Debug, Clone, Copy)]
pub struct StreamLimits {
    pub total: usize,
    pub per_tenant: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { total: 2000, per_tenant: 500 }
    }
}

/// The open streams of a process.
#[derive(Debug, Clone)]
pub struct EventStreams {
    pub(super) store: Store,
    hub: Hub,
    pub(super) texts: EventTexts,
    open: TenantCounter,
    pub(super) stopping: CancellationToken,
}

impl EventStreams {
    pub fn new(store: Store, hub: Hub, limits: StreamLimits) -> Self {
        Self {
            store,
            hub,
            texts: EventTexts::Omitted,
            open: TenantCounter::with_total(limits.per_tenant, limits.total),
            stopping: CancellationToken::new(),
        }
    }

    /// Streams whose start and end events have the texts of their tasks, or only their sizes.
    pub fn with_texts(self, texts: EventTexts) -> Self {
        Self { texts, ..self }
    }

    /// Ends every stream when this is cancelled.
    pub(super) fn until(self, stopping: CancellationToken) -> Self {
        Self { stopping, ..self }
    }

    /// Ends every stream; clients continue at another server.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// The right to one more stream of this caller, for as long as its key is valid.
    fn admit(&self, caller: &Caller) -> Result<StreamPermit> {
        let permit = self.open.take(&caller.tenant);
        let permit = permit
            .map_err(|exceeded| Error::too_many("open event streams", exceeded, RETRY_AFTER))?;
        Ok(StreamPermit { key: self.hub.hold_key(caller.key_id()), _permit: permit })
    }
}

/// The right to one open stream, until it is dropped.
#[derive(Debug)]
pub(super) struct StreamPermit {
    pub(super) key: KeyHold,
    _permit: Permit,
}

/// The routes. A middleware must add the [`Caller`] to each request.
pub fn routes(streams: EventStreams) -> Router {
    Router::new()
        .route("/v1/sessions/{session}/events", get(session_events))
        .route("/v1/tasks/{id}/events", get(task_events))
        .with_state(streams)
}

type Parameters = std::result::Result<Query<Vec<(String, String)>>, QueryRejection>;

/// Follow a session
///
/// Server-Sent Events: first the stored events, then new ones, without a gap or a repeat.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/events", tag = "events",
    params(
        ("session" = String, Path, description = "Its `session_id`."),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that the client has; the stream starts after it."),
        ("after" = Option<String>, Query, description = "The same, for clients that cannot set headers; the header wins."),
        ("from" = Option<String>, Query, description = "`now` leaves out stored events."),
        ("text" = Option<bool>, Query, description = "Also the text of models while they stream it, as events `text` without an id."),
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
    caller.require(&[Scope::Read, Scope::Delegate])?;
    let options = StreamOptions::parse(&headers, parameters)?;
    let session = streams.store.session(&caller.tenant, &session).await?;
    let text = TextFilter::Session(session.id);
    let watch = streams.hub.watch(session.id);
    let permit = streams.admit(&caller)?;
    let stream = EventStream {
        position: options.position(&streams.store, session.id).await?,
        text: options.text.then(|| streams.hub.text(text)),
        session_name: session.name,
        task: None,
        watch,
        streams,
        session: session.id,
        permit,
    };
    Ok(stream.open().await?.unwrap_or_else(no_more_events))
}

/// Follow a task
///
/// Server-Sent Events: first the stored events, then new ones, without a gap or a repeat. The
/// stream ends with the task.
#[utoipa::path(
    get, path = "/v1/tasks/{id}/events", tag = "events",
    params(
        ("id" = String, Path, description = "The task's `id`, not its `task_id`."),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that the client has; the stream starts after it."),
        ("after" = Option<String>, Query, description = "The same, for clients that cannot set headers; the header wins."),
        ("from" = Option<String>, Query, description = "`now` leaves out stored events."),
        ("text" = Option<bool>, Query, description = "Also the text of models while they stream it, as events `text` without an id."),
    ),
    responses(
        (status = 200, description = "Events, each with a kind, an id and an object as its data.", body = String, content_type = "text/event-stream"),
        (status = 204, description = "There are no events after the given one, and there will be none."),
    )
)]
pub async fn task_events(
    State(streams): State<EventStreams>,
    Extension(caller): Extension<Caller>,
    Path(task): Path<String>,
    headers: HeaderMap,
    parameters: Parameters,
) -> Result<Response> {
    caller.require(&[Scope::Read, Scope::Delegate])?;
    let options = StreamOptions::parse(&headers, parameters)?;
    let not_found = || Refusal::new(ErrorCode::TaskNotFound, format!("Task not found: {task}"));
    let task = TaskId(task.parse().map_err(|_| not_found())?);
    let found = streams.store.task_session(&caller.tenant, task).await?;
    let watch = streams.hub.watch(found.session);
    let permit = streams.admit(&caller)?;
    let stream = EventStream {
        position: options.position(&streams.store, found.session).await?,
        text: options.text.then(|| streams.hub.text(TextFilter::Task(task))),
        session_name: found.session_name,
        task: Some(task),
        watch,
        streams,
        session: found.session,
        permit,
    };
    let stream = stream.open().await?;
    Ok(stream.unwrap_or_else(no_more_events))
}

/// The query and the headers of a request for a stream.
#[derive(Debug, Default)]
struct StreamOptions {
    after: Option<StreamPosition>,
    from_now: bool,
    text: bool,
}

impl StreamOptions {
    fn parse(headers: &HeaderMap, parameters: Parameters) -> Result<Self> {
        let mut options = Self::default();
        let Query(parameters) = parameters.map_err(|_| {
            Refusal::invalid("query", "is not valid: must be percent-encoded UTF-8")
        })?;
        for (name, value) in &parameters {
            match (name.as_str(), value.as_str()) {
                ("after", id) => options.after = Some(StreamPosition::parse("after", id)?),
                ("from", "now") => options.from_now = true,
                ("from", "start") => options.from_now = false,
                ("from", _) => {
                    return Err(Refusal::invalid("from", "must be \"start\" or \"now\"").into());
                }
                ("text", "true") => options.text = true,
                ("text", "false") => options.text = false,
                ("text", _) => {
                    return Err(Refusal::invalid("text", "must be \"true\" or \"false\"").into());
                }
                (name, _) => {
                    let known = "is not a parameter of this path; there are: after, from, text";
                    return Err(Refusal::invalid(name, known).into());
                }
            }
        }
        // The header is newer: a browser that reconnects repeats the query of its first request.
        if let Some(last) = headers.get("last-event-id").filter(|last| !last.is_empty()) {
            let last = last.to_str().unwrap_or_default();
            options.after = Some(StreamPosition::parse("Last-Event-ID", last)?);
        }
        Ok(options)
    }

    async fn position(
        &self,
        store: &Store,
        session: adjutant_agent::SessionId,
    ) -> Result<StreamPosition> {
        match self.after {
            Some(position) => Ok(position),
            None if self.from_now => {
                let texts = EventTexts::Omitted;
                let newest = EventQuery { task: None, after: i64::MAX, limit: 1, texts };
                Ok(StreamPosition::after(store.event_page(session, newest).await?.upto))
            }
            None => Ok(StreamPosition::default()),
        }
    }
}

/// The response for a stream that has ended. A browser does not reconnect after this status.
fn no_more_events() -> Response {
    StatusCode::NO_CONTENT.into_response()
}
