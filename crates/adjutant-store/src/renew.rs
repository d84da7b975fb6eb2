use adjutant_agent::LeaseId;
use uuid::Uuid;

use crate::{Result, Worker};

/// The result of a renewal. A lease in neither list is still held, but its row was locked: its time
/// of expiry is unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewal {
    pub renewed: Vec<LeaseId>,
    pub lost: Vec<LeaseId>,
}

impl Worker {
    /// Renews all of the worker's leases in one statement.
    ///
    /// Call it also without leases: it proves that the worker is alive, and only a worker that
    /// renewed twice in a row may [sweep](Worker::sweep).
    pub async fn renew(&self, leases: &[LeaseId]) -> Result<Renewal> {
        let leases: Vec<Uuid> = leases.iter().map(|lease| lease.0).collect();
        let rows = self
            .calls
            .call(async |connection| {
                sqlx::query!(
                    r#"select lease as "lease!", what as "what!" from renew_1($1, $2)"#,
                    self.id.0,
                    &leases
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        let mut renewal = Renewal::default();
        for row in rows {
            match row.what.as_str() {
                "renewed" => renewal.renewed.push(LeaseId(row.lease)),
                "lost" => renewal.lost.push(LeaseId(row.lease)),
                _ => {}
            }
        }
        Ok(renewal)
    }
}
