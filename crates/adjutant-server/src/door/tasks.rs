//! The history of a tenant's tasks.

use std::sync::Arc;

use adjutant_agent::{ErrorCode, FailureKind, Refusal, TaskId, TaskState};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use serde_json::Value;

use super::Shared;
use super::json;
use super::request::{Parameters, PathOnly, Place, idempotency_key};
use crate::{Caller, Result, Scope};
use adjutant_store::{Cursor, IdempotencyKey, TaskFilter};

const PAGE: i64 = 50;
const MAX_PAGE: i64 = 500;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/tasks", get(list))
        .route("/v1/tasks/{id}", get(show))
        .route("/v1/tasks/{id}/turns", get(turns))
        .route("/v1/tasks/{id}/cancel", post(cancel))
        .route("/v1/tasks/{id}/retry", post(retry))
}

/// Which tasks are wanted.
#[derive(Debug, Default, PartialEq)]
struct Wanted {
    state: Option<TaskState>,
    failure: Option<FailureKind>,
    agent: Option<String>,
    session: Option<String>,
    model: Option<String>,
    /// When it was made: from this time, and before that.
    since: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
    /// In its id, its label or its agent's name.
    q: Option<String>,
    cursor: Option<String>,
    limit: i64,
}

impl Wanted {
    fn read(mut parameters: Parameters) -> Result<Self, Refusal> {
        let time = "a time as 2026-01-31T12:00:00Z";
        let wanted = Self {
            state: parameters.parsed("state", &one_of(TaskState::ALL.iter().map(|state| state.as_str())))?,
            failure: parameters
                .parsed("failure", &one_of(FailureKind::ALL.iter().map(|kind| kind.as_str())))?,
            agent: parameters.text("agent")?,
            session: parameters.text("session")?,
            model: parameters.text("model")?,
            since: parameters.parsed("since", time)?,
            until: parameters.parsed("until", time)?,
            q: parameters.text("q")?,
            cursor: parameters.text("cursor")?,
            limit: parameters.limit(PAGE, MAX_PAGE)?,
        };
        parameters.end()?;
        Ok(wanted)
    }
}

impl Wanted {
    fn of(&self, caller: &Caller) -> TaskFilter {
        TaskFilter {
            tenant: caller.tenant.clone(),
            state: self.state,
            failure: self.failure,
            agent: self.agent.clone(),
            session: self.session.clone(),
            model: self.model.clone(),
            since: self.since,
            until: self.until,
            q: self.q.clone(),
        }
    }
}

fn one_of<'a>(words: impl Iterator<Item = &'a str>) -> String {
    format!("one of {}", words.collect::<Vec<_>>().join(", "))
}

/// What is not an id is no task's.
fn id(place: &Place) -> Result<TaskId, Refusal> {
    let text = place.get("id");
    let not_found = || Refusal::new(ErrorCode::TaskNotFound, format!("Task not found: {text}"));
    text.parse().map(TaskId).map_err(|_| not_found())
}

/// Search the history of tasks, the newest first
#[utoipa::path(
    get, path = "/v1/tasks", tag = "history",
    params(
        ("state" = Option<String>, Query, description = "As it is stored."),
        ("failure" = Option<String>, Query, description = "Why they failed."),
        ("agent" = Option<String>, Query, min_length = 1),
        ("session" = Option<String>, Query, min_length = 1),
        ("model" = Option<String>, Query, min_length = 1),
        ("since" = Option<DateTime<Utc>>, Query, description = "Made at this time or later."),
        ("until" = Option<DateTime<Utc>>, Query, description = "Made before this time."),
        ("q" = Option<String>, Query, description = "A part of the id, the label or the agent's name.", min_length = 1),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.", min_length = 1),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses((status = 200, description = "`tasks` and `next_cursor`.", body = Object))
)]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Json<Value>> {
    caller.needs(&[Scope::Read])?;
    let wanted = Wanted::read(parameters)?;
    let after = wanted.cursor.as_deref().map(str::parse::<Cursor>).transpose()?;
    let page = shared.desk.store.tasks(&wanted.of(&caller), after.as_ref(), wanted.limit).await?;
    json(&page)
}

/// Show a task
#[utoipa::path(
    get, path = "/v1/tasks/{id}", tag = "history",
    params(("id" = String, Path, description = "Its `id`, a UUID.")),
    responses((status = 200, description = "All that is known of it.", body = Object))
)]
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    place: Place,
    parameters: Parameters,
) -> Result<Json<Value>> {
    caller.needs(&[Scope::Read])?;
    parameters.end()?;
    json(&shared.desk.store.task(&caller.tenant, id(&place)?).await?)
}

/// Show the turns of a task, with the model's answers and the tools' results
#[utoipa::path(
    get, path = "/v1/tasks/{id}/turns", tag = "history",
    params(
        ("id" = String, Path, description = "Its `id`, a UUID."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.", min_length = 1),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses((status = 200, description = "`turns`, the first one first, and `next_cursor`.", body = Object))
)]
pub(super) async fn turns(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    place: Place,
    mut parameters: Parameters,
) -> Result<Json<Value>> {
    caller.needs(&[Scope::Read])?;
    let after = parameters.text("cursor")?;
    let limit = parameters.limit(PAGE, MAX_PAGE)?;
    parameters.end()?;
    let store = &shared.desk.store;
    json(&store.task_turns(&caller.tenant, id(&place)?, after.as_deref(), limit).await?)
}

/// Cancel a task, and everything below it
#[utoipa::path(
    post, path = "/v1/tasks/{id}/cancel", tag = "history",
    params(("id" = String, Path, description = "Its `id`, a UUID.")),
    responses((status = 200, description = "What it is now.", body = Object))
)]
pub(super) async fn cancel(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    place: Place,
    _: PathOnly,
) -> Result<Json<Value>> {
    caller.needs(&[Scope::Delegate])?;
    let id = id(&place)?;
    // Whose it is, before anything is done to it.
    shared.desk.store.find_task(&caller.tenant, id).await?;
    let cancelled = shared.desk.store.cancel(id).await?;
    shared.desk.tell_cancelled(&cancelled.ended).await;
    json(&shared.desk.store.task(&caller.tenant, id).await?)
}

/// Try a task that has ended again, as a new task
#[utoipa::path(
    post, path = "/v1/tasks/{id}/retry", tag = "history",
    params(
        ("id" = String, Path, description = "Its `id`, a UUID."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key is the same retry, and makes no second task."),
    ),
    responses((status = 200, description = "The new task.", body = Object))
)]
pub(super) async fn retry(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    place: Place,
    headers: HeaderMap,
    _: PathOnly,
) -> Result<Json<Value>> {
    caller.needs(&[Scope::Delegate])?;
    let (store, id) = (&shared.desk.store, id(&place)?);
    // What two requests with one key are compared by: whether they are about the same task.
    let body = format!("retry {id}");
    let key = idempotency_key(&headers)?.map(|key| IdempotencyKey { key, body: body.as_bytes() });
    let spawned = store.retry_task(&caller.tenant, id, key).await?;
    json(&store.task(&caller.tenant, spawned.id).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(query: &str) -> Result<Wanted, String> {
        let parameters = Parameters::of(&format!("/v1/tasks?{query}").parse().unwrap()).unwrap();
        Wanted::read(parameters).map_err(|refusal| refusal.message)
    }

    #[test]
    fn every_parameter_is_understood() {
        let read = wanted(
            "state=failed&failure=timeout&agent=a&session=s&model=m&since=2026-01-31T12:00:00Z\
             &until=2026-02-01T00:00:00%2B01:00&q=x&cursor=c&limit=7",
        );
        let expected = Wanted {
            state: Some(TaskState::Failed),
            failure: Some(FailureKind::Timeout),
            agent: Some("a".to_owned()),
            session: Some("s".to_owned()),
            model: Some("m".to_owned()),
            since: "2026-01-31T12:00:00Z".parse().ok(),
            until: "2026-01-31T23:00:00Z".parse().ok(),
            q: Some("x".to_owned()),
            cursor: Some("c".to_owned()),
            limit: 7,
        };
        assert_eq!(read, Ok(expected));
        assert_eq!(wanted(""), Ok(Wanted { limit: PAGE, ..Wanted::default() }));
    }

    #[test]
    fn what_is_wrong_is_refused_by_its_name() {
        for query in [
            "state=done",
            "state=",
            "state=failed,cancelled",
            "failure=x",
            "since=yesterday",
            "until=2026-01-31",
            "limit=0",
            "agent=",
            "colour=red",
        ] {
            let said = wanted(query).unwrap_err();
            let name = query.split('=').next().unwrap();
            assert!(said.starts_with(&format!("{name}: ")), "{query}: {said}");
        }
    }
}
