use adjutant_agent::Refusal;
use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;

use crate::batch::check_name;
use crate::cap::MAX_CAP;
use crate::{NotifyTarget, Result, Store};

/// A larger weight is assumed to be a typing error.
const MAX_WEIGHT: i32 = 1000;

/// The limits of a tenant over all of its sessions. `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// Sessions that are not archived.
    pub max_sessions: Option<i64>,
    /// Unfinished tasks without a parent, for spawns without `queue`.
    pub max_active: Option<i64>,
    /// Unfinished tasks in total.
    pub max_queued: Option<i64>,
}

impl TenantLimits {
    /// The limits of active and of queued tasks, if there is one.
    pub(crate) fn of_tasks(&self) -> Option<(i64, i64)> {
        let (active, queued) = (self.max_active, self.max_queued);
        // Larger than any real count, and safe to add to.
        let most = |limit: Option<i64>| limit.unwrap_or(i64::MAX / 2);
        (active.is_some() || queued.is_some()).then(|| (most(active), most(queued)))
    }
}

/// The current use of a tenant's limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TenantUsage {
    pub sessions: i64,
    pub active: i64,
    pub queued: i64,
}

impl Store {
    /// Counts a tenant's sessions and tasks.
    pub async fn tenant_usage(&self, tenant: &str) -> Result<TenantUsage> {
        self.call(async |connection| {
            sqlx::query_as!(
                TenantUsage,
                r#"select sessions as "sessions!", roots as "active!", unfinished as "queued!"
                   from tenant_backlog_1($1)"#,
                tenant
            )
            .fetch_one(connection)
            .await
        })
        .await
    }
}

/// A tenant's settings, and what it has now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Tenant {
    pub name: String,
    /// Its share of the fleet-wide cap, relative to the other tenants that have work.
    pub weight: i32,
    /// The most tasks that it runs at a time; null if only the fleet-wide cap limits it.
    pub cap: Option<i32>,
    /// Since when its keys are refused.
    pub archived_at: Option<DateTime<Utc>>,
    /// Tasks that have not ended, the running ones among them.
    pub unfinished: i64,
    /// Tasks that run now.
    pub running: i64,
}

/// Settings of a tenant to change. `None` leaves a setting as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantChange {
    pub weight: Option<i32>,
    /// `Some(None)` removes the cap.
    pub cap: Option<Option<i32>>,
}

impl Store {
    /// Changes the settings of a tenant, for all workers at once. A tenant exists by being named,
    /// so this works before it has keys or sessions.
    pub async fn set_tenant(&self, name: &str, change: TenantChange) -> Result<()> {
        check_name("tenant", name)?;
        // It is printed on operators' terminals.
        if name.contains(char::is_control) {
            return Err(Refusal::invalid("tenant", "must have no control characters").into());
        }
        if let Some(weight) = change.weight.filter(|weight| !(1..=MAX_WEIGHT).contains(weight)) {
            let range = format_args!("must be 1 to {MAX_WEIGHT}, not {weight}");
            return Err(Refusal::invalid("weight", range).into());
        }
        if let Some(cap) = change.cap.flatten().filter(|cap| !(0..=MAX_CAP).contains(cap)) {
            let range = format_args!("must be 0 to {MAX_CAP}, not {cap}");
            return Err(Refusal::invalid("cap", range).into());
        }
        let mut fields = serde_json::Map::new();
        if let Some(weight) = change.weight {
            fields.insert("weight".to_owned(), weight.into());
        }
        if let Some(cap) = change.cap {
            fields.insert("cap".to_owned(), cap.into());
        }
        let fields = serde_json::Value::Object(fields);
        let actor = self.audited()?;
        self.call(async |connection| {
            sqlx::query!("select set_tenant_as_1($1, $2, $3)", name, fields, actor)
                .execute(connection)
                .await
        })
        .await?;
        self.worker_notifier.notify_queue(NotifyTarget::All);
        Ok(())
    }

    /// The tenants that have settings, keys, sessions or tasks, by name: at most `limit` behind
    /// `after`.
    pub async fn tenants(&self, after: &str, limit: i64) -> Result<Vec<Tenant>> {
        self.call(async |connection| {
            sqlx::query_as!(
                Tenant,
                r#"select
                    name as "name!", weight as "weight!", cap, archived_at, unfinished as "unfinished!", running as "running!"
                   from tenants_1($1, $2, null)"#,
                after,
                limit
            )
            .fetch_all(connection)
            .await
        })
        .await
    }

    /// A tenant. One that was never named has the defaults, and no tasks.
    pub async fn tenant(&self, name: &str) -> Result<Tenant> {
        self.call(async |connection| {
            sqlx::query_as!(
                Tenant,
                r#"select
                    name as "name!", weight as "weight!", cap, archived_at, unfinished as "unfinished!", running as "running!"
                   from tenants_1('', 1, $1)"#,
                name
            )
            .fetch_one(connection)
            .await
        })
        .await
    }
}
