//! `/`: the dashboard, one HTML page that calls the public routes with the API key that the user
//! enters.

use std::sync::Arc;

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName};
use axum::response::Html;
use axum::routing::get;

use super::Shared;

/// The page loads no external resources, connects only to this server, and cannot be framed.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/", get(page))
}

/// The dashboard
#[utoipa::path(
    get, path = "/", tag = "operations",
    responses((status = 200, description = "A page.", body = String, content_type = "text/html"))
)]
pub(super) async fn page() -> ([(HeaderName, &'static str); 2], Html<&'static str>) {
    (
        [(CONTENT_SECURITY_POLICY, POLICY), (CACHE_CONTROL, "no-cache")],
        Html(include_str!("dashboard.html")),
    )
}
