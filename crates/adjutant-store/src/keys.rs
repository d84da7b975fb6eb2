use adjutant_agent::{ErrorCode, Grants, Refusal};
use chrono::{DateTime, Utc};
use rand::RngExt;
use serde::Serialize;
use sha2::{Digest, Sha256};
use sqlx::types::Json;
use uuid::Uuid;

use crate::batch::check_name;
use crate::json::to_json;
use crate::text::{refuse_nul, refuse_nul_in};
use crate::{Result, Store};

/// The prefix of every secret, so that people and secret scanners recognize one.
const PREFIX: &str = "adj_";
const SCOPES: [&str; 3] = ["delegate", "read", "admin"];

/// An API key to create.
#[derive(Debug, Clone, Default)]
pub struct NewKey {
    pub tenant: String,
    /// Chosen by its owner, for display.
    pub name: String,
    /// One or more of `delegate`, `read` and `admin`.
    pub scopes: Vec<String>,
    /// What tasks of the key may use.
    pub grants: Grants,
    pub expires_at: Option<DateTime<Utc>>,
}

/// An API key without its secret, which is not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApiKey {
    pub id: Uuid,
    pub tenant: String,
    pub name: String,
    pub scopes: Vec<String>,
    /// `None` is everything.
    pub grants: Option<Json<Grants>>,
    #[serde(serialize_with = "crate::timestamp::serialize")]
    pub created_at: DateTime<Utc>,
    #[serde(serialize_with = "crate::timestamp::serialize_option")]
    pub expires_at: Option<DateTime<Utc>>,
    /// With a precision of a minute.
    #[serde(serialize_with = "crate::timestamp::serialize_option")]
    pub last_used_at: Option<DateTime<Utc>>,
    #[serde(serialize_with = "crate::timestamp::serialize_option")]
    pub revoked_at: Option<DateTime<Utc>>,
}

/// Why a key may do nothing any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyEnd {
    /// It was revoked, or has expired.
    Invalid,
    /// Its tenant, by name, was archived.
    TenantArchived(String),
}

impl Store {
    /// Creates a key and returns its secret, of which only a digest is stored.
    pub async fn create_key(&self, new: &NewKey) -> Result<(ApiKey, String)> {
        for (field, text) in [("tenant", &new.tenant), ("name", &new.name)] {
            refuse_nul_in(field, text)?;
            check_name(field, text)?;
        }
        check_scopes(&new.scopes)?;
        new.grants.check()?;
        refuse_nul("grants", &to_json(&new.grants)?)?;
        if new.expires_at.is_some_and(|at| at <= Utc::now()) {
            return Err(Refusal::invalid("expires_at", "must be in the future").into());
        }
        let grants = Some(&new.grants).filter(|grants| !grants.is_everything()).map(to_json);
        let grants = grants.transpose()?;
        let actor = self.audited()?;
        let secret = new_secret();
        let key = self
            .call(async |connection| {
                sqlx::query_as!(
                    ApiKey,
                    r#"with made as (
                           insert into api_key (id, tenant, name, digest, scopes, expires_at, grants)
                           values ($1, $2, $3, $4, $5, $6, $7)
                           returning *
                       ), audited as materialized (
                           select audit_1($8, m.tenant, 'key.create', m.id::text, null, jsonb_build_object(
                               'name', m.name, 'scopes', m.scopes, 'grants', m.grants, 'expires_at', m.expires_at
                           ))
                           from made m
                       )
                       select m.id as "id!", m.tenant as "tenant!", m.name as "name!", m.scopes as "scopes!",
                           m.grants as "grants: Json<Grants>", m.created_at as "created_at!", m.expires_at,
                           m.last_used_at, m.revoked_at
                       from made m
                       cross join audited"#,
                    Uuid::now_v7(),
                    new.tenant,
                    new.name,
                    digest(&secret),
                    &new.scopes,
                    new.expires_at,
                    grants,
                    actor
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        Ok((key, secret))
    }

    /// The key with this secret, if it is neither revoked nor expired. The key of an archived
    /// tenant is refused.
    pub async fn key(&self, secret: &str) -> Result<Option<ApiKey>> {
        if !secret.starts_with(PREFIX) {
            return Ok(None);
        }
        self.call(async |connection| {
            sqlx::query_as!(
                ApiKey,
                r#"select id as "id!", tenant as "tenant!", name as "name!", scopes as "scopes!",
                    grants as "grants: Json<Grants>", created_at as "created_at!", expires_at, last_used_at, revoked_at
                   from use_key_1($1)"#,
                digest(secret)
            )
            .fetch_optional(connection)
            .await
        })
        .await
    }

    /// Those of these keys that may do nothing any more.
    pub async fn ended_keys(&self, keys: &[Uuid]) -> Result<Vec<(Uuid, KeyEnd)>> {
        let ended = self
            .call(async |connection| {
                sqlx::query!(r#"select key as "key!", archived from ended_keys_1($1)"#, keys)
                    .fetch_all(connection)
                    .await
            })
            .await?;
        let end =
            |archived: Option<String>| archived.map_or(KeyEnd::Invalid, KeyEnd::TenantArchived);
        Ok(ended.into_iter().map(|row| (row.key, end(row.archived))).collect())
    }

    /// All keys or a tenant's, including revoked and expired ones, oldest first.
    pub async fn keys(&self, tenant: Option<&str>) -> Result<Vec<ApiKey>> {
        self.call(async |connection| {
            sqlx::query_as!(
                ApiKey,
                r#"select id, tenant, name, scopes, grants as "grants: Json<Grants>", created_at, expires_at,
                    last_used_at, revoked_at
                   from api_key
                   where $1::text is null or tenant = $1
                   order by created_at, id"#,
                tenant
            )
            .fetch_all(connection)
            .await
        })
        .await
    }

    /// Revokes a key. Idempotent.
    pub async fn revoke_key(&self, id: Uuid) -> Result<ApiKey> {
        let actor = self.audited()?;
        let revoked = self
            .call(async |connection| {
                sqlx::query_as!(
                    ApiKey,
                    r#"with changed as (
                           update api_key a
                           set revoked_at = coalesce(a.revoked_at, now())
                           from (select id, revoked_at from api_key where id = $1 for no key update) k
                           where a.id = k.id
                           returning a.*, k.revoked_at as revoked_before
                       ), audited as materialized (
                           select case when c.revoked_before is null then audit_1(
                               $2, c.tenant, 'key.revoke', c.id::text,
                               jsonb_build_object('name', c.name, 'revoked', false), jsonb_build_object('revoked', true)
                           ) end
                           from changed c
                       )
                       select c.id as "id!", c.tenant as "tenant!", c.name as "name!", c.scopes as "scopes!",
                           c.grants as "grants: Json<Grants>", c.created_at as "created_at!", c.expires_at,
                           c.last_used_at, c.revoked_at
                       from changed c
                       cross join audited"#,
                    id,
                    actor
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        revoked.ok_or_else(|| {
            Refusal::new(ErrorCode::KeyNotFound, format!("API key not found: {id}")).into()
        })
    }

    /// Whether a key was ever created. Revoked keys count, so that revoking the last key does not
    /// make the server accept requests without one.
    pub async fn has_keys(&self) -> Result<bool> {
        self.call(async |connection| {
            sqlx::query_scalar!(r#"select exists (select from api_key) as "has!""#)
                .fetch_one(connection)
                .await
        })
        .await
    }
}

fn check_scopes(scopes: &[String]) -> std::result::Result<(), Refusal> {
    if scopes.is_empty() || !scopes.iter().all(|scope| SCOPES.contains(&scope.as_str())) {
        return Err(Refusal::invalid(
            "scopes",
            format_args!("must be some of: {}", SCOPES.join(", ")),
        ));
    }
    Ok(())
}

fn new_secret() -> String {
    let random: [u8; 32] = rand::rng().random();
    random.iter().fold(PREFIX.to_owned(), |secret, byte| secret + &format!("{byte:02x}"))
}

/// Computed here, so that a secret never reaches the database or its log.
fn digest(secret: &str) -> Vec<u8> {
    Sha256::digest(secret.as_bytes()).to_vec()
}
