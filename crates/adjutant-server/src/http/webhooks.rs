//! Webhooks: the webhook of a session, the signing secrets of a tenant, and deliveries.

use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{DeliveryState, ErrorCode, Fields, Refusal, text_in};
use adjutant_store::{DeliveryFilter, DeliveryRecord, SecretFrom, WebhookSecret};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::Shared;
use super::page::{Page, one_more};
use super::request::{JsonBody, NoArguments, OptionalJsonBody, PathParams, QueryParams};
use super::sessions::Session;
use crate::{Caller, Result, Scope};

const PAGE: i64 = 50;
const MAX_PAGE: i64 = 500;

/// How many seconds the previous secret stays valid by default.
const OVERLAP_S: f64 = 86_400.0;
/// The longest overlap.
const LONGEST_OVERLAP_S: f64 = 30.0 * 86_400.0;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/sessions/{session}/webhook", put(set).delete(unset))
        .route("/v1/webhooks/secrets", post(rotate).get(secrets))
        .route("/v1/webhooks/secrets/{id}", delete(revoke))
        .route("/v1/webhooks/deliveries", get(list))
        .route("/v1/webhooks/deliveries/{id}/redeliver", post(redeliver))
}

/// Set the webhook of a session
///
/// It receives the ends of tasks from now on, also after the previous webhook was disabled. A task
/// with a webhook of its own notifies only that one.
#[utoipa::path(
    put, path = "/v1/sessions/{session}/webhook", tag = "webhooks",
    params(("session" = String, Path, description = "Its `session_id`.")),
    responses((status = 200, description = "The session.", body = Session))
)]
pub(super) async fn set(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    parameters: QueryParams,
    JsonBody(body): JsonBody,
) -> Result<Json<Session>> {
    caller.require(&[Scope::Delegate])?;
    parameters.end()?;
    let webhook = shared.service.policy.webhook(&body, "webhook")?;
    let (store, tenant, session) = (&shared.service.store, &caller.tenant, path.get("session"));
    store.check_webhook_secret(tenant).await?;
    store.set_session_webhook(tenant, session, Some(&webhook)).await?;
    let session = store.session_details(tenant, session).await?;
    Ok(Json(Session::new(session, shared.service.texts())))
}

/// Remove the webhook of a session
///
/// Pending deliveries are still sent.
#[utoipa::path(
    delete, path = "/v1/sessions/{session}/webhook", tag = "webhooks",
    params(("session" = String, Path, description = "Its `session_id`.")),
    responses((status = 204, description = "It was removed."))
)]
pub(super) async fn unset(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    parameters: QueryParams,
) -> Result<StatusCode> {
    caller.require(&[Scope::Delegate])?;
    parameters.end()?;
    shared.service.store.set_session_webhook(&caller.tenant, path.get("session"), None).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Create a new secret to sign webhooks with
///
/// The previous secret stays valid for `overlap_s` seconds: until then every delivery has a
/// signature by each. A generated secret is in this answer and never shown again; one that you give
/// is not shown.
#[utoipa::path(
    post, path = "/v1/webhooks/secrets", tag = "webhooks",
    responses((status = 201, description = "The secret.", body = RotatedSecret))
)]
pub(super) async fn rotate(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    parameters: QueryParams,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Result<(StatusCode, Json<RotatedSecret>)> {
    caller.require(&[Scope::Admin])?;
    parameters.end()?;
    let body = NewWebhookSecret::parse(&body)?;
    let from = body.secret.as_deref().map_or(SecretFrom::Random, SecretFrom::Given);
    let overlap = Duration::try_from_secs_f64(body.overlap_s).unwrap_or_default();
    let (about, secret) = shared
        .service
        .store_of(&caller)
        .rotate_webhook_secret(&caller.tenant, from, overlap)
        .await?;
    Ok((StatusCode::CREATED, Json(RotatedSecret { about, secret })))
}

/// A new secret
#[derive(Serialize, ToSchema)]
pub(super) struct RotatedSecret {
    #[serde(flatten)]
    about: WebhookSecret,
    /// The secret itself, unless you gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    secret: Option<String>,
}

/// The body of a request for a new secret
#[derive(Debug, PartialEq, ToSchema)]
pub(super) struct NewWebhookSecret {
    /// 24 to 64 bytes of your own, in base64; generated if you give none.
    #[schema(pattern = "^whsec_([A-Za-z0-9+/]{4}){8,21}$")]
    secret: Option<String>,
    /// How many seconds the previous secret stays valid; a day if you give none.
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 2592000)]
    overlap_s: f64,
}

impl NewWebhookSecret {
    fn parse(body: &Value) -> Result<Self, Refusal> {
        let mut fields =
            Fields::of(body).map_err(|_| Refusal::invalid("body", "must be an object"))?;
        let secret = fields.take("secret").map(|secret| text_in("secret", secret)).transpose()?;
        let overlap_s = fields.take("overlap_s").map_or(Some(OVERLAP_S), Value::as_f64);
        let overlap_s = overlap_s.filter(|seconds| (0.0..=LONGEST_OVERLAP_S).contains(seconds));
        let overlap_s = overlap_s.ok_or_else(|| {
            let range = format_args!("must be from 0 to {LONGEST_OVERLAP_S} seconds");
            Refusal::invalid("overlap_s", range)
        })?;
        fields.end()?;
        Ok(Self { secret: secret.map(str::to_owned), overlap_s })
    }
}

/// List the valid secrets, the newest first, without the secrets themselves
#[utoipa::path(
    get, path = "/v1/webhooks/secrets", tag = "webhooks",
    responses((status = 200, description = "The secrets.", body = WebhookSecrets))
)]
pub(super) async fn secrets(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    parameters: QueryParams,
) -> Result<Json<WebhookSecrets>> {
    caller.require(&[Scope::Read])?;
    parameters.end()?;
    let secrets = shared.service.store.webhook_secrets(&caller.tenant).await?;
    Ok(Json(WebhookSecrets { secrets }))
}

#[derive(Serialize, ToSchema)]
pub(super) struct WebhookSecrets {
    secrets: Vec<WebhookSecret>,
}

/// Revoke a secret
///
/// Without any secret, deliveries wait until there is one.
#[utoipa::path(
    delete, path = "/v1/webhooks/secrets/{id}", tag = "webhooks",
    params(("id" = String, Path, description = "Its `id`, a UUID.")),
    responses((status = 204, description = "It was revoked."))
)]
pub(super) async fn revoke(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    parameters: QueryParams,
) -> Result<StatusCode> {
    caller.require(&[Scope::Admin])?;
    parameters.end()?;
    let id = id(&path, ErrorCode::WebhookSecretNotFound, "Webhook secret")?;
    shared.service.store_of(&caller).revoke_webhook_secret(&caller.tenant, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The id in the path. A text that is not a UUID is an unknown id.
fn id(path: &PathParams, code: ErrorCode, kind: &str) -> Result<Uuid, Refusal> {
    let text = path.get("id");
    text.parse().map_err(|_| Refusal::new(code, format!("{kind} not found: {text}")))
}

/// List deliveries, the newest first
#[utoipa::path(
    get, path = "/v1/webhooks/deliveries", tag = "webhooks",
    params(
        ("state" = Option<String>, Query, description = "Their state."),
        ("session" = Option<String>, Query, min_length = 1),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.", min_length = 1),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses((status = 200, description = "A page of deliveries.", body = DeliveryPage))
)]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    mut parameters: QueryParams,
) -> Result<Json<DeliveryPage>> {
    caller.require(&[Scope::Read])?;
    let state: Option<DeliveryState> = parameters.word("state", DeliveryState::ALL)?;
    let filter = DeliveryFilter {
        tenant: caller.tenant.clone(),
        state: state.map(|state| state.to_string()),
        session: parameters.text("session")?,
        before: parameters.parsed("cursor", "the next_cursor of a page")?,
        ..DeliveryFilter::default()
    };
    let limit = parameters.limit(PAGE, MAX_PAGE)?;
    parameters.end()?;
    let found = shared.reads.begin(&caller)?.deliveries(&filter, one_more(limit)).await?;
    let page = Page::of(found, limit, |last| last.id);
    Ok(Json(DeliveryPage { deliveries: page.entries, next_cursor: page.next_cursor }))
}

#[derive(Serialize, ToSchema)]
pub(super) struct DeliveryPage {
    deliveries: Vec<DeliveryRecord>,
    /// The cursor of the next page; null at the end.
    next_cursor: Option<Uuid>,
}

/// Send a delivery again
///
/// At once, with the retries of a new delivery, under the same id.
#[utoipa::path(
    post, path = "/v1/webhooks/deliveries/{id}/redeliver", tag = "webhooks",
    params(("id" = String, Path, description = "Its `id`, a UUID.")),
    responses((status = 200, description = "The delivery as it is now.", body = DeliveryRecord))
)]
pub(super) async fn redeliver(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    _: NoArguments,
) -> Result<Json<DeliveryRecord>> {
    caller.require(&[Scope::Delegate])?;
    let id = id(&path, ErrorCode::DeliveryNotFound, "Delivery")?;
    Ok(Json(shared.service.store.redeliver(&caller.tenant, id).await?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_new_secret_is_generated_or_given() {
        let generated = NewWebhookSecret { secret: None, overlap_s: 86_400.0 };
        assert_eq!(NewWebhookSecret::parse(&json!({})), Ok(generated));
        let given = NewWebhookSecret { secret: Some("whsec_x".to_owned()), overlap_s: 0.0 };
        let body = json!({"secret": "whsec_x", "overlap_s": 0, "colour": null});
        assert_eq!(NewWebhookSecret::parse(&body), Ok(given));
        for (body, field) in [
            (json!([]), "body"),
            (json!({"secret": 1}), "secret"),
            (json!({"overlap_s": -1}), "overlap_s"),
            (json!({"overlap_s": "1"}), "overlap_s"),
            (json!({"overlap_s": 1e300}), "overlap_s"),
            (json!({"overlap_s": true}), "overlap_s"),
            (json!({"tenant": "other"}), "tenant"),
        ] {
            let refusal = NewWebhookSecret::parse(&body).unwrap_err();
            assert!(refusal.message.starts_with(&format!("{field}: ")), "{body}: {refusal}");
        }
    }
}
