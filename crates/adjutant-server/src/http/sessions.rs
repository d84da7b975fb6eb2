//! `/v1/sessions`: create, list, show, change, archive and delete.

use std::sync::Arc;

use adjutant_agent::{OnBudget, Permissions, TextLimits, WebhookEvent, usd};
use adjutant_store::{SessionDetails, SessionEntry};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::Shared;
use super::page::{Page, one_more};
use super::request::{NoArguments, OptionalJsonBody, PathParams, QueryParams};
use super::session_body::{NewSessionBody, parse_change, raise_of};
use crate::{Caller, Result, Scope};

const PAGE: i64 = 50;
const MAX_PAGE: i64 = 500;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/sessions", post(create).get(list))
        .route("/v1/sessions/{session}", get(show).patch(change).delete(remove))
        .route("/v1/sessions/{session}/archive", post(archive))
        .route("/v1/sessions/{session}/raise", post(raise))
}

/// A session
#[derive(Serialize, ToSchema)]
pub(super) struct Session {
    #[schema(example = "incident-42")]
    session_id: String,
    archived: bool,
    /// The keys of its shared context.
    key_count: i64,
    total_size_tokens: i64,
    /// The model of agents that name none; null: the server's default.
    model: Option<String>,
    #[schema(value_type = Object)]
    metadata: Value,
    /// The orchestrator's system prompt, for agents that inherit it.
    system_prompt: Option<String>,
    /// The names of the orchestrator's tools, for agents that inherit some of them.
    tools: Vec<String>,
    /// The names of the orchestrator's skills. An agent that inherits a tool of a skill gets the
    /// skill.
    skills: Vec<String>,
    /// Limits the tools of tasks that are spawned from now on; null: no limits.
    permissions: Option<SessionPermissions>,
    /// How many of its tasks may be queued or running at a time.
    max_active: i32,
    /// How many unfinished tasks it may have.
    max_queued: i32,
    max_input_tokens: Option<i64>,
    max_output_tokens: Option<i64>,
    max_cost_usd: Option<f64>,
    /// What a task does at a budget, if neither it nor the root of its tree says it; null: `fail`.
    #[schema(value_type = Option<String>)]
    on_budget: Option<OnBudget>,
    /// Spent so far by all its tasks.
    input_tokens: i64,
    output_tokens: i64,
    cost_usd: f64,
    #[serde(serialize_with = "adjutant_store::timestamp::serialize")]
    created_at: DateTime<Utc>,
    #[serde(serialize_with = "adjutant_store::timestamp::serialize_option")]
    archived_at: Option<DateTime<Utc>>,
    /// Receives the ends of its tasks.
    webhook: Option<SessionWebhook>,
    text_limits: SessionTextLimits,
}

/// The longest texts that this server takes, in tokens; a text of `n` tokens has at most 4n + 3
/// characters
#[derive(Serialize, ToSchema)]
pub(super) struct SessionTextLimits {
    /// Of an assignment.
    max_task_tokens: i64,
    /// Of a value of the shared context.
    max_value_tokens: i64,
    /// Of all values of the shared context together.
    max_store_tokens: i64,
    /// Of a system prompt.
    max_prompt_tokens: i64,
}

impl From<&TextLimits> for SessionTextLimits {
    fn from(limits: &TextLimits) -> Self {
        Self {
            max_task_tokens: limits.task,
            max_value_tokens: limits.value,
            max_store_tokens: limits.store,
            max_prompt_tokens: limits.prompt,
        }
    }
}

/// A webhook that receives the ends of tasks
#[derive(Serialize, ToSchema)]
pub(super) struct SessionWebhook {
    url: String,
    /// The ends that it receives.
    #[schema(value_type = Vec<String>)]
    events: Vec<WebhookEvent>,
    /// Set when the receiver answered 410 Gone; nothing is sent after that.
    #[serde(serialize_with = "adjutant_store::timestamp::serialize_option")]
    disabled_at: Option<DateTime<Utc>>,
}

impl From<adjutant_store::SessionWebhook> for SessionWebhook {
    fn from(hook: adjutant_store::SessionWebhook) -> Self {
        Self { url: hook.webhook.url, events: hook.webhook.events, disabled_at: hook.disabled_at }
    }
}

/// Patterns of tool names, in which `*` stands for any number of characters
#[derive(Serialize, ToSchema)]
pub(super) struct SessionPermissions {
    /// Only tools that match one of these; null: all tools.
    allow: Option<Vec<String>>,
    /// No tool that matches one of these.
    deny: Vec<String>,
}

impl From<Permissions> for SessionPermissions {
    fn from(permissions: Permissions) -> Self {
        Self { allow: permissions.allow, deny: permissions.deny }
    }
}

impl Session {
    pub(super) fn new(session: SessionDetails, limits: &TextLimits) -> Self {
        Self {
            session_id: session.name,
            archived: session.archived_at.is_some(),
            key_count: session.key_count,
            total_size_tokens: session.total_size_tokens,
            model: session.model,
            metadata: session.metadata,
            system_prompt: session.parent.system_prompt,
            tools: session.parent.tools,
            skills: session.parent.skills.into_iter().map(|skill| skill.name).collect(),
            permissions: session.permissions.map(Into::into),
            max_active: session.max_active,
            max_queued: session.max_queued,
            max_input_tokens: session.budget.max_input_tokens,
            max_output_tokens: session.budget.max_output_tokens,
            max_cost_usd: session.budget.max_cost_nanousd.and_then(usd),
            on_budget: session.on_budget,
            input_tokens: session.spent.input_tokens,
            output_tokens: session.spent.output_tokens,
            cost_usd: usd(session.spent.cost_nanousd).unwrap_or_default(),
            created_at: session.created_at,
            archived_at: session.archived_at,
            webhook: session.webhook.map(Into::into),
            text_limits: limits.into(),
        }
    }
}

/// A session in a list
#[derive(Serialize, ToSchema)]
pub(super) struct SessionListed {
    session_id: String,
    archived: bool,
    key_count: i64,
    total_size_tokens: i64,
}

impl From<SessionEntry> for SessionListed {
    fn from(entry: SessionEntry) -> Self {
        Self {
            session_id: entry.name,
            archived: entry.archived,
            key_count: entry.key_count,
            total_size_tokens: entry.total_size_tokens,
        }
    }
}

#[derive(Serialize, ToSchema)]
pub(super) struct Sessions {
    sessions: Vec<SessionListed>,
    /// The cursor of the next page; null at the end.
    next_cursor: Option<String>,
}

/// Create a session
///
/// All fields are optional: the id is generated, and the limits are the server's.
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", responses((status = 201, description = "The session.", body = Session)))]
pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    parameters: QueryParams,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Result<(StatusCode, Json<Session>)> {
    caller.require(&[Scope::Delegate])?;
    parameters.end()?;
    let new = NewSessionBody::parse(&body, &shared.service.policy, &caller.grants)?;
    let new = new.into_session(&caller)?;
    let store = &shared.service.store_of(&caller);
    shared.service.context(store).refuse_unknown_tools(&new.parent.tools).await?;
    if new.webhook.is_some() {
        store.check_webhook_secret(&caller.tenant).await?;
    }
    let created = store.create_session(&new).await?;
    let session = store.session_details(&caller.tenant, &created.name).await?;
    Ok((StatusCode::CREATED, Json(Session::new(session, shared.service.texts()))))
}

/// List the sessions, by name
#[utoipa::path(
    get, path = "/v1/sessions", tag = "sessions",
    params(
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.", min_length = 1),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses((status = 200, description = "A page of sessions.", body = Sessions))
)]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    mut parameters: QueryParams,
) -> Result<Json<Sessions>> {
    caller.require(&[Scope::Delegate, Scope::Read])?;
    let after = parameters.text("cursor")?;
    let limit = parameters.limit(PAGE, MAX_PAGE)?;
    parameters.end()?;
    let found = shared
        .reads
        .begin(&caller)?
        .sessions(&caller.tenant, after.as_deref(), one_more(limit))
        .await?;
    let page = Page::of(found, limit, |last| last.name.clone());
    let sessions = page.entries.into_iter().map(Into::into).collect();
    Ok(Json(Sessions { sessions, next_cursor: page.next_cursor }))
}

/// Show a session
#[utoipa::path(
    get, path = "/v1/sessions/{session}", tag = "sessions",
    params(("session" = String, Path, description = "Its `session_id`.")),
    responses((status = 200, description = "The session.", body = Session))
)]
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    parameters: QueryParams,
) -> Result<Json<Session>> {
    caller.require(&[Scope::Delegate, Scope::Read])?;
    parameters.end()?;
    let session = shared.service.store.session_details(&caller.tenant, path.get("session")).await?;
    Ok(Json(Session::new(session, shared.service.texts())))
}

/// Change a session
///
/// Absent fields stay as they are, and null clears a field. A change affects tasks that are spawned
/// later; existing tasks keep their configuration.
#[utoipa::path(
    patch, path = "/v1/sessions/{session}", tag = "sessions",
    params(("session" = String, Path, description = "Its `session_id`.")),
    responses((status = 200, description = "The session.", body = Session))
)]
pub(super) async fn change(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    parameters: QueryParams,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Result<Json<Session>> {
    caller.require(&[Scope::Delegate])?;
    parameters.end()?;
    let change = parse_change(&body, &shared.service.policy, &caller.grants)?;
    let (store, name) = (&shared.service.store_of(&caller), path.get("session"));
    let tools = change.tools.as_deref().unwrap_or_default();
    shared.service.context(store).refuse_unknown_tools(tools).await?;
    store.change_session(&caller.tenant, name, &change).await?;
    let session = store.session_details(&caller.tenant, name).await?;
    Ok(Json(Session::new(session, shared.service.texts())))
}

/// Archive a session
///
/// It stays readable; new tasks, agents and writes to the shared context are refused. Idempotent.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/archive", tag = "sessions",
    params(("session" = String, Path, description = "Its `session_id`.")),
    responses((status = 200, description = "The session.", body = Session))
)]
pub(super) async fn archive(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    _: NoArguments,
) -> Result<Json<Session>> {
    caller.require(&[Scope::Delegate])?;
    let store = &shared.service.store_of(&caller);
    let session = store.session(&caller.tenant, path.get("session")).await?;
    store.archive_session(session.id).await?;
    let session = store.session_details(&caller.tenant, &session.name).await?;
    Ok(Json(Session::new(session, shared.service.texts())))
}

/// Raise the budget of a session
///
/// Only limits that it has, to more than its tasks have used. Tasks that wait for it go on.
/// Idempotent.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/raise", tag = "sessions",
    params(("session" = String, Path, description = "Its `session_id`.")),
    responses((status = 200, description = "The session.", body = Session))
)]
pub(super) async fn raise(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    parameters: QueryParams,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Result<Json<Session>> {
    caller.require(&[Scope::Delegate])?;
    parameters.end()?;
    let (store, name) = (&shared.service.store_of(&caller), path.get("session"));
    store.raise_session(&caller.tenant, name, &raise_of(&body)?).await?;
    let session = store.session_details(&caller.tenant, name).await?;
    Ok(Json(Session::new(session, shared.service.texts())))
}

/// Delete a session
///
/// It is gone for every caller at once, and its running tasks stop. The id can then be used again.
/// Its data is deleted in the background.
#[utoipa::path(
    delete, path = "/v1/sessions/{session}", tag = "sessions",
    params(("session" = String, Path, description = "Its `session_id`.")),
    responses((status = 204, description = "It was deleted."))
)]
pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    parameters: QueryParams,
) -> Result<StatusCode> {
    caller.require(&[Scope::Delegate])?;
    parameters.end()?;
    let store = &shared.service.store_of(&caller);
    let session = store.session(&caller.tenant, path.get("session")).await?;
    store.delete_session(session.id).await?;
    Ok(StatusCode::NO_CONTENT)
}
