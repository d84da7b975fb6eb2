-- delegate: spawn, of tasks that name their agents. Each gets a copy of the agent's configuration.

-- Tasks of one session. The limits are the tenant's, if it has any.
create function delegate_1(
    p_session bigint, p_tasks jsonb, p_operator jsonb, p_key text, p_body bytea, p_notices text[],
    p_max_active bigint, p_max_queued bigint, p_action text
)
returns table (id uuid, number integer, state text, queue_position integer) language plpgsql as $$
#variable_conflict use_column
declare
    tasks jsonb;
    unknown text;
begin
    select
        jsonb_agg(t.body || jsonb_build_object(
            'agent_version', coalesce(a.version, 0),
            'on_worker_loss', d.definition -> 'on_worker_loss',
            'config', resolve_config_1(d.definition -> 'spec', t.body, s.model, p_operator)
        ) order by t.place),
        min(t.body ->> 'agent') filter (where d.definition is null)
    into tasks, unknown
    from session s
    cross join jsonb_array_elements(p_tasks) with ordinality t (body, place)
    left join lateral agent_1(s.id, t.body ->> 'agent') a on true
    cross join lateral (
        select coalesce(a.definition, free_form_agent_1(p_operator, t.body ->> 'agent')) as definition
    ) d
    where s.id = p_session;
    -- A stored answer is returned even if the agent is gone.
    if unknown is not null and not exists (
        select from idempotency i
        where i.session = p_session and i.action = p_action and i.key = p_key and i.created_at > now() - interval '24 hours'
    ) then
        perform refuse('AGENT_NOT_FOUND', format('Agent not found: %s', unknown));
    end if;
    if p_max_active is null then
        return query select * from spawn_1(p_session, tasks, p_key, p_body, null, null, null, p_notices, p_action);
    else
        return query
        select * from spawn_within_1(p_max_active, p_max_queued, p_session, tasks, p_key, p_body, p_notices, p_action);
    end if;
end $$;
select plan_by_index('delegate_1');

-- Children of a running task. p_call is the turn and the tool call that spawn them: a repeated call
-- finds the existing children. A child without a configuration gets a copy of its agent's. It has its
-- parent's priority, unless it has its own.
create function delegate_children_1(
    p_session bigint, p_slot integer, p_task uuid, p_lease uuid, p_call text, p_tasks jsonb, p_operator jsonb, p_notices text[]
)
returns table (id uuid, number integer, state text, queue_position integer) language plpgsql as $$
#variable_conflict use_column
declare
    above task;
    tasks jsonb;
    unknown text;
begin
    perform check_lease_1(p_session, p_slot, p_task, p_lease);
    return query
    select t.id, t.number, t.state::text, null::integer from task t where t.parent = p_task and t.call = p_call order by t.number;
    if found then
        return;
    end if;
    select * into above from task where task.id = p_task;
    select
        jsonb_agg(t.body || jsonb_build_object(
            'call', p_call,
            'priority', coalesce(nullif((t.body ->> 'priority')::smallint, 0), above.priority)
        ) || case when t.body -> 'config' = '{}' then jsonb_build_object(
            'agent_version', a.version,
            'on_worker_loss', a.definition -> 'on_worker_loss',
            'config', resolve_config_1(a.definition -> 'spec', t.body, s.model, p_operator)
        ) else '{}' end order by t.place),
        min(t.body ->> 'agent') filter (where t.body -> 'config' = '{}' and a.version is null)
    into tasks, unknown
    from session s
    cross join jsonb_array_elements(p_tasks) with ordinality t (body, place)
    left join lateral agent_1(s.id, t.body ->> 'agent') a on true
    where s.id = p_session;
    if unknown is not null then
        perform refuse('AGENT_NOT_FOUND', format('Agent not found: %s', unknown));
    end if;
    return query select * from spawn_1(p_session, tasks, null, null, p_task, p_lease, p_slot, p_notices);
end $$;
select plan_by_index('delegate_children_1');

-- Single tasks of many sessions in one call, for concurrent requests to one server: it costs little
-- more than one of them. The arrays are parallel; rare fields are in the options. Only plain tasks are
-- created: without dependencies and delay, for a registered agent, in a session that has room and is
-- not locked. So it never waits. Tasks that are missing in the answer are delegated one by one, and
-- that answer says why. If fewer tasks are unfinished than may be active, all that could be admitted
-- have been, and none is before these.
create function delegate_concurrent_1(
    p_sessions bigint[], p_ids uuid[], p_agents text[], p_assignments text[], p_pools text[], p_priorities smallint[],
    p_options jsonb[], p_operator jsonb, p_notices text[]
)
returns table (place integer, id uuid, number integer, queue_position integer) language plpgsql as $$
#variable_conflict use_column
declare
    locked bigint[];
begin
    perform commit_durably_1();
    locked := array(
        select s.id
        from session s
        where s.id = any(p_sessions) and s.archived_at is null
        order by s.id
        for no key update skip locked
    );
    return query
    with asked as materialized (
        select
            t.*, s.tenant, s.model, s.parent, s.permissions, s.next_event, s.next_number, own.version as own_version,
            -- A lower bound: at most all tasks since the oldest unfinished one are unfinished.
            least(s.max_active, s.max_queued) - coalesce((
                select s.next_number - u.number
                from task u
                where u.session = t.session and u.finished_at is null
                order by u.number
                limit 1
            ), 0) as room
        -- Without the assignments, which every step would copy.
        from unnest(p_sessions, p_ids, p_agents, p_pools, p_priorities, p_options)
            with ordinality t (session, id, agent, pool, priority, options, place)
        join session s on s.id = t.session
        left join lateral (
            select a.version from agent a where a.session = t.session and a.name = t.agent order by a.version desc limit 1
        ) own on true
        where t.session = any(locked)
    ), specs as materialized (
        -- As agent_1 finds them, each once: most concurrent tasks are for the same few agents.
        select
            d.*, a.version, a.definition ->> 'on_worker_loss' as on_worker_loss,
            resolve_config_1(a.definition -> 'spec', coalesce(d.options, '{}'), d.model, p_operator) as config
        from (
            select distinct f.agent, f.model, f.options, case when f.own_version is not null then f.session end as session
            from asked f
        ) d
        cross join lateral (
            select *
            from agent a
            where a.session is not distinct from d.session and a.name = d.agent
            order by a.version desc
            limit 1
        ) a
        where a.gone_at is null
    ), fit as materialized (
        select
            f.*, f.next_number + f.k - 1 as number,
            count(*) over (
                partition by f.tenant, f.pool order by f.priority desc, f.place rows unbounded preceding
            ) - 1 as before
        from (
            select
                t.*, d.version, d.on_worker_loss, d.config,
                row_number() over (partition by t.session order by t.place) as k
            from asked t
            join specs d on d.agent = t.agent
                and (d.model, d.options) is not distinct from (t.model, t.options)
                and d.session is not distinct from case when t.own_version is not null then t.session end
        ) f
        where f.k <= f.room
    ), made as (
        insert into task (
            id, session, number, root, depth, label, metadata, agent, agent_version, config, assignment, pool, priority,
            on_worker_loss, max_failures, traceparent, state
        )
        select
            f.id, f.session, f.number, f.id, 0, f.options ->> 'label', coalesce(f.options -> 'metadata', '{}'), f.agent, f.version,
            add_session_settings_1(f.config, f.parent, f.permissions), p_assignments[f.place], f.pool, f.priority, f.on_worker_loss,
            coalesce((f.options ->> 'max_failures')::smallint, 3::smallint), f.options ->> 'traceparent', 'queued'
        from fit f
    ), emitted as (
        insert into event (session, seq, task, kind)
        select f.session, f.next_event + f.k - 1, f.id, 'spawned' from fit f
    ), counted as (
        update session s
        set next_number = s.next_number + c.tasks, next_event = s.next_event + c.tasks
        from (select session, count(*)::integer as tasks from fit group by session) c
        where s.id = c.session
    ), queued as (
        insert into queue (task, session, tenant, pool, priority, entry)
        select f.id, f.session, f.tenant, f.pool, f.priority, nextval('queue_entry')
        from (select * from fit order by place offset 0) f
    ), ahead as materialized (
        select o.*, queue_length_1(o.tenant, o.pool, o.priority) as tasks from (select distinct tenant, pool, priority from fit) o
    )
    select f.place::integer, f.id, f.number::integer, least(1000, a.tasks + f.before)::integer
    from fit f
    join ahead a using (tenant, pool, priority);
    if cardinality(p_notices) > 0 then
        perform pg_notify('adjutant_queue', n) from unnest(p_notices) n;
    end if;
end $$;
select plan_by_index('delegate_concurrent_1');
