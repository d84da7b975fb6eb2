use crate::{Result, Store};

impl Store {
    /// Housekeeping, now and then, by any process: partitions for the weeks to come, and idempotency keys past their day.
    pub async fn tidy(&self) -> Result<()> {
        sqlx::query!("select make_partitions_1(5)").fetch_one(&self.pool).await?;
        // In small batches, so that no spawn waits for a long delete.
        loop {
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
            if gone.rows_affected() < 1000 {
                return Ok(());
            }
        }
    }
}
