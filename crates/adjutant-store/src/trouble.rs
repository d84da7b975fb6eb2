//! What is wrong with the fleet, for an operator. Each query reads a bounded number of rows,
//! whatever the backlog and the history hold.

use chrono::{DateTime, Utc};
use sqlx::{Acquire, PgConnection};

use crate::{Result, Store};

/// The fleet's troubles now and in the last 15 minutes, all tenants together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trouble {
    pub pools: Vec<PoolLoad>,
    /// When a worker that is not alive any more was last heard of.
    pub last_heard: Option<LostWorker>,
    /// Workers that do not answer and hold tasks, or died without stopping.
    pub lost: Vec<LostWorker>,
    pub gates: Vec<HeldModel>,
    /// What queued tasks need and no living worker of their pool has.
    pub unable: Vec<UnablePool>,
    /// MCP servers that living workers cannot use.
    pub servers: Vec<DownServer>,
    /// Tools whose recent calls failed at least half of the time.
    pub tools: Vec<FailingTool>,
    /// Model calls that failed in the last 5 minutes and are tried again.
    pub retried: Vec<RetriedCalls>,
    pub failures: Vec<RecentFailures>,
    /// Tasks that completed in the last 15 minutes.
    pub completed: i64,
    /// The tenant with the most unfinished tasks.
    pub largest: Option<LargestTenant>,
    /// Transactions that have been open for more than a minute.
    pub transactions: Vec<LongTransaction>,
}

/// A pool that has workers, running tasks or tasks to claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolLoad {
    pub name: String,
    pub workers: i64,
    /// How many tasks these workers can run at once, and how many they run.
    pub places: i64,
    pub busy: i64,
    /// Tasks that may be claimed now, counted up to 1000.
    pub ready: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostWorker {
    pub name: String,
    pub heard_at: DateTime<Utc>,
    pub tasks: i64,
    /// When the last of its leases ends.
    pub until: Option<DateTime<Utc>>,
}

/// A model that no worker calls now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldModel {
    pub model: String,
    /// Only a call that succeeds opens it.
    pub is_circuit: bool,
    pub until: DateTime<Utc>,
    /// What closed it.
    pub error: Option<String>,
    /// Tasks that wait for it: at a circuit up to 1000, else of the first 1000 that are delayed.
    pub tasks: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnablePool {
    /// What is missing, as a sentence.
    pub text: String,
    /// Of the first 1000 queued tasks that need something.
    pub tasks: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownServer {
    pub server: String,
    pub reason: String,
    pub workers: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailingTool {
    pub tool: String,
    pub calls: i64,
    pub errors: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetriedCalls {
    pub model: String,
    pub host: String,
    pub error: String,
    pub tasks: i64,
}

/// Tasks that failed in the last 15 minutes, of the newest 1000 that did not complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentFailures {
    pub kind: String,
    pub tasks: i64,
    /// Of the last one.
    pub error: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargestTenant {
    pub tenant: String,
    pub unfinished: i64,
    /// Of all tenants.
    pub all: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongTransaction {
    pub pid: i32,
    pub user: String,
    pub application: String,
    pub seconds: i64,
}

impl Store {
    /// Reads everything that may be wrong with the fleet.
    pub async fn trouble(&self) -> Result<Trouble> {
        self.call(async |connection| {
            Ok(Trouble {
                pools: pools(connection).await?,
                last_heard: last_heard(connection).await?,
                lost: lost_workers(connection).await?,
                gates: held_models(connection).await?,
                unable: unable_pools(connection).await?,
                servers: down_servers(connection).await?,
                tools: failing_tools(connection).await?,
                retried: retried_calls(connection).await?,
                failures: recent_failures(connection).await?,
                completed: completed(connection).await?,
                largest: largest_tenant(connection).await?,
                transactions: long_transactions(connection).await?,
            })
        })
        .await
    }

    /// Whether the database can write 16 MB, which are gone afterwards: SQL cannot read how much
    /// space its disk has left.
    pub async fn can_write(&self) -> Result<()> {
        self.call(async |connection| {
            let mut transaction = connection.begin().await?;
            // Each row is just too short to be compressed.
            sqlx::query(
                "create temporary table adjutant_disk_check on commit drop as
                 select repeat(md5(n::text), 60) as filler from generate_series(1, 8192) n",
            )
            .execute(&mut *transaction)
            .await?;
            transaction.rollback().await
        })
        .await
    }
}

async fn pools(connection: &mut PgConnection) -> sqlx::Result<Vec<PoolLoad>> {
    sqlx::query_as!(
        PoolLoad,
        r#"select p.pool as "name!", w.workers as "workers!", w.places as "places!", b.busy as "busy!", r.ready as "ready!"
           from pool_in_use p
           cross join lateral (
               select count(*) as workers, coalesce(sum(l.concurrency), 0)::bigint as places
               from living_worker l
               where l.pool = p.pool
           ) w
           cross join lateral (
               select count(*) as busy from slot x join living_worker l on l.id = x.worker where l.pool = p.pool
           ) b
           cross join lateral (
               select count(*) as ready from (select from queue q where q.pool = p.pool limit 1000) q
           ) r
           order by p.pool"#
    )
    .fetch_all(connection)
    .await
}

async fn last_heard(connection: &mut PgConnection) -> sqlx::Result<Option<LostWorker>> {
    sqlx::query_as!(
        LostWorker,
        r#"select w.name, w.renewed_at as heard_at, 0::bigint as "tasks!", null::timestamptz as until
           from worker w
           where w.stopped_at is null or w.stopped_at > now() - interval '7 days'
           order by w.renewed_at desc
           limit 1"#
    )
    .fetch_optional(connection)
    .await
}

/// By the rule of `waiting_facts_1`: what doctor says of a worker and what its tasks say agree.
async fn lost_workers(connection: &mut PgConnection) -> sqlx::Result<Vec<LostWorker>> {
    sqlx::query_as!(
        LostWorker,
        r#"select w.name, w.renewed_at as heard_at, h.tasks as "tasks!", h.until
           from worker w
           cross join lateral (
               select count(*) as tasks, max(x.expires_at) as until from slot x where x.worker = w.id
           ) h
           where (w.stopped_at is null or w.stopped_at > now() - interval '1 day')
               and case
                   when h.tasks > 0 then w.stopped_at is not null
                       or w.renewed_at < greatest(now() - w.lease / 2, pg_postmaster_start_time())
                   else w.stopped_at is null and w.renewed_at between now() - interval '15 minutes' and now() - w.lease
               end
           order by h.tasks desc, w.renewed_at desc
           limit 5"#
    )
    .fetch_all(connection)
    .await
}

async fn held_models(connection: &mut PgConnection) -> sqlx::Result<Vec<HeldModel>> {
    sqlx::query_as!(
        HeldModel,
        r#"with delayed as materialized (
               select model from task where not_before is not null and finished_at is null order by not_before limit 1000
           )
           select
               g.model, g.reason = 'circuit' as "is_circuit!", g.closed_until as until, g.error,
               case
                   when g.reason = 'circuit' then (
                       select count(*)
                       from (select from failed_call f where f.model = g.model and f.waits_since is not null limit 1000) f
                   )
                   else (select count(*) from delayed d where d.model = g.model)
               end as "tasks!"
           from model_gate g
           where g.closed_until > now() or g.reason = 'circuit'
           order by g.model
           limit 20"#
    )
    .fetch_all(connection)
    .await
}

async fn unable_pools(connection: &mut PgConnection) -> sqlx::Result<Vec<UnablePool>> {
    sqlx::query_as!(
        UnablePool,
        r#"select text as "text!", tasks as "tasks!" from unable_pools_1()"#
    )
    .fetch_all(connection)
    .await
}

async fn down_servers(connection: &mut PgConnection) -> sqlx::Result<Vec<DownServer>> {
    sqlx::query_as!(
        DownServer,
        r#"select left(d.name, 64) as "server!", left(min(d.reason), 300) as "reason!", count(*) as "workers!"
           from living_worker l
           cross join jsonb_each_text(l.servers_down) d (name, reason)
           group by d.name
           order by d.name
           limit 10"#
    )
    .fetch_all(connection)
    .await
}

/// From the newest events of the sessions that run tasks or got the newest ones: events are found
/// by session, and an index by time would slow down every write.
async fn failing_tools(connection: &mut PgConnection) -> sqlx::Result<Vec<FailingTool>> {
    sqlx::query_as!(
        FailingTool,
        r#"with active as materialized (
               select distinct s.session
               from (
                   (select session from slot where task is not null limit 100)
                   union all
                   (select session from task order by id desc limit 500)
               ) s
               limit 100
           )
           select e.tool as "tool!", count(*) as "calls!", count(*) filter (where e.is_error) as "errors!"
           from active a
           cross join lateral (
               select e.kind, e.tool, e.is_error
               from event e
               where e.session = a.session and e.at > now() - interval '15 minutes'
               order by e.seq desc
               limit 200
           ) e
           where e.kind = 'tool' and e.tool is not null
           group by e.tool
           having count(*) >= 3 and count(*) filter (where e.is_error) * 2 >= count(*)
           order by 3 desc, 1
           limit 10"#
    )
    .fetch_all(connection)
    .await
}

/// Rows of calls that have succeeded since do not count; workers delete them.
async fn retried_calls(connection: &mut PgConnection) -> sqlx::Result<Vec<RetriedCalls>> {
    sqlx::query_as!(
        RetriedCalls,
        r#"select f.model, f.host, f.error, count(*) as "tasks!"
           from (
               select task, model, host, error, answers
               from failed_call
               where last_failed_at > now() - interval '5 minutes' and waits_since is null
               limit 1000
           ) f
           join task t on t.id = f.task and t.finished_at is null
           left join slot x on x.task = t.id
           where f.answers = coalesce(x.answers, t.answers)
           group by f.model, f.host, f.error
           order by 4 desc, 1
           limit 10"#
    )
    .fetch_all(connection)
    .await
}

async fn recent_failures(connection: &mut PgConnection) -> sqlx::Result<Vec<RecentFailures>> {
    sqlx::query_as!(
        RecentFailures,
        r#"select
               f.failure::text as "kind!", count(*) as "tasks!",
               (array_agg(left(f.error, 200) order by f.finished_at desc))[1] as "error!"
           from (
               select failure, error, finished_at
               from task
               where state in ('failed', 'cancelled')
               order by id desc
               limit 1000
           ) f
           where f.failure is not null and f.finished_at > now() - interval '15 minutes'
           group by f.failure
           order by 2 desc, 1"#
    )
    .fetch_all(connection)
    .await
}

async fn completed(connection: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"select coalesce(sum(u.tasks), 0)::bigint as "tasks!"
           from (
               select tasks from usage_minute where minute > now() - interval '15 minutes' and outcome = 'completed'
               union all
               select tasks from usage_delta where outcome = 'completed'
           ) u"#
    )
    .fetch_one(connection)
    .await
}

async fn largest_tenant(connection: &mut PgConnection) -> sqlx::Result<Option<LargestTenant>> {
    sqlx::query_as!(
        LargestTenant,
        r#"select t.tenant as "tenant!", t.unfinished as "unfinished!", sum(t.unfinished) over ()::bigint as "all!"
           from (
               select b.tenant, sum(b.unfinished)::bigint as unfinished
               from (
                   select tenant, unfinished from tenant_backlog
                   union all
                   select tenant, case when outcome = 'spawned' then tasks else -tasks end from usage_delta
               ) b
               group by b.tenant
           ) t
           order by t.unfinished desc, t.tenant
           limit 1"#
    )
    .fetch_optional(connection)
    .await
}

/// Those that the database's user may see.
async fn long_transactions(connection: &mut PgConnection) -> sqlx::Result<Vec<LongTransaction>> {
    sqlx::query_as!(
        LongTransaction,
        r#"select
               pid as "pid!", coalesce(usename, '')::text as "user!", coalesce(application_name, '') as "application!",
               extract(epoch from now() - xact_start)::bigint as "seconds!"
           from pg_stat_activity
           where xact_start < now() - interval '1 minute' and pid <> pg_backend_pid() and backend_type = 'client backend'
           order by xact_start
           limit 3"#
    )
    .fetch_all(connection)
    .await
}
