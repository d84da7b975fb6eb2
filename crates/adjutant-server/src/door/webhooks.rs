//! Webhooks: whom a session tells, what they are signed with, and what became of deliveries.

use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{ErrorCode, Fields, Refusal, Webhook, text_in};
use adjutant_store::{DeliveryFilter, DeliveryRecord, SecretFrom};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use serde_json::{Value, json};
use uuid::Uuid;

use super::page::{Page, one_more};
use super::request::{Arguments, Options, Parameters, PathOnly, Place};
use super::sessions::Session;
use super::{Shared, json as to_json};
use crate::{Caller, Policy, Result, Scope};

const PAGE: i64 = 50;
const MAX_PAGE: i64 = 500;

/// How long the secret before is good beside a new one, in seconds.
const OVERLAP_S: f64 = 86_400.0;
/// And the longest that it may be.
pub(super) const LONGEST_OVERLAP_S: f64 = 30.0 * 86_400.0;

pub(super) const STATES: [&str; 3] = ["pending", "delivered", "failed"];

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/sessions/{session}/webhook", put(set).delete(unset))
        .route("/v1/webhooks/secrets", post(rotate).get(secrets))
        .route("/v1/webhooks/secrets/{id}", delete(revoke))
        .route("/v1/webhooks/deliveries", get(list))
        .route("/v1/webhooks/deliveries/{id}/redeliver", post(redeliver))
}

impl Policy {
    /// The webhook in a field of a request, if it may be told anything.
    pub(super) fn webhook(&self, value: &Value, field: &str) -> Result<Webhook, Refusal> {
        let webhook = Webhook::read(field, value)?;
        webhook.check(field, self.webhooks)?;
        Ok(webhook)
    }
}

/// Change whom a session tells how its tasks end
///
/// From the next end on, and also after the receiver before it has said that it is gone. A task that has a webhook of its own
/// tells that one instead.
#[utoipa::path(
    put, path = "/v1/sessions/{session}/webhook", tag = "webhooks",
    params(("session" = String, Path, description = "Its `session_id`.")),
    responses((status = 200, description = "The session.", body = Session))
)]
pub(super) async fn set(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    place: Place,
    parameters: Parameters,
    Arguments(body): Arguments,
) -> Result<Json<Session>> {
    caller.needs(&[Scope::Delegate])?;
    parameters.end()?;
    let webhook = shared.desk.policy.webhook(&body, "webhook")?;
    let (store, tenant, session) = (&shared.desk.store, &caller.tenant, place.get("session"));
    store.check_webhook_secret(tenant).await?;
    store.set_session_webhook(tenant, session, Some(&webhook)).await?;
    Ok(Json(store.session_details(tenant, session).await?.into()))
}

/// Let a session tell nobody how its tasks end
///
/// What was to be told before is still sent.
#[utoipa::path(
    delete, path = "/v1/sessions/{session}/webhook", tag = "webhooks",
    params(("session" = String, Path, description = "Its `session_id`.")),
    responses((status = 204, description = "It has none."))
)]
pub(super) async fn unset(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    place: Place,
    parameters: Parameters,
) -> Result<StatusCode> {
    caller.needs(&[Scope::Delegate])?;
    parameters.end()?;
    shared.desk.store.set_session_webhook(&caller.tenant, place.get("session"), None).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give the tenant a new secret to sign webhooks with
///
/// The one before it is good for `overlap_s` longer: until then every delivery has a signature by each. A secret that is made here is in
/// this answer and never shown again; one that you give is not shown at all.
#[utoipa::path(
    post, path = "/v1/webhooks/secrets", tag = "webhooks",
    responses((status = 201, description = "The secret.", body = Object))
)]
pub(super) async fn rotate(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    parameters: Parameters,
    Options(body): Options,
) -> Result<(StatusCode, Json<Value>)> {
    caller.needs(&[Scope::Admin])?;
    parameters.end()?;
    let (from, overlap) = rotation(&body)?;
    let (secret, made) = shared.desk.store.rotate_webhook_secret(&caller.tenant, from, overlap).await?;
    let Json(mut answer) = to_json(&secret)?;
    if let Some(made) = made {
        answer["secret"] = json!(made);
    }
    Ok((StatusCode::CREATED, Json(answer)))
}

fn rotation(body: &Value) -> Result<(SecretFrom<'_>, Duration), Refusal> {
    let mut fields = Fields::of(body).map_err(|_| Refusal::invalid("body", "must be an object"))?;
    let from = match fields.take("secret") {
        Some(secret) => SecretFrom::Owner(text_in("secret", secret)?),
        None => SecretFrom::Chance,
    };
    let overlap = fields.take("overlap_s").map_or(Some(OVERLAP_S), Value::as_f64);
    let overlap = overlap.filter(|seconds| (0.0..=LONGEST_OVERLAP_S).contains(seconds)).ok_or_else(|| {
        Refusal::invalid("overlap_s", format_args!("must be from 0 to {LONGEST_OVERLAP_S} seconds"))
    })?;
    fields.end()?;
    Ok((from, Duration::try_from_secs_f64(overlap).unwrap_or_default()))
}

/// List the secrets that webhooks are signed with now, the newest first, without the secrets themselves
#[utoipa::path(
    get, path = "/v1/webhooks/secrets", tag = "webhooks",
    responses((status = 200, description = "`secrets`.", body = Object))
)]
pub(super) async fn secrets(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Json<Value>> {
    caller.needs(&[Scope::Read])?;
    parameters.end()?;
    let secrets = shared.desk.store.webhook_secrets(&caller.tenant).await?;
    to_json(&json!({ "secrets": secrets }))
}

/// Make a secret worthless at once
///
/// For one that others have learned. Without any, deliveries wait until there is one.
#[utoipa::path(
    delete, path = "/v1/webhooks/secrets/{id}", tag = "webhooks",
    params(("id" = String, Path, description = "Its `id`, a UUID.")),
    responses((status = 204, description = "It is gone."))
)]
pub(super) async fn revoke(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    place: Place,
    parameters: Parameters,
) -> Result<StatusCode> {
    caller.needs(&[Scope::Admin])?;
    parameters.end()?;
    let id = id(&place, ErrorCode::WebhookSecretNotFound, "Webhook secret")?;
    shared.desk.store.revoke_webhook_secret(&caller.tenant, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What is not an id is nothing's.
fn id(place: &Place, code: ErrorCode, what: &str) -> Result<Uuid, Refusal> {
    let text = place.get("id");
    text.parse().map_err(|_| Refusal::new(code, format!("{what} not found: {text}")))
}

/// List deliveries, the newest first
#[utoipa::path(
    get, path = "/v1/webhooks/deliveries", tag = "webhooks",
    params(
        ("state" = Option<String>, Query, description = "How they stand."),
        ("session" = Option<String>, Query, min_length = 1),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.", min_length = 1),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses((status = 200, description = "`deliveries` and `next_cursor`.", body = Object))
)]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    mut parameters: Parameters,
) -> Result<Json<Value>> {
    caller.needs(&[Scope::Read])?;
    let state = parameters.text("state")?;
    if state.as_ref().is_some_and(|state| !STATES.contains(&state.as_str())) {
        return Err(Refusal::invalid("state", format_args!("must be one of {}", STATES.join(", "))).into());
    }
    let wanted = DeliveryFilter {
        tenant: caller.tenant,
        state,
        session: parameters.text("session")?,
        before: parameters.parsed("cursor", "the next_cursor of a page")?,
        ..DeliveryFilter::default()
    };
    let limit = parameters.limit(PAGE, MAX_PAGE)?;
    parameters.end()?;
    let found = shared.desk.store.deliveries(&wanted, one_more(limit)).await?;
    let page = Page::of(found, limit, |last| last.id);
    to_json(&json!({ "deliveries": page.entries, "next_cursor": page.next_cursor }))
}

/// Send a delivery once more
///
/// At once, and as often as a new one if need be, under the same id.
#[utoipa::path(
    post, path = "/v1/webhooks/deliveries/{id}/redeliver", tag = "webhooks",
    params(("id" = String, Path, description = "Its `id`, a UUID.")),
    responses((status = 200, description = "The delivery, as it is now.", body = Object))
)]
pub(super) async fn redeliver(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    place: Place,
    _: PathOnly,
) -> Result<Json<Value>> {
    caller.needs(&[Scope::Delegate])?;
    let id = id(&place, ErrorCode::DeliveryNotFound, "Delivery")?;
    let delivery: DeliveryRecord = shared.desk.store.redeliver(&caller.tenant, id).await?;
    to_json(&delivery)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_says_what_it_wants_or_nothing() {
        assert_eq!(rotation(&json!({})), Ok((SecretFrom::Chance, Duration::from_secs(86_400))));
        assert_eq!(
            rotation(&json!({"secret": "whsec_x", "overlap_s": 0, "colour": null})),
            Ok((SecretFrom::Owner("whsec_x"), Duration::ZERO))
        );
        for (body, field) in [
            (json!([]), "body"),
            (json!({"secret": 1}), "secret"),
            (json!({"overlap_s": -1}), "overlap_s"),
            (json!({"overlap_s": "1"}), "overlap_s"),
            (json!({"overlap_s": 1e300}), "overlap_s"),
            (json!({"overlap_s": true}), "overlap_s"),
            (json!({"tenant": "other"}), "tenant"),
        ] {
            let refusal = rotation(&body).unwrap_err();
            assert!(refusal.message.starts_with(&format!("{field}: ")), "{body}: {refusal}");
        }
    }
}
