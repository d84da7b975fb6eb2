use std::sync::Arc;

use adjutant_agent::{Budget, Fields, Refusal, WebhookEvent, nanousd, whole_in};
use adjutant_store::{NewSession, SessionDetails, SessionEntry};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use super::Shared;
use super::request::{Options, Parameters, PathOnly, Place};
use crate::{Caller, Policy, Result, Scope};

const PAGE: i64 = 50;
const MAX_PAGE: i64 = 500;

/// Of what its maker wants to find again, as JSON.
const MAX_METADATA_BYTES: usize = 16 << 10;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/sessions", post(create).get(list))
        .route("/v1/sessions/{session}", get(show).delete(remove))
        .route("/v1/sessions/{session}/archive", post(archive))
}

/// A session: what one orchestrator works in
#[derive(Serialize, ToSchema)]
pub(super) struct Session {
    #[schema(example = "incident-42")]
    session_id: String,
    archived: bool,
    /// The keys of its shared context.
    key_count: i64,
    total_size_tokens: i64,
    /// What agents without a model use; null: the server's default.
    model: Option<String>,
    #[schema(value_type = Object)]
    metadata: Value,
    /// How many of its tasks may run or be next to run.
    max_active: i32,
    /// How many unfinished tasks it may have.
    max_queued: i32,
    max_input_tokens: Option<i64>,
    max_output_tokens: Option<i64>,
    max_cost_usd: Option<f64>,
    /// Spent so far by all its tasks.
    input_tokens: i64,
    output_tokens: i64,
    cost_usd: f64,
    #[serde(serialize_with = "adjutant_store::moment::serialize")]
    created_at: DateTime<Utc>,
    #[serde(serialize_with = "adjutant_store::moment::serialize_if_any")]
    archived_at: Option<DateTime<Utc>>,
    /// Who is told how its tasks end.
    webhook: Option<SessionWebhook>,
}

/// Who is told how tasks end
#[derive(Serialize, ToSchema)]
pub(super) struct SessionWebhook {
    url: String,
    /// Which ends.
    #[schema(value_type = Vec<String>)]
    events: Vec<WebhookEvent>,
    /// Since when nothing is sent: the receiver said that it is gone.
    #[serde(serialize_with = "adjutant_store::moment::serialize_if_any")]
    disabled_at: Option<DateTime<Utc>>,
}

impl From<adjutant_store::SessionWebhook> for SessionWebhook {
    fn from(hook: adjutant_store::SessionWebhook) -> Self {
        Self { url: hook.webhook.url, events: hook.webhook.events, disabled_at: hook.disabled_at }
    }
}

impl From<SessionDetails> for Session {
    fn from(session: SessionDetails) -> Self {
        Self {
            session_id: session.name,
            archived: session.archived_at.is_some(),
            key_count: session.key_count,
            total_size_tokens: session.total_size_tokens,
            model: session.model,
            metadata: session.metadata,
            max_active: session.max_active,
            max_queued: session.max_queued,
            max_input_tokens: session.budget.max_input_tokens,
            max_output_tokens: session.budget.max_output_tokens,
            max_cost_usd: session.budget.max_cost_nanousd.map(usd),
            input_tokens: session.spent.input_tokens,
            output_tokens: session.spent.output_tokens,
            cost_usd: usd(session.spent.cost_nanousd),
            created_at: session.created_at,
            archived_at: session.archived_at,
            webhook: session.webhook.map(Into::into),
        }
    }
}

fn usd(nanousd: i64) -> f64 {
    nanousd as f64 / 1e9
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
    /// Gets what follows; null at the end.
    next_cursor: Option<String>,
}

/// Create a session
///
/// All fields may be left out; then it gets an id, and the server's limits.
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", responses((status = 201, description = "The session.", body = Session)))]
pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    parameters: Parameters,
    Options(body): Options,
) -> Result<(StatusCode, Json<Session>)> {
    caller.needs(&[Scope::Delegate])?;
    parameters.end()?;
    let new = read(&body, &shared.desk.policy, &caller)?;
    let store = &shared.desk.store;
    if new.webhook.is_some() {
        store.check_webhook_secret(&caller.tenant).await?;
    }
    let made = store.create_session(&new).await?;
    let session = store.session_details(&caller.tenant, &made.name).await?;
    Ok((StatusCode::CREATED, Json(session.into())))
}

fn read(body: &Value, policy: &Policy, caller: &Caller) -> Result<NewSession, Refusal> {
    let mut fields = Fields::of(body).map_err(|_| Refusal::invalid("body", "must be an object"))?;
    let name = match fields.take("session_id") {
        Some(name) => adjutant_agent::text_in("session_id", name)?.to_owned(),
        None => Uuid::now_v7().to_string(),
    };
    let model = match fields.take("model") {
        Some(model) => Some(policy.model(filled("model", model)?)?.to_owned()),
        None => None,
    };
    let new = NewSession {
        tenant: caller.tenant.clone(),
        name,
        model,
        max_active: Some(at_most(&mut fields, "max_active", policy.sessions.max_active)?),
        max_queued: Some(at_most(&mut fields, "max_queued", policy.sessions.max_queued)?),
        budget: Budget {
            max_input_tokens: tokens(&mut fields, "max_input_tokens")?,
            max_output_tokens: tokens(&mut fields, "max_output_tokens")?,
            max_cost_nanousd: money(&mut fields, "max_cost_usd")?,
        },
        metadata: metadata(&mut fields)?,
        webhook: fields.take("webhook").map(|value| policy.webhook(value, "webhook")).transpose()?,
    };
    fields.end()?;
    Ok(new)
}

fn filled<'a>(name: &str, value: &'a Value) -> Result<&'a str, Refusal> {
    let text = adjutant_agent::text_in(name, value)?;
    if text.trim().is_empty() { Err(Refusal::invalid(name, "must not be empty")) } else { Ok(text) }
}

/// What a session may lower, and has if it says nothing.
fn at_most(fields: &mut Fields<'_>, name: &str, most: i32) -> Result<i32, Refusal> {
    let Some(value) = fields.take(name) else { return Ok(most) };
    let wanted = whole_in(value).and_then(|wanted| i32::try_from(wanted).ok());
    wanted
        .filter(|wanted| (1..=most).contains(wanted))
        .ok_or_else(|| Refusal::invalid(name, format_args!("must be a whole number from 1 to {most}")))
}

fn tokens(fields: &mut Fields<'_>, name: &str) -> Result<Option<i64>, Refusal> {
    let Some(value) = fields.take(name) else { return Ok(None) };
    let wanted = whole_in(value).filter(|wanted| *wanted >= 0);
    wanted.map(Some).ok_or_else(|| Refusal::invalid(name, "must be a whole number that is not negative"))
}

fn money(fields: &mut Fields<'_>, name: &str) -> Result<Option<i64>, Refusal> {
    let Some(value) = fields.take(name) else { return Ok(None) };
    let usd = value.as_f64().ok_or_else(|| Refusal::invalid(name, "must be a number of US dollars"))?;
    nanousd(name, usd).map(Some)
}

fn metadata(fields: &mut Fields<'_>) -> Result<Map<String, Value>, Refusal> {
    let Some(value) = fields.take("metadata") else { return Ok(Map::new()) };
    let map = value.as_object().ok_or_else(|| Refusal::invalid("metadata", "must be an object"))?;
    if value.to_string().len() > MAX_METADATA_BYTES {
        return Err(Refusal::invalid(
            "metadata",
            format_args!("must have at most {MAX_METADATA_BYTES} bytes as JSON"),
        ));
    }
    Ok(map.clone())
}

/// List the sessions, by name
#[utoipa::path(
    get, path = "/v1/sessions", tag = "sessions",
    params(
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.", min_length = 1),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses((status = 200, description = "A page of them.", body = Sessions))
)]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    mut parameters: Parameters,
) -> Result<Json<Sessions>> {
    caller.needs(&[Scope::Delegate, Scope::Read])?;
    let after = parameters.text("cursor")?;
    let limit = parameters.limit(PAGE, MAX_PAGE)?;
    parameters.end()?;
    // One more than wanted tells whether there are more.
    let mut entries = shared.desk.store.sessions(&caller.tenant, after.as_deref(), limit + 1).await?;
    let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = entries.len() > wanted;
    entries.truncate(wanted);
    let next_cursor = entries.last().filter(|_| more).map(|entry| entry.name.clone());
    Ok(Json(Sessions { sessions: entries.into_iter().map(Into::into).collect(), next_cursor }))
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
    place: Place,
    parameters: Parameters,
) -> Result<Json<Session>> {
    caller.needs(&[Scope::Delegate, Scope::Read])?;
    parameters.end()?;
    let session = shared.desk.store.session_details(&caller.tenant, place.get("session")).await?;
    Ok(Json(session.into()))
}

/// Archive a session
///
/// What it has stays readable; new tasks, agents and context writes are refused. Archiving twice is archiving once.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/archive", tag = "sessions",
    params(("session" = String, Path, description = "Its `session_id`.")),
    responses((status = 200, description = "The session.", body = Session))
)]
pub(super) async fn archive(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    place: Place,
    _: PathOnly,
) -> Result<Json<Session>> {
    caller.needs(&[Scope::Delegate])?;
    let store = &shared.desk.store;
    let session = store.session(&caller.tenant, place.get("session")).await?;
    store.archive_session(session.id).await?;
    Ok(Json(store.session_details(&caller.tenant, &session.name).await?.into()))
}

/// Delete a session
///
/// Cancels what is unfinished, and removes everything of it. Its id may then be used again.
#[utoipa::path(
    delete, path = "/v1/sessions/{session}", tag = "sessions",
    params(("session" = String, Path, description = "Its `session_id`.")),
    responses((status = 204, description = "It is gone."))
)]
pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    place: Place,
    parameters: Parameters,
) -> Result<StatusCode> {
    caller.needs(&[Scope::Delegate])?;
    parameters.end()?;
    let store = &shared.desk.store;
    let session = store.session(&caller.tenant, place.get("session")).await?;
    store.delete_session(session.id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use adjutant_agent::ErrorCode;
    use serde_json::json;

    use super::*;

    fn new(body: Value) -> Result<NewSession, Refusal> {
        let policy = Policy {
            models: vec!["main".to_owned()],
            model_aliases: [("sonnet".to_owned(), "main".to_owned())].into(),
            ..Policy::default()
        };
        read(&body, &policy, &Caller { tenant: "t".to_owned(), scopes: Vec::new() })
    }

    #[test]
    fn a_session_that_says_nothing_has_an_id_and_the_servers_limits() {
        let session = new(json!({"model": null, "nonsense": null})).unwrap();
        assert_eq!((session.tenant.as_str(), session.name.len()), ("t", 36));
        assert_eq!((session.max_active, session.max_queued), (Some(5), Some(1000)));
        assert_eq!((session.model, session.budget), (None, Budget::default()));
        assert_ne!(session.name, new(json!({})).unwrap().name);
    }

    #[test]
    fn a_session_is_what_it_says() {
        let session = new(json!({
            "session_id": "é/1", "model": "sonnet", "metadata": {"ticket": [42]}, "max_active": 2, "max_queued": 3,
            "max_input_tokens": 10, "max_output_tokens": 0, "max_cost_usd": 0.25,
        }))
        .unwrap();
        assert_eq!(session.name, "é/1");
        assert_eq!(session.model.as_deref(), Some("main"));
        assert_eq!(Value::Object(session.metadata), json!({"ticket": [42]}));
        assert_eq!((session.max_active, session.max_queued), (Some(2), Some(3)));
        let budget = Budget {
            max_input_tokens: Some(10),
            max_output_tokens: Some(0),
            max_cost_nanousd: Some(250_000_000),
        };
        assert_eq!(session.budget, budget);
    }

    #[test]
    fn what_is_wrong_is_refused_by_its_name() {
        for (body, field) in [
            (json!([]), "body"),
            (json!("text"), "body"),
            (json!({"session_id": 1}), "session_id"),
            (json!({"model": 1}), "model"),
            (json!({"model": " "}), "model"),
            (json!({"max_active": 0}), "max_active"),
            (json!({"max_active": 6}), "max_active"),
            (json!({"max_active": "2"}), "max_active"),
            (json!({"max_active": 1.5}), "max_active"),
            (json!({"max_queued": 1001}), "max_queued"),
            (json!({"max_input_tokens": -1}), "max_input_tokens"),
            (json!({"max_output_tokens": 1.5}), "max_output_tokens"),
            (json!({"max_cost_usd": -0.01}), "max_cost_usd"),
            (json!({"max_cost_usd": 9_000_000_000.5}), "max_cost_usd"),
            (json!({"max_cost_usd": -1e-300}), "max_cost_usd"),
            (json!({"max_cost_usd": 1e300}), "max_cost_usd"),
            (json!({"max_cost_usd": "1"}), "max_cost_usd"),
            (json!({"metadata": []}), "metadata"),
            (json!({"metadata": {"long": "x".repeat(MAX_METADATA_BYTES)}}), "metadata"),
            (json!({"webhook": "https://example.com"}), "webhook"),
            (json!({"webhook": {"url": "http://example.com"}}), "webhook.url"),
            (json!({"webhook": {"url": "https://[::1]/"}}), "webhook.url"),
            (json!({"webhook": {"url": "https://example.com", "events": ["x"]}}), "webhook.events[0]"),
            (json!({"colour": "red"}), "colour"),
        ] {
            let refusal = new(body.clone()).unwrap_err();
            assert_eq!(refusal.code, ErrorCode::InvalidArgument, "{body}");
            assert!(refusal.message.starts_with(&format!("{field}: ")), "{body}: {refusal}");
        }
        assert_eq!(new(json!({"model": "gpt"})).unwrap_err().code, ErrorCode::InvalidModel);
    }
}
