use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::Value;

use super::Shared;
use super::request::Parameters;
use crate::{Caller, Result, Scope, stand_in};

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/v1/stats", get(show))
}

/// Counts, tokens and costs of the tenant's tasks
#[utoipa::path(
    get, path = "/v1/stats", tag = "history",
    responses((status = 200, description = "The numbers.", body = Object))
)]
pub(super) async fn show(
    State(_shared): State<Arc<Shared>>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Json<Value>> {
    caller.needs(&[Scope::Read])?;
    parameters.end()?;
    stand_in::later()
}
