use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use serde_json::Value;

use super::request::Parameters;
use super::{Shared, json};
use crate::{Caller, Result, Scope};

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/v1/stats", get(show))
}

/// Counts, tokens and costs of the tenant's tasks
#[utoipa::path(
    get, path = "/v1/stats", tag = "history",
    params(("since" = Option<DateTime<Utc>>, Query, description = "Of tasks made at this time or later.")),
    responses((status = 200, description = "The numbers.", body = Object))
)]
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    mut parameters: Parameters,
) -> Result<Json<Value>> {
    caller.needs(&[Scope::Read])?;
    let since = parameters.parsed::<DateTime<Utc>>("since", "a time as 2026-01-31T12:00:00Z")?;
    parameters.end()?;
    json(&shared.desk.store.stats(&caller.tenant, since).await?)
}
