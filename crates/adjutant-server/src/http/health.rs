use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::ErrorCode;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use utoipa::ToSchema;

use super::Shared;
use crate::error::immediate_error;

/// A database that takes longer counts as not available; probes have timeouts of their own.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/healthz", get(lives)).route("/readyz", get(ready))
}

#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    #[schema(example = "ok")]
    status: &'static str,
}

const OK: Json<Health> = Json(Health { status: "ok" });

/// Whether the process is alive
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, description = "It is alive.", body = Health)))]
pub(super) async fn lives() -> Json<Health> {
    OK
}

/// Whether the server is ready: the database is available and its schema fits
#[utoipa::path(get, path = "/readyz", tag = "operations", responses((status = 200, description = "It is ready.", body = Health)))]
pub(super) async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    match tokio::time::timeout(DATABASE_TIMEOUT, shared.service.store.check_schema()).await {
        Ok(Ok(())) => OK.into_response(),
        Ok(Err(adjutant_store::Error::Schema(misfit))) => {
            immediate_error(ErrorCode::Unavailable, &misfit.to_string())
        }
        Ok(Err(_)) | Err(_) => {
            immediate_error(ErrorCode::Unavailable, "The database is not available")
        }
    }
}
