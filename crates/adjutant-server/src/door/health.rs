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
use crate::error::answer_now;

/// Whoever asks has a time-out of its own, and a database that takes longer is not there.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/healthz", get(lives)).route("/readyz", get(ready))
}

#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    #[schema(example = "ok")]
    status: &'static str,
}

const OK: Json<Health> = Json(Health { status: "ok" });

/// Whether the process lives
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, description = "It lives.", body = Health)))]
pub(super) async fn lives() -> Json<Health> {
    OK
}

/// Whether requests can be answered: the database is there, and its schema fits
#[utoipa::path(get, path = "/readyz", tag = "operations", responses((status = 200, description = "They can.", body = Health)))]
pub(super) async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    match tokio::time::timeout(PATIENCE, shared.desk.store.fits()).await {
        Ok(Ok(())) => OK.into_response(),
        Ok(Err(adjutant_store::Error::Schema(misfit))) => {
            answer_now(ErrorCode::Unavailable, &misfit.to_string())
        }
        Ok(Err(_)) | Err(_) => answer_now(ErrorCode::Unavailable, "The database is not available"),
    }
}
