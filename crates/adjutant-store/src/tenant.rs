use serde::Serialize;

use crate::{Result, Store};

/// What a tenant may have over all its sessions. `None`: as much as it likes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// Sessions that are not archived.
    pub max_sessions: Option<i64>,
    /// Unfinished tasks without a parent, for spawns that do not accept to wait.
    pub max_active: Option<i64>,
    /// Unfinished tasks in all.
    pub max_queued: Option<i64>,
}

impl TenantLimits {
    /// The limits that a spawn has to keep, if there are some.
    pub(crate) fn of_tasks(&self) -> Option<(i64, i64)> {
        let (active, queued) = (self.max_active, self.max_queued);
        // Far above what anybody has, and far enough below the largest number to be counted up.
        let most = |limit: Option<i64>| limit.unwrap_or(i64::MAX / 2);
        (active.is_some() || queued.is_some()).then(|| (most(active), most(queued)))
    }
}

/// What a tenant has now, in the units of its limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TenantUsage {
    pub sessions: i64,
    pub active: i64,
    pub queued: i64,
}

impl Store {
    pub async fn tenant_usage(&self, tenant: &str) -> Result<TenantUsage> {
        self.call(async |connection| {
            sqlx::query_as!(
                TenantUsage,
                r#"select sessions as "sessions!", active as "active!", queued as "queued!"
                   from tenant_usage_1($1, $2)"#,
                tenant,
                i64::MAX
            )
            .fetch_one(connection)
            .await
        })
        .await
    }
}
