-- What many orchestrators ask of one server at the same moment, in one call: it costs little more than what one asks. Only plain
-- cases are here. What is not among the answers is asked by itself, and its answer says what is the matter with it.

-- delegate, for single tasks of many sessions: the arrays are parallel, and what most tasks do not have is in the options. Plain
-- is a task that waits for nothing, for an agent that is there, in a session that has room for it and that nobody else is busy
-- with: so this never waits, and the tasks of one orchestrator do not wait for another's. Where fewer tasks are unfinished than
-- may be active, all that could be let in have been, and none is before these.
create function delegate_together_1(
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
            -- At least this: no more are unfinished than have been spawned since the oldest that is.
            least(s.max_active, s.max_queued) - coalesce((
                select s.next_number - u.number
                from task u
                where u.session = t.session and u.finished_at is null
                order by u.number
                limit 1
            ), 0) as room
        -- Not the assignments, which would be copied with every step.
        from unnest(p_sessions, p_ids, p_agents, p_pools, p_priorities, p_options)
            with ordinality t (session, id, agent, pool, priority, options, place)
        join session s on s.id = t.session
        left join lateral (
            select a.version from agent a where a.session = t.session and a.name = t.agent order by a.version desc limit 1
        ) own on true
        where t.session = any(locked)
    ), specs as materialized (
        -- As agent_1 finds them, and each once: most tasks of a moment are for the same few agents.
        select
            d.*, a.version, a.definition ->> 'on_worker_loss' as on_worker_loss,
            spec_at_spawn_1(a.definition -> 'spec', coalesce(d.options, '{}'), d.model, p_operator) as config
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
            equip_1(f.config, f.parent, f.permissions), p_assignments[f.place], f.pool, f.priority, f.on_worker_loss,
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
        select o.*, line_1(o.tenant, o.pool, o.priority) as tasks from (select distinct tenant, pool, priority from fit) o
    )
    select f.place::integer, f.id, f.number::integer, least(1000, a.tasks + f.before)::integer
    from fit f
    join ahead a using (tenant, pool, priority);
    if cardinality(p_notices) > 0 then
        perform pg_notify('adjutant_queue', n) from unnest(p_notices) n;
    end if;
end $$;

-- How tasks of many sessions stand; the arrays are parallel. Where the tasks are in line is looked up once for all of a tenant.
create function progress_together_1(p_sessions bigint[], p_numbers integer[])
returns table (place integer, progress jsonb) language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    with asked as materialized (
        select
            e.place, t.tenant, t.pool, t.session, t.id, t.number, t.agent, t.label, t.state, t.failure, t.error, t.turns_used,
            t.input_tokens, t.output_tokens, t.cost_nanousd, t.attempt, t.created_at, t.started_at, t.last_activity_at,
            t.finished_at, t.collected_at,
            case when t.state = 'queued' and t.not_before > now() then
                ceil(extract(epoch from t.not_before - now()) * 1000)::bigint
            end as due_in_ms
        from unnest(p_sessions, p_numbers) with ordinality e (session, number, place)
        join task_history t on t.session = e.session and t.number = e.number
    ), ahead as materialized (
        select o.*, array(
            select b.task
            from queue b
            where b.pool = o.pool and b.tenant = o.tenant
            order by b.priority desc, b.entry
            limit 1000
        ) as tasks
        from (select distinct tenant, pool from asked where state = 'queued') o
    )
    select p.place::integer, to_jsonb(p)
    from (
        select a.*, case a.state when 'queued' then coalesce(
            array_position(f.tasks, a.id) - 1,
            -- Behind the window of its session, or a thousand others.
            (select q.place from queue_positions_1(a.session, array[a.id]) q)
        ) end as queue_position
        from asked a
        left join ahead f on f.tenant = a.tenant and f.pool = a.pool
    ) p;
end $$;

select plan_by_index('delegate_together_1');
select plan_by_index('progress_together_1');
