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
        let actor = self.audited()?;
        let changed = self
            .call(async |connection| {
                // The statement's snapshot has the tenant as it was.
                sqlx::query!(
                    r#"select c.since, case when (t.archived_at is not null) <> ($2::boolean) then audit_1(
                           $3, $1, case when $2 then 'tenant.archive' else 'tenant.unarchive' end, $1,
                           jsonb_build_object('archived', not $2), jsonb_build_object('archived', $2)
                       ) end as audited
                       from archive_tenant_1($1, $2) c (since)
                       left join tenant t on t.name = $1"#,
                    tenant,
                    archived,
                    actor
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        Ok(changed.since)
    }
}
