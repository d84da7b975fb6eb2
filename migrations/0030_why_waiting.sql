-- why: what an unfinished task waits for. This is the one place that decides it; every view,
-- answer and command shows what it says. A task has exactly one reason, the most binding one: the
-- one that has to go away before any other matters.

-- The living workers of pools, and those of them that can run tasks with a requirement, with their
-- places. The arrays are parallel.
create function able_workers_1(p_pools text[], p_needs integer[])
returns table (pool text, needs integer, workers bigint, able bigint, places bigint, free_places bigint) language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    with busy as materialized (
        select x.worker, count(*) as tasks from slot x where x.n > 0 and x.task is not null group by x.worker
    )
    select
        k.pool, k.needs, count(w.id), count(w.id) filter (where c.answer),
        coalesce(sum(w.concurrency) filter (where c.answer), 0)::bigint,
        coalesce(sum(w.concurrency - coalesce(b.tasks, 0)) filter (where c.answer), 0)::bigint
    from unnest(p_pools, p_needs) k (pool, needs)
    left join requirement r on r.id = k.needs
    left join living_worker w on w.pool = k.pool
    left join busy b on b.worker = w.id
    cross join lateral (select k.needs is null or satisfies_1(w.models, w.tools, r) as answer) c
    group by k.pool, k.needs;
end $$;
select plan_by_index('able_workers_1');

-- What the reasons are decided from. `able` are the living workers of its pool that can run it;
-- `places` and `free_places` are theirs.
create type waiting_facts as (
    task uuid, number integer, waiting_for text, not_before timestamptz, attempt integer, created_at timestamptz,
    pool text, needs integer,
    lease_until timestamptz, is_silent boolean, max_active integer, is_in_queue boolean,
    cap bigint, free bigint, tenant_cap integer, tenant_holds bigint, tenant_share numeric, is_archived boolean,
    workers bigint, able bigint, places bigint, free_places bigint,
    gate model_gate, limited_model text, failed_call failed_call
);

-- The facts about tasks that have not ended. The slots and the workers are read once for all of
-- them, and each task by its indexes.
--
-- A worker renews its leases three times before they end. One that has missed half of that, or has
-- not renewed since the database started, is silent.
create function waiting_facts_1(p_tasks uuid[]) returns setof waiting_facts language sql stable as $$
    with own as materialized (
        select x.task, x.expires_at, x.worker, x.answers from slot x where x.n > 0 and x.task = any(p_tasks)
    ), fleet as materialized (
        select
            count(*) filter (where x.open) as cap,
            -- A task in a closed slot keeps an open one empty.
            count(*) filter (where x.open and x.task is null) - count(*) filter (where not x.open and x.task is not null) as free
        from slot x
        where x.n > 0
    ), held as materialized (
        select x.tenant, count(*) as slots, max(x.weight) as weight from slot x where x.n > 0 and x.task is not null group by x.tenant
    ), kinds as materialized (
        select a.*
        from (
            select array_agg(d.pool) as pools, array_agg(d.needs) as needs
            from (select distinct t.pool, t.needs from task t where t.id = any(p_tasks) and t.finished_at is null) d
        ) d
        cross join lateral able_workers_1(d.pools, d.needs) a
    )
    select
        t.id, t.number, t.waiting_for::text, t.not_before, t.attempt, t.created_at, t.pool, t.needs,
        x.expires_at,
        x.task is not null and (
            w.id is null or w.stopped_at is not null or w.renewed_at < greatest(now() - w.lease / 2, pg_postmaster_start_time())
        ),
        s.max_active, q.task is not null,
        f.cap, f.free, n.cap, coalesce(h.slots, 0),
        -- Null: no other tenant holds a slot.
        f.cap * coalesce(n.weight, 1)::numeric / (coalesce(n.weight, 1) + others.weight),
        n.archived_at is not null,
        k.workers, k.able, k.places, k.free_places, g.closed, l.model, c
    from unnest(p_tasks) given (id)
    join task t on t.id = given.id
    join session s on s.id = t.session
    join kinds k on k.pool = t.pool and k.needs is not distinct from t.needs
    cross join fleet f
    left join own x on x.task = t.id
    left join worker w on w.id = x.worker
    left join tenant n on n.name = s.tenant
    left join held h on h.tenant = s.tenant
    left join queue q on q.session = t.session and q.task = t.id
    left join failed_call c on c.task = t.id and c.answers = coalesce(x.answers, t.answers)
    left join lateral (
        -- The failed call has the model's own name where its agent has an alias.
        select o as closed
        from model_gate o
        where o.model in (t.model, c.model) and (o.closed_until > now() or o.reason = 'circuit')
        order by o.model = c.model desc
        limit 1
    ) g on true
    left join lateral (select y.model from model_waiter y where y.task = t.id limit 1) l on true
    cross join lateral (select sum(o.weight) as weight from held o where o.tenant <> s.tenant) others
    where t.finished_at is null
$$;

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

-- The model of a requirement, if no living worker of the pool has it.
create function missing_model_1(p_pool text, p_needs integer) returns text language plpgsql stable as $$
begin
    return (
        select r.model
        from requirement r
        where r.id = p_needs and not exists (
            select
            from living_worker l
            where l.pool = p_pool and (l.models is null or r.model = any(l.models) or '*' = any(l.models))
        )
    );
end $$;

-- Why no living worker of the pool can run tasks with this requirement, as a sentence.
create function unable_text_1(p_pool text, p_needs integer) returns text language plpgsql stable as $$
declare
    model text := missing_model_1(p_pool, p_needs);
begin
    return case
        when model is not null then format('No worker of the pool %s has the model %s', p_pool, to_json(left(model, 64)))
        else coalesce(
            missing_tools_text_1(p_pool, p_needs),
            format('No worker of the pool %s has both its model and all of its tools', p_pool)
        )
    end;
end $$;

-- What tasks in the queue need that no living worker of their pool has, with their number: of the
-- first 1000 tasks in the queue that need something. Pools without workers are left out.
create function unable_pools_1() returns table (text text, tasks bigint) language plpgsql stable as $$
begin
    return query
    with kinds as materialized (
        select f.pool, f.needs, count(*) as tasks
        from (select q.pool, q.needs from queue q where q.needs is not null limit 1000) f
        group by f.pool, f.needs
    )
    select unable_text_1(k.pool, k.needs), k.tasks
    from (select array_agg(k.pool) as pools, array_agg(k.needs) as needs from kinds k) d
    cross join lateral able_workers_1(d.pools, d.needs) a
    join kinds k on k.pool = a.pool and k.needs = a.needs
    where a.workers > 0 and a.able = 0
    order by k.tasks desc, 1
    limit 5;
end $$;
select plan_by_index('unable_pools_1');

-- The name of the task at the top of its tree.
create function root_name_1(p_task uuid) returns text language plpgsql stable as $$
begin
    return (select task_name(r.number) from task t join task r on r.id = t.root where t.id = p_task);
end $$;

-- When a task in the queue, created then, fails because no worker of its pool has its tools.
create function end_of_tool_patience_1(p_pool text, p_needs integer, p_created_at timestamptz) returns timestamptz
language plpgsql stable as $$
begin
    return (
        select greatest(s.since, p_created_at, (select min(l.started_at) from living_worker l where l.pool = p_pool)) + s.patience
        from tool_shortage s
        where s.pool = p_pool and s.needs = p_needs
    );
end $$;

-- The three functions below have one expression each, without subqueries, so that PostgreSQL puts
-- it into the query of why_of_1: called for each task, they would cost a status half of its time.

-- The code of the reason; null if the task runs and nothing is wrong with it.
create function why_code_1(w waiting_facts) returns text language sql stable as $$
    select case
        when w.lease_until > now() and not w.is_silent then case when (w.failed_call).task is not null then 'retrying' end
        when w.lease_until is not null and (w.lease_until > now() or w.workers > 0) then 'lease'
        when w.waiting_for = 'dependencies' then 'dependency'
        when w.waiting_for = 'budget' and w.is_archived then 'archived'
        when w.waiting_for = 'budget' then 'budget'
        when w.waiting_for is not null then 'children'
        when w.not_before > now() and w.limited_model is not null then 'rate'
        when w.not_before > now() and w.attempt > 0 and (w.gate).reason = 'circuit' then 'circuit'
        when w.not_before > now() and w.attempt > 0 and (w.gate).model is not null then 'gate'
        when w.not_before > now() and (w.failed_call).task is not null then 'retrying'
        when w.not_before > now() then 'delay'
        when w.workers = 0 then 'no_worker'
        when w.able = 0 and missing_model_1(w.pool, w.needs) is not null then 'missing_model'
        when w.able = 0 then 'missing_tools'
        when w.cap = 0 then 'cap'
        when not w.is_in_queue and w.not_before is null then 'window'
        when w.tenant_holds >= w.tenant_cap then 'tenant'
        when w.free <= 0 and w.tenant_holds >= w.tenant_share then 'tenant'
        when w.free <= 0 then 'cap'
        when w.free_places <= 0 then 'workers'
        else 'next'
    end
$$;

-- The reason as a sentence. It is for the tenant: it has facts of the fleet, and no name or count
-- of another tenant.
create function why_text_1(w waiting_facts, p_code text) returns text language sql stable as $$
    select case p_code
        when 'retrying' then format(
            'Its model call is tried again: model `%s` at %s: %s, try %s of %s',
            (w.failed_call).model, (w.failed_call).host, (w.failed_call).error, (w.failed_call).tries, (w.failed_call).max_tries
        )
        when 'lease' then case
            when w.lease_until > now() then 'Its worker does not answer; another one takes it over when its lease ends'
            else 'Its worker is lost; another one takes it over'
        end
        when 'dependency' then coalesce('It depends on ' || awaited_names_1(w.task), 'Its dependencies have just ended')
        when 'archived' then 'Its budget is used up, and nobody can raise it while its tenant is archived'
        when 'budget' then case used_up_budget_1(w.task)
            when 'task' then format('Its budget is used up: raise %s, or cancel it', task_name(w.number))
            when 'tree' then
                format('The budget of its tree is used up: raise %s, or cancel %s', root_name_1(w.task), task_name(w.number))
            when 'session' then format('The budget of its session is used up: raise the session, or cancel %s', task_name(w.number))
            else 'Its budget has been raised, and it goes on at once'
        end
        when 'children' then coalesce(
            case w.waiting_for when 'any_child' then 'It waits for one of its children: ' else 'It waits for its children: ' end
                || awaited_names_1(w.task),
            'Its children have just ended'
        )
        when 'rate' then format('It waits for its turn under the limits of model %s', w.limited_model)
        when 'circuit' then format('Calls of model %s are refused', (w.gate).model) || coalesce(': ' || (w.gate).error, '')
            || '; one call a minute is tried'
        when 'gate' then format('Calls of model %s are held back', (w.gate).model) || coalesce(': ' || (w.gate).error, '')
        when 'delay' then 'It is delayed'
        when 'no_worker' then format('No worker of pool %s is alive', w.pool)
        when 'missing_model' then unable_text_1(w.pool, w.needs)
        when 'missing_tools' then unable_text_1(w.pool, w.needs)
        when 'window' then format('Its session has %s tasks in the queue or running, as many as its window allows', w.max_active)
        when 'tenant' then case
            when w.tenant_holds >= w.tenant_cap then format('Its tenant runs %s tasks, as many as its cap allows', w.tenant_holds)
            else 'Its tenant has its share of the slots, and all slots are in use'
        end
        when 'cap' then case w.cap
            when 0 then 'The cap is 0, so no task starts'
            else format('All %s slots of the fleet are in use', w.cap)
        end
        when 'workers' then format(
            'All %s places of the workers of pool %s%s are in use', w.places, w.pool,
            case when w.able < w.workers then ' that can run it' else '' end
        )
        when 'next' then 'A worker is about to start it'
    end
$$;

-- Until when a task waits for its reason at the longest, if that is known. For a circuit and for
-- missing tools this is the end of the patience: it fails then.
create function why_until_1(w waiting_facts, p_code text) returns timestamptz language sql stable as $$
    select case p_code
        when 'lease' then case when w.lease_until > now() then w.lease_until end
        when 'retrying' then case
            when w.not_before > now() then w.not_before
            when (w.failed_call).next_try_at > now() then (w.failed_call).next_try_at
        end
        when 'gate' then greatest((w.gate).closed_until, w.not_before)
        when 'circuit' then (w.failed_call).waits_until
        when 'rate' then w.not_before
        when 'delay' then w.not_before
        when 'children' then w.not_before
        when 'missing_tools' then case when w.is_in_queue then end_of_tool_patience_1(w.pool, w.needs, w.created_at) end
    end
$$;

-- Why these tasks do not run: a code, a sentence, and until when if that is known. No row for a
-- task that has ended, or that runs without trouble.
create function why_of_1(p_tasks uuid[])
returns table (task uuid, code text, text text, until timestamptz) language plpgsql stable as $$
begin
    return query
    select w.task, c.code, why_text_1(w, c.code), why_until_1(w, c.code)
    from waiting_facts_1(p_tasks) w
    cross join lateral (select why_code_1(w) as code offset 0) c
    where c.code is not null;
end $$;
select plan_by_index('why_of_1');
