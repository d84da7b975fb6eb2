use adjutant_agent::LeaseId;
use uuid::Uuid;

use crate::{Result, Worker};

impl Worker {
    /// Renews all of the worker's leases at once, and answers which of them are lost.
    ///
    /// To be called also with none: two renewals in a row make a worker one that may [sweep](Worker::sweep).
    pub async fn renew(&self, leases: &[LeaseId]) -> Result<Vec<LeaseId>> {
        let leases: Vec<Uuid> = leases.iter().map(|lease| lease.0).collect();
        let lost =
            sqlx::query_scalar!(r#"select lease as "lease!" from renew_1($1, $2) lease"#, self.id.0, &leases)
                .fetch_all(&self.store.pool)
                .await?;
        Ok(lost.into_iter().map(LeaseId).collect())
    }
}
