use adjutant_agent::{Budget, ErrorCode, Refusal, SessionId, Webhook};
use serde_json::{Map, Value};
use sqlx::types::Json;
use sqlx::{Connection, PgConnection};

use crate::batch::check_name;
use crate::text::{refuse_nul, refuse_nul_in};
use crate::{Result, Store};

/// A session to be made. `None` takes the schema's default.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    pub tenant: String,
    pub name: String,
    /// How many of its tasks may be queued for a claim or running at a time.
    pub max_active: Option<i32>,
    /// How many unfinished tasks it may have in total.
    pub max_queued: Option<i32>,
    /// The orchestrator's model, which agents without one use.
    pub model: Option<String>,
    /// For all of its tasks together.
    pub budget: Budget,
    /// Whatever its maker wants to find there again.
    pub metadata: Map<String, Value>,
    /// Who is told how its tasks end.
    pub webhook: Option<Webhook>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub id: SessionId,
    pub tenant: String,
    pub name: String,
}

impl Store {
    pub async fn create_session(&self, new: &NewSession) -> Result<Session> {
        for (field, text) in [("tenant", &new.tenant), ("session_id", &new.name)] {
            refuse_nul_in(field, text)?;
            check_name(field, text)?;
        }
        for (field, limit) in [("max_active", new.max_active), ("max_queued", new.max_queued)] {
            if limit.is_some_and(|limit| limit < 1) {
                return Err(Refusal::invalid(field, "must be at least 1").into());
            }
        }
        if let Some(model) = &new.model {
            refuse_nul_in("model", model)?;
            check_name("model", model)?;
        }
        if let Some(webhook) = &new.webhook {
            refuse_nul_in("webhook.url", &webhook.url)?;
        }
        refuse_nul("metadata", &Value::Object(new.metadata.clone()))?;
        let made = match self.limits.max_sessions {
            None => self.call(async |connection| insert(connection, new).await).await?,
            Some(most) => self.call(async |connection| insert_within(connection, new, most).await).await?,
        };
        match made {
            Some(id) => Ok(Session { id: SessionId(id), tenant: new.tenant.clone(), name: new.name.clone() }),
            None => Err(Refusal::new(
                ErrorCode::SessionAlreadyExists,
                format!("Session already exists: {}", new.name),
            )
            .into()),
        }
    }

    pub async fn session(&self, tenant: &str, name: &str) -> Result<Session> {
        let found = self
            .call(async |connection| {
                sqlx::query_scalar!("select id from session where tenant = $1 and name = $2", tenant, name)
                    .fetch_optional(connection)
                    .await
            })
            .await?;
        match found {
            Some(id) => Ok(Session { id: SessionId(id), tenant: tenant.to_owned(), name: name.to_owned() }),
            None => {
                Err(Refusal::new(ErrorCode::SessionNotFound, format!("Session not found: {name}")).into())
            }
        }
    }
}

async fn insert(connection: &mut PgConnection, new: &NewSession) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar!(
        "insert into session (
             tenant, name, max_active, max_queued, model, max_input_tokens, max_output_tokens, max_cost_nanousd,
             metadata, webhook
         )
         values ($1, $2, coalesce($3, 5), coalesce($4, 1000), $5, $6, $7, $8, $9, $10)
         on conflict (tenant, name) do nothing
         returning id",
        new.tenant,
        new.name,
        new.max_active,
        new.max_queued,
        new.model,
        new.budget.max_input_tokens,
        new.budget.max_output_tokens,
        new.budget.max_cost_nanousd,
        Value::Object(new.metadata.clone()),
        new.webhook.as_ref().map(Json) as _
    )
    .fetch_optional(connection)
    .await
}

/// The limit is looked at when the session is made: that a name is taken is said even to who has too many.
async fn insert_within(
    connection: &mut PgConnection,
    new: &NewSession,
    most: i64,
) -> sqlx::Result<Option<i64>> {
    let mut transaction = connection.begin().await?;
    sqlx::query!("select lock_tenant_1($1)", new.tenant).execute(&mut *transaction).await?;
    let made = insert(&mut transaction, new).await?;
    if made.is_some() {
        sqlx::query!("select check_sessions_1($1, $2)", new.tenant, most).execute(&mut *transaction).await?;
    }
    transaction.commit().await?;
    Ok(made)
}
