//! The state of the whole fleet, for operators. It reads unfinished tasks and no history, so that
//! it can be scraped often.

use adjutant_agent::{TaskId, WorkerId};

use crate::gate;
use crate::{ClosedGate, Result, Store};

/// The fleet at one moment, all tenants together.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    /// The fleet-wide cap.
    pub cap: i64,
    /// Tasks that have not ended: queued, running, delayed, waiting, or held back by the window of
    /// their session.
    pub unfinished: i64,
    /// Webhook deliveries that are pending.
    pub undelivered: i64,
    /// Models that no worker may call now.
    pub closed_gates: Vec<ClosedGate>,
    /// Pools that have live workers or queued tasks, by name.
    pub pools: Vec<PoolStats>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PoolStats {
    pub name: String,
    /// Tasks that may be claimed now.
    pub queued: i64,
    /// Seconds since the oldest of them was spawned.
    pub oldest_s: Option<f64>,
    pub running: i64,
    /// Live workers.
    pub workers: i64,
    /// The number of tasks that these workers may run at once, below the cap.
    pub concurrency: i64,
}

impl Store {
    /// The state of the fleet now.
    pub async fn fleet(&self) -> Result<Fleet> {
        self.call(async |connection| {
            let pools = sqlx::query_as!(
                PoolStats,
                r#"with queued as materialized (
                       select q.pool, count(*) as tasks, extract(epoch from now() - min(t.created_at)) as oldest_s
                       from queue q
                       join task t on t.id = q.task
                       group by q.pool
                   )
                   select
                       p.pool as "name!", coalesce(q.tasks, 0) as "queued!", q.oldest_s::double precision as oldest_s,
                       (select count(*) from slot x join worker w on w.id = x.worker where w.pool = p.pool) as "running!",
                       (select count(*) from living_worker w where w.pool = p.pool) as "workers!",
                       (select coalesce(sum(w.concurrency), 0) from living_worker w where w.pool = p.pool) as "concurrency!"
                   from (select pool from living_worker union select pool from queued) p
                   left join queued q on q.pool = p.pool
                   order by p.pool"#
            )
            .fetch_all(&mut *connection)
            .await?;
            let sums = sqlx::query!(
                r#"select
                       (select count(*) from slot where open) as "cap!",
                       (
                           select count(*) from task t join session s on s.id = t.session where t.finished_at is null
                       ) as "unfinished!",
                       (
                           select count(*) from webhook_delivery d join session s on s.id = d.session where d.state = 'pending'
                       ) as "undelivered!""#
            )
            .fetch_one(&mut *connection)
            .await?;
            Ok(Fleet {
                cap: sums.cap,
                unfinished: sums.unfinished,
                undelivered: sums.undelivered,
                closed_gates: gate::closed(connection).await?,
                pools,
            })
        })
        .await
    }

    /// The workers that hold leases, with the tasks that they run.
    pub async fn busy_workers(&self) -> Result<Vec<(WorkerId, Vec<TaskId>)>> {
        let rows = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select worker as "worker!", array_agg(task) as "tasks!"
                       from slot
                       where worker is not null
                       group by worker"#
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        Ok(rows
            .into_iter()
            .map(|row| (WorkerId(row.worker), row.tasks.into_iter().map(TaskId).collect()))
            .collect())
    }
}
