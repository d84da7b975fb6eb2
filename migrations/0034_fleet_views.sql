-- The fleet as operators and autoscalers see it.

-- The pools that have queued tasks, living workers or running tasks, and the pool "default".
create view pool_in_use as
with recursive queued as (
    (select q.pool from queue q order by q.pool limit 1)
    union all
    select (select q.pool from queue q where q.pool > p.pool order by q.pool limit 1)
    from queued p
    where p.pool is not null
)
select pool from queued where pool is not null
union
select pool from living_worker
union
select pool from slot where task is not null
union
select 'default';

comment on view pool_in_use is
    'The pools that have queued tasks, living workers or running tasks, and the pool "default".';
comment on column pool_in_use.pool is 'The name of the pool.';

create view fleet as
select
    p.pool, c.cap, c.used, h.running, h.of_dead_workers, w.workers, w.concurrency, w.oldest_version, w.newest_version
from pool_in_use p
cross join (
    select count(*) filter (where open) as cap, count(task) as used from slot
) c
cross join lateral (
    select
        count(*) filter (where x.expires_at > now()) as running,
        count(*) filter (where x.expires_at <= now()) as of_dead_workers
    from slot x
    where x.task is not null and x.pool = p.pool
) h
cross join lateral (
    select
        count(*) as workers, coalesce(sum(l.concurrency), 0)::bigint as concurrency,
        min(l.version) as oldest_version, max(l.version) as newest_version
    from living_worker l
    where l.pool = p.pool
) w;

comment on view fleet is 'One row for each pool: its workers and its share of the slots.';
comment on column fleet.pool is 'The name of the pool.';
comment on column fleet.cap is 'The tasks that the whole fleet may run at once, in all pools.';
comment on column fleet.used is 'The slots that hold a task, in all pools.';
comment on column fleet.running is 'The slots with a running task of this pool.';
comment on column fleet.of_dead_workers is
    'The slots of this pool whose lease has ended: their tasks wait until a worker takes them over.';
comment on column fleet.workers is 'Living workers of this pool.';
comment on column fleet.concurrency is 'Tasks that these workers could run at once.';
comment on column fleet.oldest_version is 'The oldest release that runs, as text.';
comment on column fleet.newest_version is 'The newest release that runs, as text.';

-- The tasks of each tenant and pool that could start now, if there were workers and free slots:
-- counted up to the cap, and up to what the tenant's own cap leaves. Tasks of a model whose gate is
-- closed for longer than a task waits in its slot are left out. Tasks outside their session's
-- window, delayed tasks and those that wait for others are not in the queue.
create view runnable_tasks as
with recursive owners as (
    (select q.pool, q.tenant from queue q order by q.pool, q.tenant limit 1)
    union all
    select n.pool, n.tenant
    from owners o
    cross join lateral (
        select q.pool, q.tenant
        from queue q
        where (q.pool, q.tenant) > (o.pool, o.tenant)
        order by q.pool, q.tenant
        limit 1
    ) n
), closed as materialized (
    select array_agg(g.model) as models from model_gate g where g.closed_until > now() + interval '10 s'
)
select o.pool, o.tenant, case when t.cap is null then q.tasks else least(q.tasks, greatest(0, t.cap - h.held)) end as tasks
from owners o
cross join (select count(*) as cap from slot where open) c
left join tenant t on t.name = o.tenant
cross join lateral (
    select count(*) as held from slot x where x.task is not null and x.tenant = o.tenant
) h
cross join lateral (
    select count(*) as tasks
    from (
        select
        from queue q
        where q.pool = o.pool and q.tenant = o.tenant
            and ((select models from closed) is null or not exists (
                select from task k where k.id = q.task and k.model = any((select models from closed)::text[])
            ))
        limit c.cap
    ) first
) q;

comment on view runnable_tasks is
    'The tasks of each pool and tenant that could start now, counted up to the cap.';
comment on column runnable_tasks.pool is 'The name of the pool.';
comment on column runnable_tasks.tenant is 'The tenant.';
comment on column runnable_tasks.tasks is 'Queued tasks, at most the cap and what the tenant may run.';

create view worker_demand as
select
    f.pool, r.tasks as runnable, f.running,
    least(f.cap, r.tasks + f.running + f.of_dead_workers) as demand, f.concurrency
from fleet f
cross join lateral (
    select coalesce(sum(t.tasks), 0)::bigint as tasks from runnable_tasks t where t.pool = f.pool
) r;

comment on view worker_demand is
    'How many tasks the workers of each pool should be able to run now. An autoscaler divides '
    '`demand` by the concurrency of one worker. Running tasks are in it, so that it never scales '
    'down under work in progress.';
comment on column worker_demand.pool is 'The name of the pool.';
comment on column worker_demand.runnable is
    'Queued tasks that could start now: within the caps, without what gates hold back.';
comment on column worker_demand.running is 'Running tasks of the pool.';
comment on column worker_demand.demand is 
    'runnable + running + what dead workers left behind, at most the cap.';
comment on column worker_demand.concurrency is 'Tasks that its living workers could run at once.';
