use adjutant_agent::{
    Budget, ErrorCode, OnBudget, OrchestratorConfig, Permissions, Refusal, SessionId, Skill,
    Webhook,
};
use serde::Serialize;
use serde_json::{Map, Value};
use sqlx::types::Json;
use sqlx::{Connection, PgConnection};

use crate::batch::check_name;
use crate::text::{refuse_nul, refuse_nul_in};
use crate::{Error, Result, Store};

/// A session to create. `None` takes the schema's default.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    pub tenant: String,
    pub name: String,
    /// The window: how many of its tasks may be in the queue or running at a time.
    pub max_active: Option<i32>,
    /// The most unfinished tasks in total.
    pub max_queued: Option<i32>,
    /// The orchestrator's model; the default of agents that have none.
    pub model: Option<String>,
    /// For all of its tasks together.
    pub budget: Budget,
    /// What its tasks do at a budget if neither they nor their roots say it.
    pub on_budget: Option<OnBudget>,
    /// Free data of the client.
    pub metadata: Map<String, Value>,
    /// The configuration that its agents may inherit.
    pub parent: OrchestratorConfig,
    /// Restricts the tools of its tasks, whatever their agents list.
    pub permissions: Option<Permissions>,
    /// Receives the ends of its tasks.
    pub webhook: Option<Webhook>,
}

/// A change of a session: the outer `None` keeps a field, the inner one removes its value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionChange {
    pub model: Option<Option<String>>,
    pub metadata: Option<Map<String, Value>>,
    pub system_prompt: Option<Option<String>>,
    pub tools: Option<Vec<String>>,
    pub skills: Option<Vec<Skill>>,
    pub permissions: Option<Option<Permissions>>,
}

impl SessionChange {
    /// The argument of `change_session_1`: a missing field is kept, null removes the value.
    fn row(&self) -> Result<Value> {
        let mut parent = Map::new();
        put(&mut parent, "system_prompt", self.system_prompt.as_ref())?;
        put(
            &mut parent,
            "tools",
            self.tools.as_ref().map(|tools| Some(tools).filter(|tools| !tools.is_empty())),
        )?;
        put(
            &mut parent,
            "skills",
            self.skills.as_ref().map(|skills| Some(skills).filter(|skills| !skills.is_empty())),
        )?;
        let mut change = Map::new();
        put(&mut change, "model", self.model.as_ref())?;
        put(&mut change, "metadata", self.metadata.as_ref())?;
        put(&mut change, "permissions", self.permissions.as_ref())?;
        change.insert("parent".to_owned(), Value::Object(parent));
        Ok(Value::Object(change))
    }
}

fn put(row: &mut Map<String, Value>, field: &str, value: Option<impl Serialize>) -> Result<()> {
    if let Some(value) = value {
        row.insert(field.to_owned(), to_json(&value)?);
    }
    Ok(())
}

fn to_json(value: &impl Serialize) -> Result<Value> {
    serde_json::to_value(value)
        .map_err(|error| Error::Unexpected(sqlx::Error::Encode(error.into())))
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
        let inherited = Inherited::of(new)?;
        let created = match self.limits.max_sessions {
            None => self.call(async |connection| insert(connection, new, &inherited).await).await?,
            Some(most) => {
                self.call(async |connection| insert_within(connection, new, &inherited, most).await)
                    .await?
            }
        };
        match created {
            Some(id) => Ok(Session {
                id: SessionId(id),
                tenant: new.tenant.clone(),
                name: new.name.clone(),
            }),
            None => Err(Refusal::new(
                ErrorCode::SessionAlreadyExists,
                format!("Session already exists: {}", new.name),
            )
            .into()),
        }
    }

    /// Changes a session. Existing tasks keep the configuration that they were spawned with. An
    /// archived session cannot be changed.
    pub async fn change_session(
        &self,
        tenant: &str,
        name: &str,
        change: &SessionChange,
    ) -> Result<()> {
        if let Some(Some(model)) = &change.model {
            check_name("model", model)?;
        }
        let change = change.row()?;
        refuse_nul("", &change)?;
        refuse_nul_in("session_id", name)?;
        self.call(async |connection| {
            sqlx::query!("select change_session_1($1, $2, $3)", tenant, name, change)
                .execute(connection)
                .await
        })
        .await?;
        Ok(())
    }

    pub async fn session(&self, tenant: &str, name: &str) -> Result<Session> {
        let found = self
            .call(async |connection| {
                sqlx::query_scalar!(
                    "select id from session where tenant = $1 and name = $2",
                    tenant,
                    name
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        match found {
            Some(id) => {
                Ok(Session { id: SessionId(id), tenant: tenant.to_owned(), name: name.to_owned() })
            }
            None => {
                Err(Refusal::new(ErrorCode::SessionNotFound, format!("Session not found: {name}"))
                    .into())
            }
        }
    }
}

/// The configuration of the orchestrator, as it is stored with the session.
struct Inherited {
    parent: Option<Value>,
    permissions: Option<Value>,
}

impl Inherited {
    fn of(new: &NewSession) -> Result<Self> {
        let parent =
            Some(&new.parent).filter(|parent| !parent.is_empty()).map(to_json).transpose()?;
        let permissions = new.permissions.as_ref().map(to_json).transpose()?;
        for (field, value) in [("parent", &parent), ("permissions", &permissions)] {
            value.iter().try_for_each(|value| refuse_nul(field, value))?;
        }
        Ok(Self { parent, permissions })
    }
}

async fn insert(
    connection: &mut PgConnection,
    new: &NewSession,
    inherited: &Inherited,
) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar!(
        "insert into session (
             tenant, name, max_active, max_queued, model, max_input_tokens, max_output_tokens, max_cost_nanousd,
             metadata, parent, permissions, webhook, on_budget
         )
         values ($1, $2, coalesce($3, 5), coalesce($4, 1000), $5, $6, $7, $8, $9, $10, $11, $12, $13::text)
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
        inherited.parent,
        inherited.permissions,
        new.webhook.as_ref().map(Json) as _,
        new.on_budget.map(OnBudget::as_str)
    )
    .fetch_optional(connection)
    .await
}

/// Checks the limit after the insert, so that `SESSION_ALREADY_EXISTS` takes precedence over the
/// limit.
async fn insert_within(
    connection: &mut PgConnection,
    new: &NewSession,
    inherited: &Inherited,
    most: i64,
) -> sqlx::Result<Option<i64>> {
    let mut transaction = connection.begin().await?;
    sqlx::query!("select lock_tenant_1($1)", new.tenant).execute(&mut *transaction).await?;
    let created = insert(&mut transaction, new, inherited).await?;
    if created.is_some() {
        sqlx::query!("select check_sessions_1($1, $2)", new.tenant, most)
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await?;
    Ok(created)
}
