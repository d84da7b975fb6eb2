use crate::error::LOCK_TIMEOUT;
use crate::{Result, Store};

/// Partitions are made for this week and so many weeks ahead.
const WEEKS_AHEAD: i32 = 5;

/// The most rows per delete (the statements have the same limit), so that no spawn waits long for
/// row locks.
const BATCH: u64 = 1000;

impl Store {
    /// Periodic maintenance, safe to run from any process at any time: creates partitions ahead,
    /// marks dead workers as stopped, folds old minutes of usage into hours, and deletes stale
    /// drafts, failed tries of ended calls, stale rows of model limits, expired webhook secrets,
    /// old webhook deliveries, expired idempotency keys, old rows of the audit, workers that
    /// stopped long ago, requirements that no task has, and the history of deleted keys of shared
    /// contexts. Ends sessions that MCP connections left behind.
    pub async fn run_maintenance(&self) -> Result<()> {
        for table in ["turn", "tool_result", "event"] {
            match sqlx::query!("select make_partitions_1($1, $2)", table, WEEKS_AHEAD)
                .fetch_one(&self.pool)
                .await
            {
                Ok(_) => {}
                // A query or another maintenance run holds the lock. The next run will do:
                // partitions exist for weeks ahead.
                Err(error) if is_lock_timeout(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        sqlx::query!(
            "update worker set stopped_at = renewed_at
             where stopped_at is null and renewed_at < now() - interval '7 days'"
        )
        .execute(&self.pool)
        .await?;
        self.fold_old_minutes().await?;
        self.delete_stale_drafts().await?;
        self.delete_stale_failed_calls().await?;
        self.delete_stale_model_rows().await?;
        sqlx::query!("delete from webhook_secret where expires_at < now()")
            .execute(&self.pool)
            .await?;
        while self.delete_old_deliveries().await? >= BATCH {}
        while self.delete_expired_idempotency_keys().await? >= BATCH {}
        while self.delete_old_audit().await? >= BATCH {}
        self.delete_stopped_workers().await?;
        self.delete_unused_requirements().await?;
        self.forget_deleted_keys().await?;
        self.end_mcp_sessions().await
    }

    async fn delete_stopped_workers(&self) -> Result<()> {
        let gone = async || {
            sqlx::query_scalar!(r#"select delete_stopped_workers_1(interval '7 days') as "gone!""#)
                .fetch_one(&self.pool)
                .await
        };
        while gone().await?.unsigned_abs() >= BATCH {}
        Ok(())
    }

    /// Deletes requirements that no unfinished task has needed for a day.
    async fn delete_unused_requirements(&self) -> Result<()> {
        let before = sqlx::query_scalar!(r#"select now() - interval '1 day' as "before!""#)
            .fetch_one(&self.pool)
            .await?;
        let mut after = (Some(0), Some(0));
        while let (Some(session), Some(number)) = after {
            let row = sqlx::query!(
                "select session, number from keep_requirements_1($1, $2, $3)",
                before,
                session,
                number
            )
            .fetch_one(&self.pool)
            .await?;
            after = (row.session, row.number);
        }
        sqlx::query!("select delete_requirements_1($1)", before).fetch_one(&self.pool).await?;
        Ok(())
    }

    async fn forget_deleted_keys(&self) -> Result<()> {
        let gone = async || {
            sqlx::query_scalar!(r#"select forget_deleted_keys_1(interval '30 days') as "gone!""#)
                .fetch_one(&self.pool)
                .await
        };
        // A batch is 100 keys at most, so it may be small and not the last one.
        while gone().await? > 0 {}
        Ok(())
    }

    async fn end_mcp_sessions(&self) -> Result<()> {
        let mut after = Some(0);
        while let Some(id) = after {
            after = sqlx::query_scalar!("select end_mcp_sessions_1($1)", id)
                .fetch_one(&self.pool)
                .await?;
        }
        Ok(())
    }

    /// Failed deliveries are kept longer than successful ones, because they may be sent again.
    async fn delete_old_deliveries(&self) -> Result<u64> {
        let deleted = sqlx::query!(
            "delete from webhook_delivery
                 where id in (
                     select id
                     from webhook_delivery
                     where state <> 'pending'
                         and tried_at < now() - case state when 'delivered' then interval '7 days' else interval '30 days' end
                     limit 1000
                     for update skip locked
                 )"
        )
        .execute(&self.pool)
        .await?;
        Ok(deleted.rows_affected())
    }

    async fn delete_old_audit(&self) -> Result<u64> {
        let deleted = sqlx::query_scalar!(r#"select delete_old_audit_1() as "deleted!""#)
            .fetch_one(&self.pool)
            .await?;
        Ok(u64::try_from(deleted).unwrap_or_default())
    }

    async fn delete_expired_idempotency_keys(&self) -> Result<u64> {
        let deleted = sqlx::query!(
            "delete from idempotency
                 where (session, action, key) in (
                     select session, action, key
                     from idempotency
                     where created_at < now() - interval '24 hours'
                     limit 1000
                     for update skip locked
                 )"
        )
        .execute(&self.pool)
        .await?;
        Ok(deleted.rows_affected())
    }
}

fn is_lock_timeout(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|answer| answer.code()).as_deref() == Some(LOCK_TIMEOUT)
}
