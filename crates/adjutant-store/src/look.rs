use std::time::Duration;

use adjutant_agent::{LeaseId, TaskId, WorkerId};
use uuid::Uuid;

use crate::end::End;
use crate::{Ending, Result, Worker};

/// What a worker's poll finds: everything that a notice may have told it already, and what nobody tells.
#[derive(Debug)]
pub struct Look {
    /// Something of its pool is in the queue.
    pub queued: bool,
    /// Leases ran out longer than the grace ago: a [sweep](Worker::sweep) is due.
    pub expired: bool,
    /// Delayed tasks have their time: [`admit_due`](crate::Store::admit_due).
    pub due: bool,
    /// Webhooks are to be told something: [`claim_deliveries`](crate::Store::claim_deliveries).
    pub delivers: bool,
    /// When the first of the three above will be, if nothing changes.
    pub next: Option<Duration>,
    /// The living workers of its pool, itself among them.
    pub peers: Vec<WorkerId>,
    /// There are living workers of other pools: they wait for the same slots.
    pub other_pools: bool,
    /// Leases that it believes to hold and does not.
    pub lost: Vec<LeaseId>,
    /// Leases that it holds without knowing it, because the answer to a claim never came; they can be given back.
    pub strays: Vec<Ending>,
}

impl Worker {
    /// Looks around, and changes nothing. `leases` are all that it holds, and no claim of its own is under way.
    pub async fn look(&self, leases: &[LeaseId], grace: Duration) -> Result<Look> {
        let known: Vec<Uuid> = leases.iter().map(|lease| lease.0).collect();
        let row = self.calls.call(async |connection| {
                sqlx::query!(
                    r#"select
                        queued as "queued!", expired as "expired!", due as "due!", next_s, peers as "peers!", other_pools as "other_pools!",
                        delivers as "delivers!", lost as "lost!", stray_slots as "stray_slots!", stray_tasks as "stray_tasks!", stray_leases as "stray_leases!"
                       from poll_1($1, $2, make_interval(secs => $3))"#,
                    self.id.0,
                    &known,
                    grace.as_secs_f64()
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        let strays = row.stray_slots.into_iter().zip(row.stray_tasks).zip(row.stray_leases);
        Ok(Look {
            queued: row.queued,
            expired: row.expired,
            due: row.due,
            delivers: row.delivers,
            next: row
                .next_s
                .map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default()),
            peers: row.peers.into_iter().map(WorkerId).collect(),
            other_pools: row.other_pools,
            lost: row.lost.into_iter().map(LeaseId).collect(),
            strays: strays
                .map(|((slot, task), lease)| self.give_back(slot, TaskId(task), LeaseId(lease)))
                .collect(),
        })
    }

    /// The release of a lease whose [`Lease`](crate::Lease) is out of reach.
    pub fn give_back(&self, slot: i32, task: TaskId, lease: LeaseId) -> Ending {
        Ending {
            store: self.store.clone(),
            session: None,
            task,
            lease,
            slot,
            end: End::Released { delay_s: None },
        }
    }
}
