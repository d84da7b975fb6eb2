-- why: what an unfinished task waits for. This is the one place that decides it; every view,
-- answer and command shows what it says. A task has exactly one reason, the most binding one: the
-- one that has to go away before any other matters.

-- What the reasons are decided from, for tasks that have not ended. The slots and the workers are
-- read once for all of them, and each task by its indexes.
--
-- A worker renews its leases three times before they end. One that has missed half of that, or has
-- not renewed since the database started, is silent.
create function waiting_facts_1(p_tasks uuid[])
returns table (
    task uuid, waiting_for text, not_before timestamptz, attempt integer, pool text,
    lease_until timestamptz, is_silent boolean, max_active integer, is_in_queue boolean,
    cap bigint, free bigint, tenant_cap integer, tenant_holds bigint, tenant_share numeric,
    workers bigint, places bigint, free_places bigint,
    gate text, gate_error text, gate_until timestamptz, limited_model text
) language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    with own as materialized (
        select x.task, x.expires_at, x.worker from slot x where x.task = any(p_tasks)
    ), fleet as materialized (
        select
            count(*) filter (where x.open) as cap,
            -- A task in a closed slot keeps an open one empty.
            count(*) filter (where x.open and x.task is null) - count(*) filter (where not x.open and x.task is not null) as free
        from slot x
    ), held as materialized (
        select x.tenant, count(*) as slots, max(x.weight) as weight from slot x where x.task is not null group by x.tenant
    ), busy as materialized (
        select x.worker, count(*) as tasks from slot x where x.task is not null group by x.worker
    ), pools as materialized (
        select w.pool, count(*) as workers, sum(w.concurrency) as places, sum(w.concurrency - coalesce(b.tasks, 0)) as room
        from living_worker w
        left join busy b on b.worker = w.id
        group by w.pool
    )
    select
        t.id, t.waiting_for::text, t.not_before, t.attempt, t.pool,
        x.expires_at,
        x.task is not null and (
            w.id is null or w.stopped_at is not null or w.renewed_at < greatest(now() - w.lease / 2, pg_postmaster_start_time())
        ),
        s.max_active, q.task is not null,
        f.cap, f.free, n.cap, coalesce(h.slots, 0),
        -- Null: no other tenant holds a slot.
        f.cap * coalesce(n.weight, 1)::numeric / (coalesce(n.weight, 1) + others.weight),
        coalesce(p.workers, 0), coalesce(p.places, 0)::bigint, coalesce(p.room, 0)::bigint,
        g.model, g.error, g.closed_until, l.model
    from unnest(p_tasks) given (id)
    join task t on t.id = given.id
    join session s on s.id = t.session
    cross join fleet f
    left join own x on x.task = t.id
    left join worker w on w.id = x.worker
    left join tenant n on n.name = s.tenant
    left join held h on h.tenant = s.tenant
    left join pools p on p.pool = t.pool
    left join queue q on q.session = t.session and q.task = t.id
    left join model_gate g on g.model = t.model and (g.closed_until > now() or g.reason = 'circuit')
    left join lateral (select y.model from model_waiter y where y.task = t.id limit 1) l on true
    cross join lateral (select sum(o.weight) as weight from held o where o.tenant <> s.tenant) others
    where t.finished_at is null;
end $$;
select plan_by_index('waiting_facts_1');

-- The unfinished tasks that this one waits for: three by name, and the number of the others.
create function awaited_names_1(p_task uuid) returns text language plpgsql stable as $$
begin
    return (
        select
            string_agg(task_name(d.number), ', ' order by d.number) filter (where d.place <= 3)
            || case when count(*) > 3 then format(' and %s more', count(*) - 3) else '' end
        from (
            select d.number, row_number() over (order by d.number) as place
            from awaited a
            join task d on d.id = a.on_task
            where a.task = p_task and d.finished_at is null
        ) d
    );
end $$;
select plan_by_index('awaited_names_1');

-- Why these tasks do not run: a code, a sentence, and until when if that is known. No row for a
-- task that has ended, or whose worker answers. The sentence is for the tenant: it has facts of the
-- fleet, and no name or count of another tenant.
create function why_of_1(p_tasks uuid[])
returns table (task uuid, code text, text text, until timestamptz) language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    select
        w.task, c.code,
        case c.code
            when 'lease' then case
                when w.lease_until > now() then 'Its worker does not answer; another one takes it over when its lease ends'
                else 'Its worker is lost; another one takes it over'
            end
            when 'dependency' then coalesce('It depends on ' || awaited_names_1(w.task), 'Its dependencies have just ended')
            when 'children' then coalesce(
                case w.waiting_for when 'any_child' then 'It waits for one of its children: ' else 'It waits for its children: ' end
                    || awaited_names_1(w.task),
                'Its children have just ended'
            )
            when 'rate' then format('It waits for its turn under the limits of model %s', w.limited_model)
            when 'gate' then format('Calls of model %s are held back', w.gate) || coalesce(': ' || w.gate_error, '')
            when 'delay' then 'It is delayed'
            when 'no_worker' then format('No worker of pool %s is alive', w.pool)
            when 'window' then format('Its session has %s tasks in the queue or running, as many as its window allows', w.max_active)
            when 'tenant' then case
                when w.tenant_holds >= w.tenant_cap then format('Its tenant runs %s tasks, as many as its cap allows', w.tenant_holds)
                else 'Its tenant has its share of the slots, and all slots are in use'
            end
            when 'cap' then case w.cap
                when 0 then 'The cap is 0, so no task starts'
                else format('All %s slots of the fleet are in use', w.cap)
            end
            when 'workers' then format('All %s places of the workers of pool %s are in use', w.places, w.pool)
            when 'next' then 'A worker is about to start it'
        end,
        case c.code
            when 'lease' then case when w.lease_until > now() then w.lease_until end
            when 'gate' then greatest(w.gate_until, w.not_before)
            when 'rate' then w.not_before
            when 'delay' then w.not_before
            when 'children' then w.not_before
        end
    from waiting_facts_1(p_tasks) w
    cross join lateral (
        select case
            when w.lease_until is not null and (w.lease_until > now() or w.workers > 0) then 'lease'
            when w.waiting_for = 'dependencies' then 'dependency'
            when w.waiting_for is not null then 'children'
            when w.not_before > now() and w.limited_model is not null then 'rate'
            when w.not_before > now() and w.attempt > 0 and w.gate is not null then 'gate'
            when w.not_before > now() then 'delay'
            when w.workers = 0 then 'no_worker'
            when w.cap = 0 then 'cap'
            when not w.is_in_queue and w.not_before is null then 'window'
            when w.tenant_holds >= w.tenant_cap then 'tenant'
            when w.free <= 0 and w.tenant_holds >= w.tenant_share then 'tenant'
            when w.free <= 0 then 'cap'
            when w.free_places <= 0 then 'workers'
            else 'next'
        end as code
    ) c
    where w.lease_until is null or w.lease_until <= now() or w.is_silent;
end $$;
select plan_by_index('why_of_1');
