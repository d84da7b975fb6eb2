use crate::{Result, Store};

/// The weeks for which there are partitions, besides this one.
const WEEKS_AHEAD: i32 = 5;

/// The most that is deleted at once, as the statements say: no spawn waits for a long delete.
const BATCH: u64 = 1000;

impl Store {
    /// Housekeeping, now and then, by any process: partitions for the weeks to come, workers that were never heard of again, drafts
    /// of leases that are no more, secrets that are good no longer, deliveries that are over, and idempotency keys past their day.
    pub async fn tidy(&self) -> Result<()> {
        for table in ["turn", "tool_result", "event"] {
            match sqlx::query!("select make_partitions_1($1, $2)", table, WEEKS_AHEAD)
                .fetch_one(&self.pool)
                .await
            {
                Ok(_) => {}
                // Somebody reads it, or tidies: there are weeks until it matters.
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
        self.forget_drafts().await?;
        sqlx::query!("delete from webhook_secret where expires_at < now()")
            .execute(&self.pool)
            .await?;
        while self.forget_some_deliveries().await? >= BATCH {}
        while self.forget_some_keys().await? >= BATCH {}
        Ok(())
    }

    /// What was delivered goes sooner than what somebody may still want to send again.
    async fn forget_some_deliveries(&self) -> Result<u64> {
        let gone = sqlx::query!(
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
        Ok(gone.rows_affected())
    }

    async fn forget_some_keys(&self) -> Result<u64> {
        let gone = sqlx::query!(
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
        Ok(gone.rows_affected())
    }
}

fn is_lock_timeout(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|answer| answer.code()).as_deref() == Some("55P03")
}
