-- Creating tasks: how a task gets its configuration, and the one statement that inserts tasks.

-- New tasks as columns: element n of every array belongs to task n. PostgreSQL reads arrays several
-- times faster than rows in JSON. The options are the fields that most tasks do not have (see
-- NewTask in adjutant-store); null: none. The last three columns are null until resolve_agents_1
-- fills them.
create type new_tasks as (
    sessions bigint[],
    ids uuid[],
    agents text[],
    assignments text[],
    pools text[],
    priorities smallint[],
    options jsonb[],
    agent_versions integer[],
    loss_rules text[],
    configs jsonb[]
);

-- Keeps only the tasks at these places.
create function pick_tasks_1(t new_tasks, p_places integer[]) returns new_tasks language plpgsql as $$
begin
    select
        array_agg(t.sessions[e.place]), array_agg(t.ids[e.place]), array_agg(t.agents[e.place]),
        array_agg(t.assignments[e.place]), array_agg(t.pools[e.place]), array_agg(t.priorities[e.place]),
        array_agg(t.options[e.place]), array_agg(t.agent_versions[e.place]), array_agg(t.loss_rules[e.place]),
        array_agg(t.configs[e.place])
    into t
    from unnest(p_places) e (place);
    return t;
end $$;

-- Gives each task the configuration that it keeps: of the agent that it names (the session's own,
-- or else the config file's, or else a free-form agent, if the operator allows these), or of the
-- "config" in its options. p_tenants and p_models are those of the sessions. A task whose agent is
-- unknown, or not for its tenant, gets no configuration. limits_cost says whether some agent or
-- spawn limits the cost.
create function resolve_agents_1(
    p_sessions bigint[], p_tenants text[], p_models text[], p_agents text[], p_options jsonb[], p_operator jsonb,
    out agent_versions integer[], out loss_rules text[], out configs jsonb[], out limits_cost boolean
) language plpgsql as $$
#variable_conflict use_column
begin
    with combinations as materialized (
        -- Equal tasks are resolved once: most tasks of a call are for the same few agents.
        select e.agent, e.options, e.tenant, e.model, own.session as own_session, array_agg(e.place) as places
        from unnest(p_sessions, p_agents, p_options, p_tenants, p_models)
            with ordinality e (session, agent, options, tenant, model, place)
        left join lateral (
            select a.session from agent a where a.session = e.session and a.name = e.agent limit 1
        ) own on true
        group by 1, 2, 3, 4, 5
    ), resolved as materialized (
        select
            c.places, a.version, a.loss_rule,
            resolve_config_1(a.config, coalesce(c.options, '{}'), c.model, p_operator) as config
        from combinations c
        left join lateral (
            select a.*
            from agent a
            where a.session = c.own_session and a.name = c.agent
            order by a.version desc
            limit 1
        ) own on true
        left join lateral (
            select a.*
            from agent a
            where a.session is null and a.name = c.agent and c.own_session is null
            order by a.version desc
            limit 1
        ) listed on listed.gone_at is null and is_for_tenant_1(listed.definition, c.tenant)
        cross join lateral (
            select coalesce(own.definition, listed.definition, free_form_agent_1(p_operator, c.agent)) as definition
        ) d
        cross join lateral (
            select
                d.definition -> 'config' as config,
                d.definition ->> 'on_worker_loss' as loss_rule,
                coalesce(own.version, listed.version, 0) as version
            where not coalesce(c.options ? 'config', false)
            union all
            select c.options -> 'config', c.options ->> 'on_worker_loss', (c.options ->> 'agent_version')::integer
            where c.options ? 'config'
        ) a
    )
    select array_agg(o.version), array_agg(o.loss_rule), array_agg(o.config),
        coalesce(bool_or(o.config -> 'budget' ? 'max_cost_nanousd'), false)
    into agent_versions, loss_rules, configs, limits_cost
    from (select r.* from resolved r cross join unnest(r.places) p (place) order by p.place) o;
end $$;

-- The pools of tasks whose spawn names none, in place of '': the agent's, or else the parent's. The
-- caller has notified "default"; the workers of other pools are notified here.
create function default_pools_1(t new_tasks, p_of_parent text) returns text[] language plpgsql as $$
declare
    pools text[];
begin
    if '' <> all(t.pools) then
        return t.pools;
    end if;
    pools := array(
        select coalesce(nullif(e.pool, ''), t.configs[e.place] ->> 'pool', p_of_parent, 'default')
        from unnest(t.pools) with ordinality e (pool, place)
        order by e.place
    );
    if 'default' <> any(pools) then
        perform pg_notify('adjutant_queue', '=' || p.pool)
        from (select distinct unnest(pools) as pool) p
        where p.pool <> 'default' and p.pool <> all(t.pools);
    end if;
    return pools;
end $$;

-- Refuses tasks whose agent, model or pool their spawner is not granted. Their tools are limited
-- when they run: see AgentConfig::allowed_tools in adjutant-agent.
create function check_grants_1(p_grants jsonb, t new_tasks) returns void language plpgsql as $$
declare
    wrong record;
begin
    select e.agent, e.config ->> 'model' as model, e.pool,
        is_granted_1(p_grants, 'agents', e.agent) as has_agent,
        is_granted_1(p_grants, 'models', e.config ->> 'model') as has_model
    into wrong
    from unnest(t.agents, t.configs, t.pools) with ordinality e (agent, config, pool, place)
    where e.config is not null and not (
        is_granted_1(p_grants, 'agents', e.agent)
        and is_granted_1(p_grants, 'models', e.config ->> 'model')
        and is_granted_1(p_grants, 'pools', e.pool)
    )
    order by e.place
    limit 1;
    if not found then
        return;
    elsif not wrong.has_agent then
        perform refuse('AGENT_NOT_FOUND', format('Agent not found: %s', wrong.agent));
    elsif not wrong.has_model then
        perform refuse('INVALID_MODEL', format('model: the agent %s uses a model that is not granted here', wrong.agent));
    end if;
    perform refuse('INVALID_ARGUMENT', format('pool: there is no pool %s for this caller', to_json(wrong.pool)));
end $$;

-- Inserts tasks with their events, and numbers them: nothing else inserts into task. The first
-- p_room tasks of each session enter the queue at once; the caller knows that its window has room
-- for them and that no other task is before them. Tasks that wait for something else are admitted
-- later (p_room is null). The tasks carry the grants. The answer is the tasks' numbers. Needs the
-- sessions' locks.
create function create_tasks_1(t new_tasks, p_parent task, p_call text, p_room integer, p_grants jsonb) returns integer[] language plpgsql as $$
declare
    numbers integer[];
begin
    with given as materialized (
        -- Without configurations and assignments, which every step would copy.
        select
            e.*, c.config ->> 'model' as model, s.tenant, s.parent as inherited, s.permissions, s.next_event,
            coalesce(r.id, case
                when d.digest is not null then add_requirement_1(d.digest, c.config, s.permissions, p_grants)
            end) as needs,
            row_number() over sessions as k,
            (s.next_number + row_number() over sessions - 1)::integer as number
        from unnest(t.sessions, t.ids, t.agents, t.pools, t.priorities, t.options, t.agent_versions, t.loss_rules)
            with ordinality e (session, id, agent, pool, priority, options, agent_version, loss_rule, place)
        join session s on s.id = e.session
        cross join lateral (select t.configs[e.place] as config offset 0) c
        cross join lateral (select requirement_digest_1(c.config, s.permissions, p_grants) as digest offset 0) d
        -- Not one that may be deleted at this moment: add_requirement_1 says under a lock that it
        -- is needed.
        left join requirement r on r.digest = d.digest and r.used_at > now() - interval '1 hour'
        window sessions as (partition by e.session order by e.place)
    ), created as (
        insert into task (
            id, session, number, parent, root, depth, label, metadata, agent, agent_version, config, model, assignment,
            pool, priority, needs, not_before, on_worker_loss, max_failures, traceparent, call, webhook, state,
            waiting_for, context
        )
        select
            g.id, g.session, g.number, p_parent.id, coalesce(p_parent.root, g.id), coalesce(p_parent.depth + 1, 1),
            g.options ->> 'label', coalesce(g.options -> 'metadata', '{}'), g.agent, g.agent_version,
            add_session_settings_1(t.configs[g.place], g.inherited, g.permissions, p_grants), g.model, t.assignments[g.place],
            g.pool, g.priority, g.needs, now() + (g.options ->> 'delay_s')::double precision * interval '1 second', g.loss_rule,
            coalesce((g.options ->> 'max_failures')::smallint, 3::smallint), g.options ->> 'traceparent', p_call,
            g.options -> 'webhook',
            case when g.options ? 'depends_on' then 'waiting' else 'queued' end,
            case when g.options ? 'depends_on' then 'dependencies' end,
            case when g.options ? 'snapshot' then nextval('context_overlay') else p_parent.context end
        from given g
    ), emitted as (
        insert into event (session, seq, task, kind)
        select g.session, g.next_event + g.k - 1, g.id, 'spawned' from given g
    ), counted as (
        update session s
        set next_number = s.next_number + c.tasks, next_event = s.next_event + c.tasks
        from (select session, count(*)::integer as tasks from given group by session) c
        where s.id = c.session
    ), spawned as (
        insert into usage_delta (tenant, agent, model, outcome, tasks, roots, waiting)
        select
            g.tenant, g.agent, coalesce(g.model, ''), 'spawned', count(*),
            case when p_parent.id is null then count(*) else 0 end, count(*) filter (where g.options ? 'depends_on')
        from given g
        group by 1, 2, 3
    ), queued as (
        insert into queue (task, session, tenant, pool, priority, needs, entry)
        select g.id, g.session, g.tenant, g.pool, g.priority, g.needs, nextval('queue_entry')
        from (select * from given order by place offset 0) g
        where g.k <= p_room
    )
    select array_agg(g.number order by g.place) into numbers from given g;
    return numbers;
end $$;

-- Records the dependencies of new tasks: the number of an earlier task, or a negative place in the
-- batch (-1 is its first). Numbers that are not in use yet are refused, because they could close a
-- circle. So could a dependency on a task of another spawner, together with a parent that waits for
-- its children; so a task may depend only on tasks of the same spawner.
create function record_dependencies_1(s session, t new_tasks, p_parent uuid) returns void language plpgsql as $$
declare
    missing integer;
begin
    with named as (
        select
            t.ids[e.place] as task,
            x.dependency,
            case when x.dependency > 0 then x.dependency else s.next_number - x.dependency - 1 end as number
        from unnest(t.options) with ordinality e (options, place)
        cross join lateral jsonb_array_elements_text(e.options -> 'depends_on') d (word)
        cross join lateral (select d.word::integer as dependency) x
    ), known as (
        select n.task, d.id as on_task
        from named n
        join task d on d.session = s.id and d.number = n.number
        where d.parent is not distinct from p_parent and n.dependency < s.next_number
    ), written as (
        insert into awaited (task, on_task, kind)
        select distinct task, on_task, 'dependency' from known
    )
    select min(n.dependency) into missing
    from named n
    where not exists (
        select
        from known k
        join task d on d.id = k.on_task
        where k.task = n.task and d.number = n.number
    );
    if missing is not null then
        perform refuse('TASK_NOT_FOUND', format('depends_on: task not found: %s', task_name(missing)));
    end if;
end $$;
