//! How the whole fleet stands, for those who run it. It reads what is unfinished and nothing of the history, so that it can be
//! asked often.

use crate::{Result, Store};

/// The fleet at one moment, all tenants together.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    /// So many tasks may run at once.
    pub cap: i64,
    /// Tasks that have not ended: in the queue, in slots, behind their sessions' windows, delayed or waiting.
    pub unfinished: i64,
    /// Webhooks that are to be told of an end.
    pub undelivered: i64,
    /// By name; those that have workers or something in the queue.
    pub pools: Vec<PoolStanding>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PoolStanding {
    pub name: String,
    /// What may be claimed now.
    pub queued: i64,
    /// How long ago the oldest of that was spawned.
    pub oldest_s: Option<f64>,
    pub running: i64,
    /// Workers that were heard of lately.
    pub workers: i64,
    /// What these may run at once, if the cap lets them.
    pub concurrency: i64,
}

impl Store {
    /// How the fleet stands now.
    pub async fn fleet(&self) -> Result<Fleet> {
        self.call(async |connection| {
            let pools = sqlx::query_as!(
                PoolStanding,
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
                       (select count(*) from task where finished_at is null) as "unfinished!",
                       (select count(*) from webhook_delivery where state = 'pending') as "undelivered!""#
            )
            .fetch_one(connection)
            .await?;
            Ok(Fleet { cap: sums.cap, unfinished: sums.unfinished, undelivered: sums.undelivered, pools })
        })
        .await
    }
}
