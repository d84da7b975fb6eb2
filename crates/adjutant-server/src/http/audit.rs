//! `/v1/audit`: who has changed what in the tenant.

use std::sync::Arc;

use adjutant_store::{AuditEntry, AuditFilter};
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use utoipa::ToSchema;

use super::Shared;
use super::page::{Page, one_more};
use super::request::QueryParams;
use crate::{Caller, Result, Scope};

const PAGE: i64 = 50;
const MAX_PAGE: i64 = 500;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/v1/audit", get(list))
}

#[derive(Serialize, ToSchema)]
pub(super) struct Audit {
    entries: Vec<AuditEntry>,
    /// The cursor of the next page; null at the end.
    next_cursor: Option<String>,
}

/// List who has changed what, the newest first
///
/// Cancels, retries, deletions, keys, secrets: with the key, its name, and the client's address. It
/// contains no texts. Needs a key with the scope `admin`, and shows its tenant.
#[utoipa::path(
    get, path = "/v1/audit", tag = "operations",
    params(
        ("action" = Option<String>, Query, description = "Only this action, for example `task.cancel`.", min_length = 1),
        ("since" = Option<DateTime<Utc>>, Query, description = "At this time or later."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.", min_length = 1),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500),
    ),
    responses((status = 200, description = "A page of changes.", body = Audit))
)]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    mut parameters: QueryParams,
) -> Result<Json<Audit>> {
    caller.require(&[Scope::Admin])?;
    let filter = AuditFilter {
        tenant: Some(caller.tenant.clone()),
        action: parameters.text("action")?,
        since: parameters.parsed("since", "a time as 2026-01-31T12:00:00Z")?,
        before: parameters.parsed("cursor", "a next_cursor of this list")?,
    };
    let limit = parameters.limit(PAGE, MAX_PAGE)?;
    parameters.end()?;
    let found = shared.reads.begin(&caller)?.audit(&filter, one_more(limit)).await?;
    let page = Page::of(found, limit, |last| last.id.to_string());
    Ok(Json(Audit { entries: page.entries, next_cursor: page.next_cursor }))
}
