use chrono::{DateTime, Utc};

use crate::text::refuse_nul_in;
use crate::{Result, Store};

impl Store {
    /// Archives a tenant: its keys are refused, and what is open with them ends. Its tasks run to
    /// their ends, queued ones too. Idempotent. Returns since when it is archived.
    pub async fn archive_tenant(&self, tenant: &str) -> Result<Option<DateTime<Utc>>> {
        self.set_archived(tenant, true).await
    }

    /// Accepts an archived tenant's keys again. Idempotent.
    pub async fn unarchive_tenant(&self, tenant: &str) -> Result<()> {
        self.set_archived(tenant, false).await.map(drop)
    }

    async fn set_archived(&self, tenant: &str, archived: bool) -> Result<Option<DateTime<Utc>>> {
        refuse_nul_in("tenant", tenant)?;
        self.call(async |connection| {
            sqlx::query_scalar!("select archive_tenant_1($1, $2)", tenant, archived)
                .fetch_one(connection)
                .await
        })
        .await
    }
}
