use serde::Serialize;

use crate::{Result, Store};

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
