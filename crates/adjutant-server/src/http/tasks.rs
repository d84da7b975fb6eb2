//! The task history of a tenant.

use std::sync::Arc;

use adjutant_agent::{ErrorCode, FailureKind, Refusal, TaskId, TaskState};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};

use super::Shared;
use super::bulk_body::Bulk;
use super::request::{
    JsonBody, NoArguments, OptionalJsonBody, PathParams, QueryParams, idempotency_key,
};
use super::session_body::raise_of;
use crate::{Caller, Result, Scope};
use adjutant_store::{
    BulkAction, BulkBatch, Cursor, IdempotencyKey, Page, TaskFilter, TaskRecord, TurnPage,
};

const PAGE: i64 = 50;
const MAX_PAGE: i64 = 500;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/tasks", get(list))
        .route("/v1/tasks/cancel", post(cancel_matching))
        .route("/v1/tasks/retry", post(retry_matching))
        .route("/v1/tasks/{id}", get(show))
        .route("/v1/tasks/{id}/turns", get(turns))
        .route("/v1/tasks/{id}/cancel", post(cancel))
        .route("/v1/tasks/{id}/retry", post(retry))
        .route("/v1/tasks/{id}/raise", post(raise))
}

/// The query parameters of a search.
#[derive(Debug, Default, PartialEq)]
struct TaskSearch {
    state: Option<TaskState>,
    failure: Option<FailureKind>,
    agent: Option<String>,
    session: Option<String>,
    model: Option<String>,
    /// Created at this time or later.
    since: Option<DateTime<Utc>>,
    /// Created before this time.
    until: Option<DateTime<Utc>>,
    /// In its id, its label or its agent's name.
    q: Option<String>,
    cursor: Option<String>,
    limit: i64,
}

impl TaskSearch {
    fn parse(mut parameters: QueryParams) -> Result<Self, Refusal> {
        let time = "a time as 2026-01-31T12:00:00Z";
        let search = Self {
            state: parameters.word("state", TaskState::ALL)?,
            failure: parameters.word("failure", FailureKind::ALL)?,
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
        Ok(search)
    }
}

impl TaskSearch {
    fn filter(&self, caller: &Caller) -> TaskFilter {
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

/// The task id in the path. A text that is not a UUID is an unknown task.
fn id(path: &PathParams) -> Result<TaskId, Refusal> {
    let text = path.get("id");
    let not_found = || Refusal::new(ErrorCode::TaskNotFound, format!("Task not found: {text}"));
    text.parse().map(TaskId).map_err(|_| not_found())
}

/// Search the history of tasks, the newest first
#[utoipa::path(
    get, path = "/v1/tasks", tag = "history",
    params(
        ("state" = Option<String>, Query, description = "The stored state."),
        ("failure" = Option<String>, Query, description = "The kind of the failure."),
        ("agent" = Option<String>, Query, min_length = 1),
        ("session" = Option<String>, Query, min_length = 1),
        ("model" = Option<String>, Query, min_length = 1),
        ("since" = Option<DateTime<Utc>>, Query, description = "Created at this time or later."),
        ("until" = Option<DateTime<Utc>>, Query, description = "Created before this time."),
        ("q" = Option<String>, Query, description = "A part of the id, the label or the agent's name.", min_length = 1),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.", min_length = 1),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses((status = 200, description = "A page of tasks.", body = Page))
)]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    parameters: QueryParams,
) -> Result<Json<Page>> {
    caller.require(&[Scope::Read])?;
    let search = TaskSearch::parse(parameters)?;
    let after = search.cursor.as_deref().map(str::parse::<Cursor>).transpose()?;
    let page = shared
        .reads
        .begin(&caller)?
        .tasks(&search.filter(&caller), after.as_ref(), search.limit)
        .await?;
    Ok(Json(page))
}

/// Show a task
#[utoipa::path(
    get, path = "/v1/tasks/{id}", tag = "history",
    params(("id" = String, Path, description = "Its `id`, a UUID.")),
    responses((status = 200, description = "The task.", body = TaskRecord))
)]
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    parameters: QueryParams,
) -> Result<Json<TaskRecord>> {
    caller.require(&[Scope::Read])?;
    parameters.end()?;
    Ok(Json(shared.reads.begin(&caller)?.task(&caller.tenant, id(&path)?).await?))
}

/// Show the turns of a task, with the model's answers and the tools' results
#[utoipa::path(
    get, path = "/v1/tasks/{id}/turns", tag = "history",
    params(
        ("id" = String, Path, description = "Its `id`, a UUID."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.", min_length = 1),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses((status = 200, description = "A page of turns, the first one first.", body = TurnPage))
)]
pub(super) async fn turns(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    mut parameters: QueryParams,
) -> Result<Json<TurnPage>> {
    caller.require(&[Scope::Read])?;
    let after = parameters.text("cursor")?;
    let limit = parameters.limit(PAGE, MAX_PAGE)?;
    parameters.end()?;
    let store = shared.reads.begin(&caller)?;
    Ok(Json(store.task_turns(&caller.tenant, id(&path)?, after.as_deref(), limit).await?))
}

/// Cancel all unfinished tasks that match a filter, and everything below them
///
/// A request cancels at most 200 tasks; the next one goes on with `next_cursor`. Tasks that are
/// spawned meanwhile are newer than the first batch, and not cancelled. Repeating a request is
/// harmless.
#[utoipa::path(
    post, path = "/v1/tasks/cancel", tag = "history",
    responses((status = 200, description = "What was done.", body = BulkBatch))
)]
pub(super) async fn cancel_matching(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    parameters: QueryParams,
    JsonBody(body): JsonBody,
) -> Result<Json<BulkBatch>> {
    caller.require(&[Scope::Delegate])?;
    parameters.end()?;
    let Bulk { filter, dry_run, after } = Bulk::parse(&body, &caller.tenant)?;
    let _read = shared.reads.begin(&caller)?;
    let store = &shared.service.store_of(&caller);
    if dry_run {
        let counted = store.count_matching(BulkAction::Cancel, &filter, after.as_ref()).await?;
        return Ok(Json(counted));
    }
    let batch = store.cancel_matching(&filter, after.as_ref()).await?;
    shared.service.context(store).log_cancelled(&batch.ended).await;
    Ok(Json(batch))
}

/// Retry all failed and cancelled tasks that match a filter
///
/// A request retries at most 200 tasks; the next one goes on with `next_cursor`. A task is retried
/// in this way once at most, so repeating a request is harmless; its retry may be retried if it
/// fails. The new tasks wait in the queue if their session is full.
#[utoipa::path(
    post, path = "/v1/tasks/retry", tag = "history",
    responses((status = 200, description = "What was done.", body = BulkBatch))
)]
pub(super) async fn retry_matching(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    parameters: QueryParams,
    JsonBody(body): JsonBody,
) -> Result<Json<BulkBatch>> {
    caller.require(&[Scope::Delegate])?;
    parameters.end()?;
    let Bulk { filter, dry_run, after } = Bulk::parse(&body, &caller.tenant)?;
    let _read = shared.reads.begin(&caller)?;
    let store = &shared.service.store_of(&caller);
    let batch = if dry_run {
        store.count_matching(BulkAction::Retry, &filter, after.as_ref()).await?
    } else {
        store.retry_matching(&filter, after.as_ref()).await?
    };
    Ok(Json(batch))
}

/// Cancel a task, and everything below it
#[utoipa::path(
    post, path = "/v1/tasks/{id}/cancel", tag = "history",
    params(("id" = String, Path, description = "Its `id`, a UUID.")),
    responses((status = 200, description = "The task as it is now.", body = TaskRecord))
)]
pub(super) async fn cancel(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    _: NoArguments,
) -> Result<Json<TaskRecord>> {
    caller.require(&[Scope::Delegate])?;
    let id = id(&path)?;
    let store = &shared.service.store_of(&caller);
    // Refuses a task of another tenant.
    store.find_task(&caller.tenant, id).await?;
    let cancelled = store.cancel(id).await?;
    shared.service.context(store).log_cancelled(&cancelled.ended).await;
    Ok(Json(store.task(&caller.tenant, id).await?))
}

/// Retry a task that has ended, as a new task
#[utoipa::path(
    post, path = "/v1/tasks/{id}/retry", tag = "history",
    params(
        ("id" = String, Path, description = "Its `id`, a UUID."),
        ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key create one task."),
    ),
    responses((status = 200, description = "The new task.", body = TaskRecord))
)]
pub(super) async fn retry(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    headers: HeaderMap,
    _: NoArguments,
) -> Result<Json<TaskRecord>> {
    caller.require(&[Scope::Delegate])?;
    let (store, id) = (&shared.service.store_of(&caller), id(&path)?);
    // Two requests with one key must be for the same task.
    let body = format!("retry {id}");
    let key = idempotency_key(&headers)?.map(|key| IdempotencyKey { key, body: body.as_bytes() });
    let spawned = store.retry_task(&caller.tenant, id, key).await?;
    Ok(Json(store.task(&caller.tenant, spawned.id).await?))
}

/// Raise the budget of a task
///
/// Only limits that the task has, to more than it has used. The budget of a task without a parent
/// holds for its whole tree. Tasks that wait for the budget go on. Idempotent.
#[utoipa::path(
    post, path = "/v1/tasks/{id}/raise", tag = "history",
    params(("id" = String, Path, description = "Its `id`, a UUID.")),
    responses((status = 200, description = "The task as it is now.", body = TaskRecord))
)]
pub(super) async fn raise(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    parameters: QueryParams,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Result<Json<TaskRecord>> {
    caller.require(&[Scope::Delegate])?;
    parameters.end()?;
    let (store, id, limits) = (&shared.service.store_of(&caller), id(&path)?, raise_of(&body)?);
    let (session, number) = store.find_task(&caller.tenant, id).await?;
    store.raise(session, number, &limits).await?;
    Ok(Json(store.task(&caller.tenant, id).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(query: &str) -> Result<TaskSearch, String> {
        let parameters =
            QueryParams::parse(&format!("/v1/tasks?{query}").parse().unwrap()).unwrap();
        TaskSearch::parse(parameters).map_err(|refusal| refusal.message)
    }

    #[test]
    fn every_parameter_is_parsed() {
        let parsed = search(
            "state=failed&failure=timeout&agent=a&session=s&model=m&since=2026-01-31T12:00:00Z\
             &until=2026-02-01T00:00:00%2B01:00&q=x&cursor=c&limit=7",
        );
        let expected = TaskSearch {
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
        assert_eq!(parsed, Ok(expected));
        assert_eq!(search(""), Ok(TaskSearch { limit: PAGE, ..TaskSearch::default() }));
    }

    #[test]
    fn a_wrong_parameter_is_refused_by_name() {
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
            let message = search(query).unwrap_err();
            let name = query.split('=').next().unwrap();
            assert!(message.starts_with(&format!("{name}: ")), "{query}: {message}");
        }
    }
}
