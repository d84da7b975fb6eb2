use std::time::Duration;

use adjutant_agent::{LeaseId, TaskId, WorkerId};
use uuid::Uuid;

use crate::end::End;
use crate::{Ending, Result, Worker};

/// The result of a worker's poll: everything that a lost notice could have reported, and conditions
/// that have no notice.
#[derive(Debug)]
pub struct PollResult {
    /// Tasks of its pool that it can run are in the queue.
    pub queued: bool,
    /// Leases expired more than the grace period ago: a [sweep](Worker::sweep) is due.
    pub expired: bool,
    /// Delayed tasks are due: [`admit_due`](crate::Store::admit_due).
    pub due: bool,
    /// Webhook deliveries are due: [`claim_deliveries`](crate::Store::claim_deliveries).
    pub delivers: bool,
    /// Deleted sessions have rows left: [`delete_batch`](crate::Store::delete_batch).
    pub deletes: bool,
    /// It can run other tasks than it says: [`update_can`](Worker::update_can) is due.
    pub is_outdated: bool,
    /// Some tasks need tools that it does not have:
    /// [`fail_without_tools`](Worker::fail_without_tools) is due from time to time.
    pub lacks_tools: bool,
    /// The time until tasks, leases or deliveries will be due.
    pub next: Option<Duration>,
    /// The live workers of its pool, including itself.
    pub peers: Vec<WorkerId>,
    /// There are live workers of other pools, which compete for the same slots.
    pub other_pools: bool,
    /// Leases that the worker listed and no longer holds.
    pub lost: Vec<LeaseId>,
    /// Leases that it holds but did not list, because the answer of a claim was lost; to be
    /// released.
    pub strays: Vec<Ending>,
}

impl Worker {
    /// Polls, and writes nothing. `leases` must be all leases that the worker knows of, and it must
    /// have no claim under way: the leases of one would be reported as strays.
    pub async fn poll(&self, leases: &[LeaseId], grace: Duration) -> Result<PollResult> {
        let known: Vec<Uuid> = leases.iter().map(|lease| lease.0).collect();
        let row = self.calls.call(async |connection| {
                sqlx::query!(
                    r#"select
                        queued as "queued!", expired as "expired!", due as "due!", next_s, peers as "peers!", other_pools as "other_pools!",
                        delivers as "delivers!", deletes as "deletes!", is_outdated as "is_outdated!", lacks_tools as "lacks_tools!", lost as "lost!", stray_slots as "stray_slots!", stray_tasks as "stray_tasks!", stray_leases as "stray_leases!"
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
        Ok(PollResult {
            queued: row.queued,
            expired: row.expired,
            due: row.due,
            delivers: row.delivers,
            deletes: row.deletes,
            is_outdated: row.is_outdated,
            lacks_tools: row.lacks_tools,
            next: row
                .next_s
                .map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default()),
            peers: row.peers.into_iter().map(WorkerId).collect(),
            other_pools: row.other_pools,
            lost: row.lost.into_iter().map(LeaseId).collect(),
            strays: strays
                .map(|((slot, task), lease)| self.release_by_id(slot, TaskId(task), LeaseId(lease)))
                .collect(),
        })
    }

    /// The release of a lease that the caller has no [`Lease`](crate::Lease) for.
    pub fn release_by_id(&self, slot: i32, task: TaskId, lease: LeaseId) -> Ending {
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
