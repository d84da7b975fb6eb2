//! `/v1/tenants`: the settings of all tenants, for operators.

use std::sync::Arc;

use adjutant_agent::{Fields, Refusal};
use adjutant_store::{Tenant, TenantChange};
use axum::extract::State;
use axum::routing::{get, put};
use axum::{Json, Router};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::Shared;
use super::page::{Page, one_more};
use super::request::{JsonBody, PathParams, QueryParams};
use crate::{Caller, Result, Scope};

const PAGE: i64 = 50;
const MAX_PAGE: i64 = 500;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/v1/tenants", get(list)).route("/v1/tenants/{tenant}", put(set))
}

/// A page of tenants
#[derive(Serialize, ToSchema)]
pub(super) struct Tenants {
    tenants: Vec<Tenant>,
    /// The cursor of the next page; null on the last one.
    next_cursor: Option<String>,
}

/// List the tenants of the fleet
///
/// Those that have settings, keys, sessions or tasks. It covers all tenants, so it needs the scope
/// `admin`.
#[utoipa::path(
    get, path = "/v1/tenants", tag = "operations",
    params(
        ("limit" = Option<i64>, Query, description = "At most so many."),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before."),
    ),
    responses((status = 200, description = "By name.", body = Tenants))
)]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    mut parameters: QueryParams,
) -> Result<Json<Tenants>> {
    caller.require(&[Scope::Admin])?;
    let limit = parameters.limit(PAGE, MAX_PAGE)?;
    let after = parameters.text("cursor")?.unwrap_or_default();
    parameters.end()?;
    let found = shared.reads.of_operator().tenants(&after, one_more(limit)).await?;
    let page = Page::of(found, limit, |last| last.name.clone());
    Ok(Json(Tenants { tenants: page.entries, next_cursor: page.next_cursor }))
}

/// Change the settings of a tenant
///
/// They hold for all workers at once. A field that is not given stays as it is.
#[utoipa::path(
    put, path = "/v1/tenants/{tenant}", tag = "operations",
    params(("tenant" = String, Path, description = "Its name.")),
    responses((status = 200, description = "The tenant.", body = Tenant))
)]
pub(super) async fn set(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    path: PathParams,
    parameters: QueryParams,
    JsonBody(body): JsonBody,
) -> Result<Json<Tenant>> {
    caller.require(&[Scope::Admin])?;
    parameters.end()?;
    let change = change(&body)?;
    let store = &shared.service.store;
    store.set_tenant(path.get("tenant"), change).await?;
    Ok(Json(store.tenant(path.get("tenant")).await?))
}

/// The body of a change of a tenant
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used, because a null cap differs from none")]
pub(super) struct TenantSettings {
    /// Its share of the fleet-wide cap, relative to the other tenants that have work.
    #[schema(minimum = 1, maximum = 1000)]
    weight: Option<i32>,
    /// The most tasks that it runs at a time; null removes the limit.
    #[schema(minimum = 0, maximum = 10000)]
    cap: Option<i32>,
}

fn change(body: &Value) -> Result<TenantChange, Refusal> {
    let whole = |field: &str, number: i64| {
        i32::try_from(number)
            .map_err(|_| Refusal::invalid(field, format_args!("is out of range: {number}")))
    };
    let removes_cap = body.get("cap").is_some_and(Value::is_null);
    let mut fields = Fields::of(body).map_err(|_| Refusal::invalid("body", "must be an object"))?;
    let weight = fields.integer("weight")?.map(|weight| whole("weight", weight)).transpose()?;
    let cap = fields.integer("cap")?.map(|cap| whole("cap", cap)).transpose()?;
    fields.end()?;
    Ok(TenantChange { weight, cap: cap.map(Some).or(removes_cap.then_some(None)) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_null_removes_the_cap_and_an_absent_field_changes_nothing() {
        for (body, weight, cap) in [
            (json!({}), None, None),
            (json!({"weight": 2}), Some(2), None),
            (json!({"weight": null, "cap": null}), None, Some(None)),
            (json!({"cap": 0}), None, Some(Some(0))),
        ] {
            assert_eq!(change(&body), Ok(TenantChange { weight, cap }), "{body}");
        }
        for (body, field) in [
            (json!([]), "body"),
            (json!({"weight": "2"}), "weight"),
            (json!({"cap": 3_000_000_000_i64}), "cap"),
            (json!({"limit": 1}), "limit"),
        ] {
            let refusal = change(&body).unwrap_err();
            assert!(refusal.message.starts_with(field), "{body}: {refusal}");
        }
    }
}
