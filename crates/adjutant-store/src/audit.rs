use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{Result, Store};

/// A change that a person or a program has made.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AuditEntry {
    pub id: i64,
    #[serde(serialize_with = "crate::timestamp::serialize")]
    pub at: DateTime<Utc>,
    /// The tenant whose things were changed; null for the fleet.
    pub tenant: Option<String>,
    #[schema(example = "task.cancel")]
    pub action: String,
    /// The id or the name of what was changed.
    pub subject: String,
    #[schema(value_type = Option<Object>)]
    pub before: Option<Value>,
    #[schema(value_type = Option<Object>)]
    pub after: Option<Value>,
    /// `api`, or `cli` for a command that worked on the database directly.
    pub source: String,
    /// The id of the API key, if it needed one.
    pub key: Option<Uuid>,
    /// The name of the key, or of the user of the operating system for a command.
    pub actor: String,
    pub actor_tenant: Option<String>,
    /// The address of the client, behind trusted proxies.
    pub address: Option<String>,
}

/// A filter of the audit. `None` is no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub tenant: Option<String>,
    pub action: Option<String>,
    pub since: Option<DateTime<Utc>>,
    /// Only entries older than this one.
    pub before: Option<i64>,
}

impl Store {
    /// The changes that match, newest first.
    pub async fn audit(&self, filter: &AuditFilter, limit: i64) -> Result<Vec<AuditEntry>> {
        self.call(async |connection| {
            sqlx::query_as!(
                AuditEntry,
                r#"select id as "id!", at as "at!", tenant, action as "action!", subject as "subject!", before, after,
                    source as "source!", key, actor as "actor!", actor_tenant, host(address) as address
                   from audits_1($1, $2, $3, $4, $5)"#,
                filter.tenant,
                filter.action,
                filter.since,
                filter.before,
                limit
            )
            .fetch_all(connection)
            .await
        })
        .await
    }
}
