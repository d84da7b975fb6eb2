-- The hot tables: tasks that may be claimed now, and tasks that run. Backlog and cap bound their
-- sizes. They have no foreign keys, whose checks would lock rows of the big tables for every claim.

create sequence queue_entry;

create table queue (
    session bigint not null,
    task uuid not null,
    tenant text not null,
    pool text not null,
    priority smallint not null,
    needs integer,
    entry bigint not null,
    primary key (session, task)
)
-- Claims step over dead index entries until a vacuum removes them, so every vacuum cleans the
-- indexes. Truncating the file would take an exclusive lock for space that is soon needed again.
with (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0, vacuum_index_cleanup = on, vacuum_truncate = off
);
-- Priority orders only inside a tenant. A loose scan of this index finds the tenants that have
-- queued tasks, and those of other pools, without reading all rows.
create unique index queue_order on queue (pool, tenant, priority desc, entry);

comment on table queue is
    'Tasks that may be claimed now. Delayed tasks and those outside their session''s window are '
    'not in it.';
comment on column queue.needs is
    'The requirement of the task: only workers that can run it claim it. Null: every worker can.';
comment on column queue.entry is
    'Order of entry inside pool, tenant and priority; entries at the front are negative.';

create table slot (
    n integer primary key,
    open boolean not null default true,
    task uuid,
    lease uuid,
    session bigint,
    worker uuid,
    attempt integer,
    claimed_at timestamptz,
    expires_at timestamptz,
    active_at timestamptz,
    answers_at_claim integer,
    answers integer,
    turns_used integer,
    input_tokens bigint,
    output_tokens bigint,
    cost_nanousd bigint,
    announced uuid,
    tenant text,
    weight integer,
    pool text,
    turn bigint,
    broken_calls integer not null default 0,
    -- A free slot keeps the tenant and the pool of its last task.
    constraint free_or_held check (
        num_nonnulls(
            task, lease, session, worker, attempt, claimed_at, expires_at, active_at,
            answers_at_claim, answers, turns_used, input_tokens, output_tokens, cost_nanousd
        ) = case when task is null or tenant is null or pool is null then 0 else 14 end
    ),
    constraint answers_only_grow check (answers >= answers_at_claim)
)
-- No column that changes is indexed, and pages have free space: claims, renewals and ends are HOT
-- updates, which add no index entries and whose dead rows need no vacuum. A slot is found by its
-- number, which is part of the lease.
with (
    fillfactor = 20,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0, vacuum_index_cleanup = on, vacuum_truncate = off
);

comment on table slot is
    'The cap: as many tasks run at once as there are open slots. A held slot is the lease of its '
    'task.';
comment on column slot.open is
    'A closed slot is never claimed. The claim reads this in the row that it locks: a cap stored '
    'elsewhere would come from a snapshot and could be out of date.';
comment on column slot.lease is 'The fence: random, new with every claim. A writer has to know it.';
comment on column slot.active_at is 'When the holder last stored something.';
comment on column slot.announced is
    'The lease whose start is among the events. It may be the lease of an earlier claim.';
comment on column slot.tenant is
    'The tenant of its task, or of its last one: a claim counts the held slots of each tenant.';
comment on column slot.weight is
    'The weight that the tenant had at the claim; 1 if no other tenant was waiting.';
comment on column slot.pool is 'The pool of its task, or of its last one.';
comment on column slot.turn is
    'Set by claims that chose between tenants or pools. The next choice goes on behind the tenant '
    'and the pool of the greatest turn.';
comment on column slot.broken_calls is
    'Model calls of the attempt that were broken off: their use is in the counters too.';
comment on column slot.turns_used is
    'Counters of the running attempt. Status reads them here; they move to the task when the '
    'attempt ends.';

insert into slot (n) select generate_series(1, 5);

create table cap_choice (
    one boolean primary key default true check (one),
    chosen_at timestamptz not null default now()
);

comment on table cap_choice is
    'One row as soon as somebody has chosen the cap: the first config with limits.cap, or a person. '
    'Until then it is that of a new database.';

create table worker (
    id uuid primary key,
    name text not null,
    pool text not null check (char_length(pool) between 1 and 255),
    concurrency integer not null check (concurrency > 0),
    version text not null,
    lease interval not null check (lease >= interval '2 seconds'),
    started_at timestamptz not null default now(),
    renewed_at timestamptz not null default now(),
    renewals integer not null default 0 check (renewals >= 0),
    stopped_at timestamptz,
    models text[],
    tools text[],
    servers_down jsonb not null default '{}',
    can integer[] not null default '{}'
) with (fillfactor = 50);

comment on table worker is
    'One process start of a worker. Rows of workers that stopped more than 7 days ago are deleted.';
comment on column worker.models is
    'The names of models that it can call; * stands for every name. Null: it runs tasks of every '
    'model.';
comment on column worker.tools is 'The names of its tools. Null: it runs tasks with any tools.';
comment on column worker.servers_down is
    'The MCP servers of its config that have not started, each with the reason.';
comment on column worker.can is 'The requirements that it satisfies, by id: it claims their tasks.';
comment on column worker.renewals is
    'Renewals in a row, each at most one lease after the one before. A sweep needs two: right '
    'after a database outage every lease looks expired.';

-- Few workers live, and the rows of past ones remain for a week.
create index worker_living on worker (pool) where stopped_at is null;
create index worker_stopped on worker (stopped_at) where stopped_at is not null;

create view living_worker as
select * from worker where stopped_at is null and renewed_at > now() - lease;

comment on view living_worker is
    'Workers that renewed within the time of a lease: the leases of all others have ended.';

-- Deletes workers that stopped so long ago, up to 1000, unless one still has a slot; returns how
-- many. Attempts keep their ids.
create function delete_stopped_workers_1(p_age interval) returns bigint language plpgsql as $$
declare
    gone bigint;
begin
    delete from worker
    where id in (
        select w.id
        from worker w
        where w.stopped_at < now() - p_age and not exists (select from slot x where x.worker = w.id)
        limit 1000
        for update skip locked
    );
    get diagnostics gone = row_count;
    return gone;
end $$;

-- When a lease ends that its worker renews now. It never gets shorter: now() is the start of the
-- transaction, and a later renewal may have committed since.
create function renewed_until_1(p_expires_at timestamptz, p_worker uuid) returns timestamptz language plpgsql stable as $$
begin
    return greatest(p_expires_at, now() + (select lease from worker where id = p_worker));
end $$;

-- Frees slots. Needs their locks. The tenant, the pool and the turn stay, as the memory of choices.
create function free_slots_1(p_slots integer[]) returns void language plpgsql as $$
begin
    if cardinality(p_slots) > 0 then
        update slot
        set task = null, lease = null, session = null, worker = null, attempt = null,
            claimed_at = null, expires_at = null, active_at = null,
            answers_at_claim = null, answers = null, turns_used = null,
            input_tokens = null, output_tokens = null, cost_nanousd = null
        where n = any(p_slots);
    end if;
end $$;

-- Checks a task's lease without locking its slot. The session's lock is the fence here, because
-- every transaction that takes a lease away holds it. Not locking the slot keeps the lock order:
-- the slots of children may be locked next.
create function check_lease_1(p_session bigint, p_slot integer, p_task uuid, p_lease uuid) returns void language plpgsql as $$
begin
    perform lock_sessions_1(array[p_session]);
    perform from slot where n = p_slot and session = p_session and task = p_task and lease = p_lease;
    if not found then
        perform lease_lost(p_task);
    end if;
end $$;
select plan_by_index('check_lease_1');

-- Changes the fleet-wide cap. Growing opens slots. Shrinking closes them; their tasks run to their
-- end, and until then each keeps an open slot empty (see claim_1). All slots are locked, so that
-- every claim is before the change or after it.
create function set_cap_1(p_cap integer) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock(hashtext('adjutant set_cap'));
    perform from slot order by n for update;
    update slot set open = (n <= p_cap) where open <> (n <= p_cap);
    insert into slot (n) select generate_series(1, p_cap) on conflict do nothing;
    insert into cap_choice default values on conflict do nothing;
end $$;

-- Sets the cap, unless somebody has chosen it. Looks again under the lock: processes that start
-- together may have different configs, and the first one's counts.
create function adopt_cap_1(p_cap integer, out adopted boolean, out cap bigint) language plpgsql as $$
begin
    adopted := false;
    if not exists (select from cap_choice) then
        perform pg_advisory_xact_lock(hashtext('adjutant set_cap'));
        adopted := not exists (select from cap_choice);
        if adopted then
            perform set_cap_1(p_cap);
        end if;
    end if;
    select count(*) into cap from slot where open;
end $$;

-- Whether this connection counted this queue to 1000 within the last 100 ms (see queue_length_1).
create function is_known_long_1(p_tenant text, p_pool text, p_priority smallint) returns boolean language plpgsql as $$
declare
    counted text := current_setting('adjutant.long_queue', true);
begin
    return coalesce(
        counted like '%' || chr(10) || '%'
        and substr(counted, position(chr(10) in counted) + 1) = concat_ws(chr(10), p_priority, p_pool, p_tenant)
        and clock_timestamp() < split_part(counted, chr(10), 1)::timestamptz + interval '100 ms',
        false
    );
end $$;

-- The number of a tenant's queued tasks at this priority or above, counted up to 1000. A long queue
-- is still long a moment later: a connection that has just counted to 1000 does not count again for
-- 100 ms.
create function queue_length_1(p_tenant text, p_pool text, p_priority smallint) returns integer language plpgsql as $$
declare
    tasks integer;
begin
    if is_known_long_1(p_tenant, p_pool, p_priority) then
        return 1000;
    end if;
    select count(*) into tasks
    from (select from queue b where b.pool = p_pool and b.tenant = p_tenant and b.priority >= p_priority limit 1000) b;
    if tasks = 1000 then
        perform set_config('adjutant.long_queue', concat_ws(chr(10), clock_timestamp(), p_priority, p_pool, p_tenant), false);
    end if;
    return tasks;
end $$;
select plan_by_index('queue_length_1');

-- The number of the same tenant's tasks before each of these, counted up to 1000. Tasks that are
-- not queued, or run, have no row.
create function queue_positions_1(p_session bigint, p_tasks uuid[])
returns table (task uuid, place integer) language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    with queued as materialized (
        select q.task, q.pool from queue q where q.session = p_session
    ), outside as (
        select
            t.id, t.pool, t.priority, t.attempt > 0 as in_front,
            row_number() over (order by t.not_before nulls first, (t.attempt = 0), t.number) - 1 as before
        from task t
        -- finished_at selects the partial index, which is as short as the backlog.
        where t.session = p_session and t.state = 'queued' and t.finished_at is null
            and t.id <> all(array(
                select q.task from queued q
                union all
                select x.task from slot x where x.session = p_session
            ))
    ), requested as materialized (
        select o.* from outside o where o.id = any(p_tasks)
    ), backlog as materialized (
        -- What will be before them when they are admitted: at the back of their priority, or at its
        -- front.
        select o.pool, o.priority, o.in_front, case when not o.in_front then queue_length_1(o.tenant, o.pool, o.priority) else (
            select count(*)
            from (
                select from queue b
                where b.pool = o.pool and b.tenant = o.tenant
                    and (b.priority > o.priority or (b.priority = o.priority and b.entry < 0))
                limit 1000
            ) b
        ) end as queued
        from (
            select distinct a.pool, s.tenant, a.priority, a.in_front
            from requested a
            cross join session s
            where s.id = p_session
        ) o
    ), ahead as materialized (
        select p.pool, array(
            select b.task
            from queue b
            where b.pool = p.pool and b.tenant = s.tenant
            order by b.priority desc, b.entry
            limit 1000
        ) as tasks
        from (select distinct q.pool from queued q where q.task = any(p_tasks)) p
        cross join session s
        where s.id = p_session
    )
    select q.task, coalesce(array_position(a.tasks, q.task) - 1, 1000)
    from queued q
    join ahead a on a.pool = q.pool
    where q.task = any(p_tasks)
    union all
    select a.id, least(1000, a.before + b.queued)::integer
    from requested a
    join backlog b using (pool, priority, in_front);
end $$;
select plan_by_index('queue_positions_1');
