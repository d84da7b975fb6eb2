use adjutant_agent::{
    Budget, ErrorCode, OnBudget, OrchestratorConfig, Permissions, Refusal, Spent,
};
use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::types::Json;

use crate::status::known;
use crate::{Result, SessionWebhook, Store};

/// A session in a list of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEntry {
    pub name: String,
    pub archived: bool,
    /// The number of keys in its shared context.
    pub key_count: i64,
    pub total_size_tokens: i64,
}

/// A session as its owner sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionDetails {
    pub name: String,
    pub model: Option<String>,
    pub metadata: Value,
    pub parent: OrchestratorConfig,
    pub permissions: Option<Permissions>,
    pub max_active: i32,
    pub max_queued: i32,
    pub budget: Budget,
    pub on_budget: Option<OnBudget>,
    pub spent: Spent,
    /// The number of keys in its shared context.
    pub key_count: i64,
    pub total_size_tokens: i64,
    pub created_at: DateTime<Utc>,
    pub archived_at: Option<DateTime<Utc>>,
    pub webhook: Option<SessionWebhook>,
}

impl Store {
    /// A tenant's sessions in the order of their names, at most `limit` after the name `after`.
    pub async fn sessions(
        &self,
        tenant: &str,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<SessionEntry>> {
        let sessions = self
            .call(async |connection| {
                sqlx::query_as!(
                    SessionEntry,
                    r#"select s.name, s.archived_at is not null as "archived!", context.key_count as "key_count!",
                        context.total_size_tokens as "total_size_tokens!"
                       from (
                           select * from session where tenant = $1 and name > coalesce($2, '') order by name limit $3
                       ) s
                       cross join lateral (
                           select count(*) as key_count, coalesce(sum(e.tokens), 0) as total_size_tokens
                           from context_entry e
                           where e.session = s.id
                       ) context
                       order by s.name"#,
                    tenant,
                    after,
                    limit
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        Ok(sessions)
    }

    /// Reads one session.
    pub async fn session_details(&self, tenant: &str, name: &str) -> Result<SessionDetails> {
        let found = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select s.name, s.model, s.metadata, s.max_active, s.max_queued, s.max_input_tokens, s.max_output_tokens,
                        s.max_cost_nanousd, s.on_budget::text as on_budget, s.input_tokens, s.output_tokens, s.cost_nanousd, s.created_at, s.archived_at,
                        s.parent as "parent: Json<OrchestratorConfig>", s.permissions as "permissions: Json<Permissions>",
                        s.webhook as "webhook: Json<SessionWebhook>",
                        context.key_count as "key_count!", context.total_size_tokens as "total_size_tokens!"
                       from session s
                       cross join lateral (
                           select count(*) as key_count, coalesce(sum(e.tokens), 0) as total_size_tokens
                           from context_entry e
                           where e.session = s.id
                       ) context
                       where s.tenant = $1 and s.name = $2"#,
                    tenant,
                    name
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        let Some(row) = found else {
            return Err(Refusal::new(
                ErrorCode::SessionNotFound,
                format!("Session not found: {name}"),
            )
            .into());
        };
        Ok(SessionDetails {
            name: row.name,
            model: row.model,
            metadata: row.metadata,
            parent: row.parent.map(|parent| parent.0).unwrap_or_default(),
            permissions: row.permissions.map(|permissions| permissions.0),
            max_active: row.max_active,
            max_queued: row.max_queued,
            budget: Budget {
                max_input_tokens: row.max_input_tokens,
                max_output_tokens: row.max_output_tokens,
                max_cost_nanousd: row.max_cost_nanousd,
            },
            on_budget: row.on_budget.as_deref().map(known).transpose()?,
            spent: Spent {
                input_tokens: row.input_tokens,
                output_tokens: row.output_tokens,
                cost_nanousd: row.cost_nanousd,
            },
            key_count: row.key_count,
            total_size_tokens: row.total_size_tokens,
            created_at: row.created_at,
            archived_at: row.archived_at,
            webhook: row.webhook.map(|webhook| webhook.0),
        })
    }
}
