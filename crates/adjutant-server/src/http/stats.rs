//! `/v1/stats`: the statistics of a tenant.

use std::sync::Arc;

use adjutant_store::Stats;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use chrono::{DateTime, Utc};

use super::Shared;
use super::request::QueryParams;
use crate::{Caller, Result, Scope};

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/v1/stats", get(show))
}

/// Counts, tokens and costs of the tenant's tasks
#[utoipa::path(
    get, path = "/v1/stats", tag = "history",
    params(("since" = Option<DateTime<Utc>>, Query, description = "Only what was spawned, used and ended since then, by whole minutes, and by hours before the last two days.")),
    responses((status = 200, description = "The numbers.", body = Stats))
)]
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    mut parameters: QueryParams,
) -> Result<Json<Stats>> {
    caller.require(&[Scope::Read])?;
    let since = parameters.parsed::<DateTime<Utc>>("since", "a time as 2026-01-31T12:00:00Z")?;
    parameters.end()?;
    Ok(Json(shared.reads.begin(&caller)?.stats(&caller.tenant, since).await?))
}
