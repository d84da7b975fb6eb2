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
    /// Tasks in the state queued: those in `pools`, and those that are delayed, outside the window
    /// of their session, or left behind by a lost worker.
    pub queued: i64,
    /// Tasks that have not ended: queued, running, delayed, waiting, or held back by the window of
    /// their session. Those of a deleted session count until their rows are deleted.
    pub unfinished: i64,
    /// Webhook deliveries that are pending.
    pub undelivered: i64,
    /// Models that no worker may call now.
    pub closed_gates: Vec<ClosedGate>,
    /// The pool `default`, and pools that have tasks to claim, or had workers in the last day, by
    /// name.
    pub pools: Vec<PoolStats>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PoolStats {
    pub name: String,
    /// Tasks that may be claimed now.
    pub ready: i64,
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
                       p.pool as "name!", coalesce(q.tasks, 0) as "ready!", q.oldest_s::double precision as oldest_s,
                       (select count(*) from slot x where x.pool = p.pool and x.expires_at > now()) as "running!",
                       (select count(*) from living_worker w where w.pool = p.pool) as "workers!",
                       (select coalesce(sum(w.concurrency), 0) from living_worker w where w.pool = p.pool) as "concurrency!"
                   from (
                       select 'default' as pool
                       union
                       select pool from worker where stopped_at is null or stopped_at > now() - interval '1 day'
                       union
                       select pool from queued
                   ) p
                   left join queued q on q.pool = p.pool
                   order by p.pool"#
            )
            .fetch_all(&mut *connection)
            .await?;
            let sums = sqlx::query!(
                r#"select
                       (select count(*) from slot where open) as "cap!",
                       (select count(*) from slot where expires_at > now()) as "running!",
                       b.unfinished as "unfinished!",
                       b.waiting as "waiting!",
                       (
                           select count(*) from webhook_delivery d join session s on s.id = d.session where d.state = 'pending'
                       ) as "undelivered!"
                   from (
                       select
                           coalesce(sum(c.unfinished), 0)::bigint as unfinished,
                           coalesce(sum(c.waiting), 0)::bigint as waiting
                       from (
                           select unfinished, waiting from tenant_backlog
                           union all
                           select case when outcome = 'spawned' then tasks else -tasks end, waiting from usage_delta
                       ) c
                   ) b"#
            )
            .fetch_one(&mut *connection)
            .await?;
            Ok(Fleet {
                cap: sums.cap,
                queued: sums.unfinished - sums.waiting - sums.running,
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
