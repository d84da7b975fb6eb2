-- spawn: the checks around the creation of tasks.

-- Who spawns: the running task that gets children, and its lease. With a call (the turn and the
-- tool call that ask for them) the same call finds the children that it has.
create type spawner as (slot integer, task uuid, lease uuid, call text);

-- An idempotency key: the action that it belongs to, and a digest of the request.
create type request_key as (action text, key text, body bytea);

-- Checks the session's limits: max_active unfinished tasks without a parent, or with "queue"
-- max_queued in all. Returns how many tasks may enter the queue at once, or null if tasks may be
-- before them. Tasks end roughly in the order of their numbers, so the oldest number usually
-- decides; otherwise counts stop at the limit that they are compared with, so that a long backlog
-- stays cheap.
create function check_room_1(s session, p_wanted integer, p_can_wait boolean) returns integer language plpgsql as $$
declare
    oldest integer := (select number from task where session = s.id and finished_at is null order by number limit 1);
    -- At most as many are unfinished.
    span integer := coalesce(s.next_number - oldest, 0);
    unfinished integer;
begin
    if span + p_wanted <= least(s.max_active, s.max_queued) then
        return s.max_active - span;
    end if;
    if not p_can_wait then
        select count(*) into unfinished
        from (
            select from task where session = s.id and finished_at is null and parent is null limit s.max_active
        ) u;
        if unfinished + p_wanted > s.max_active then
            perform refuse('MAX_TASKS_EXCEEDED', format(
                'The session has %s unfinished tasks, and with %s more it would have over %s; wait for one to end, or spawn with "queue": true',
                unfinished, p_wanted, s.max_active
            ));
        end if;
    end if;
    if span + p_wanted > s.max_queued then
        select count(*) into unfinished
        from (select from task where session = s.id and finished_at is null limit s.max_queued) u;
        if unfinished + p_wanted > s.max_queued then
            perform refuse('MAX_TASKS_EXCEEDED', format(
                'The session has %s unfinished tasks, and with %s more it would have over %s, which is all its queue takes',
                unfinished, p_wanted, s.max_queued
            ));
        end if;
    end if;
    return case when span = 0 then s.max_active end;
end $$;

-- Checks that new tasks keep within the limits of their tenant. Needs the tenant's lock.
create function check_tenant_tasks_1(p_tenant text, p_max_active bigint, p_max_queued bigint, p_can_wait boolean)
returns void language plpgsql as $$
declare
    used record;
begin
    select * into used from tenant_backlog_1(p_tenant);
    if not p_can_wait and used.roots > p_max_active then
        perform refuse('MAX_TASKS_EXCEEDED', format(
            'With this the tenant would have over %s unfinished tasks; wait for one to end, or spawn with "queue": true',
            p_max_active
        ));
    elsif used.unfinished > p_max_queued then
        perform refuse('MAX_TASKS_EXCEEDED', format(
            'With this the tenant would have over %s unfinished tasks, which is all it may have', p_max_queued
        ));
    end if;
end $$;

-- The task that spawns children, if it holds its lease, which this renews. Needs the session's
-- lock.
create function spawning_task_1(s session, p_by spawner) returns task language plpgsql as $$
declare
    above task;
begin
    update slot
    set active_at = now(), expires_at = renewed_until_1(slot.expires_at, slot.worker)
    where slot.n = p_by.slot and slot.task = p_by.task and slot.lease = p_by.lease and slot.session = s.id;
    if not found then
        perform lease_lost(p_by.task);
    end if;
    select * into above from task where task.id = p_by.task;
    return above;
end $$;

-- The priorities of children: their own, or else the parent's, but never above that of the root,
-- which the orchestrator chose.
create function child_priorities_1(p_parent task, p_priorities smallint[]) returns smallint[] language plpgsql as $$
declare
    highest smallint := (select priority from task where id = p_parent.root);
begin
    return array(
        select least(coalesce(nullif(e.priority, 0), p_parent.priority), highest)
        from unnest(p_priorities) with ordinality e (priority, place)
        order by e.place
    );
end $$;

-- The children that a call has already spawned.
create function children_of_call_1(p_by spawner)
returns table (id uuid, number integer, state text, queue_position integer, timeout_s double precision) language plpgsql as $$
#variable_conflict use_column
begin
    return query
    select c.id, c.number, c.state::text, null::integer, time_limit_1(c.config)
    from task c
    where c.parent = p_by.task and c.call = p_by.call
    order by c.number;
end $$;

-- Gives tasks of one session their configurations and pools, and refuses unknown agents, limits of
-- the cost without prices, and what p_grants do not allow.
create function configure_1(s session, p_parent task, t new_tasks, p_operator jsonb, p_grants jsonb)
returns new_tasks language plpgsql as $$
declare
    places integer[] := array[cardinality(t.ids)];
    unknown integer;
    limits_cost boolean;
begin
    if t.configs is null then
        select r.* into t.agent_versions, t.loss_rules, t.configs, limits_cost
        from resolve_agents_1(
            array_fill(s.id, places), array_fill(s.tenant, places), array_fill(s.model, places), t.agents, t.options, p_operator
        ) r;
        unknown := array_position(t.configs, null);
        if unknown is not null then
            perform refuse('AGENT_NOT_FOUND', format('Agent not found: %s', t.agents[unknown]));
        end if;
        if limits_cost or s.max_cost_nanousd is not null or p_parent.id is not null then
            perform check_prices_1(s, p_parent, t.configs);
        end if;
    end if;
    t.pools := default_pools_1(t, p_parent.pool);
    if p_grants is not null then
        perform check_grants_1(p_grants, t);
    end if;
    return t;
end $$;

-- For new tasks with a snapshot or a dependency: copies the shared context that a snapshot shows,
-- and settles the dependencies.
create function settle_new_1(s session, t new_tasks, p_parent task) returns void language plpgsql as $$
declare
    waiting uuid[] := array(select id from task where id = any(t.ids) and state = 'waiting' order by number);
    overlays bigint[] := array(
        select context from task where id = any(t.ids) and context is distinct from p_parent.context
    );
begin
    if cardinality(overlays) > 0 then
        perform copy_context_1(coalesce(p_parent.context, s.id), overlays);
    end if;
    if cardinality(waiting) > 0 then
        perform record_dependencies_1(s, t, p_parent.id);
        perform settle_1(waiting);
    end if;
end $$;

-- Refuses children that would make their tree larger than p_most tasks: the root and everything
-- that was ever spawned below it. Exact, because all spawns of a tree hold its session's lock. The
-- count stops at the limit.
create function check_tree_1(p_root uuid, p_wanted integer, p_most integer) returns void language plpgsql as $$
declare
    tasks integer := 1 + (select count(*) from (select from task where root = p_root and parent is not null limit p_most) d);
begin
    if tasks + p_wanted > p_most then
        perform refuse('MAX_TASKS_EXCEEDED', format(
            'The tree has %s tasks, and with %s more it would have over %s, which is all it may have; go on without further subagents',
            tasks, p_wanted, p_most
        ));
    end if;
end $$;
select plan_by_index('check_tree_1');

-- Refuses tasks that must not be created, and returns what check_room_1 does. Children are bounded
-- by the depth and the size of their tree; they enter the queue behind the session's other tasks.
create function check_spawn_1(s session, p_parent task, p_options jsonb, p_wanted integer, p_can_wait boolean, p_operator jsonb)
returns integer language plpgsql as $$
begin
    if s.archived_at is not null then
        perform refuse('SESSION_ARCHIVED', format('Session %s is archived: it accepts no new tasks', s.name));
    elsif p_parent.depth >= 10 then
        perform refuse('INVALID_ARGUMENT', 'depth: a tree of tasks is at most 10 deep');
    end if;
    if p_options ? 'quota' then
        perform check_quota_1(s, p_options);
    end if;
    if p_parent.id is null then
        return check_room_1(s, p_wanted, p_can_wait);
    end if;
    perform check_tree_1(p_parent.root, p_wanted, coalesce((p_operator ->> 'max_tree_tasks')::integer, 200));
    return null;
end $$;

-- The answer of a spawn. With p_ahead the tasks are the last of their queue, behind this many
-- others.
create function spawn_answer_1(t new_tasks, p_numbers integer[], p_ahead integer)
returns table (id uuid, number integer, state text, queue_position integer, timeout_s double precision) language plpgsql as $$
#variable_conflict use_column
begin
    if p_ahead is null then
        return query
        select c.id, c.number, c.state::text, p.place, time_limit_1(c.config)
        from task c
        left join queue_positions_1(t.sessions[1], t.ids) p on p.task = c.id
        where c.session = t.sessions[1] and c.number = any(p_numbers)
        order by c.number;
        return;
    end if;
    state := 'queued';
    for place in 1..cardinality(t.ids) loop
        id := t.ids[place];
        number := p_numbers[place];
        queue_position := least(1000, p_ahead + place - 1);
        timeout_s := time_limit_1(t.configs[place]);
        return next;
    end loop;
end $$;
alter function spawn_answer_1 set enable_hashjoin = on;

-- Creates tasks of one session, all or none: for its orchestrator, or children of a running task.
-- They carry the grants of their spawner: p_grants for an orchestrator, else those of its task. The
-- tasks have their configurations, or name agents. p_limits are the tenant's, if it has any:
-- max_active, max_queued. They are checked at the end, when it is known that tasks were created: a
-- repeated request gets its stored answer and creates nothing. Nothing is created, and the answer
-- is empty, if the first task has the option "unless_strict" and its agent is strict.
create function spawn_1(
    t new_tasks, p_operator jsonb, p_by spawner, p_key request_key, p_limits bigint[], p_notices text[], p_grants jsonb
)
returns table (id uuid, number integer, state text, queue_position integer, timeout_s double precision) language plpgsql as $$
#variable_conflict use_column
declare
    s session;
    above task;
    can_wait boolean;
    is_special boolean;
    room integer;
    ahead integer;
    numbers integer[];
    -- A parent's keys are separate from the orchestrator's.
    own_key text := coalesce(p_by.task || '/', '') || p_key.key;
    answer jsonb;
begin
    if p_limits is not null then
        perform lock_tenant_1((select session.tenant from session where session.id = t.sessions[1]));
    end if;
    perform commit_durably_1();
    select * into s from session where session.id = t.sessions[1] for no key update;
    if not found then
        perform refuse('SESSION_NOT_FOUND', 'Session not found');
    end if;
    if p_by.task is not null then
        above := spawning_task_1(s, p_by);
        p_grants := above.config -> 'grants';
        return query select c.* from children_of_call_1(p_by) c;
        if found then
            return;
        end if;
        t.priorities := child_priorities_1(above, t.priorities);
    end if;
    if own_key is not null then
        answer := find_answer_1(s.id, p_key.action, own_key, p_key.body);
    end if;
    if answer is null then
        select
            bool_and(coalesce((o.options -> 'queue')::boolean, false)),
            coalesce(bool_or(o.options ?| array['delay_s', 'depends_on', 'snapshot']), false)
        into can_wait, is_special
        from unnest(t.options) o (options);
        room := check_spawn_1(s, above, t.options[1], cardinality(t.ids), can_wait, p_operator);
        t := configure_1(s, above, t, p_operator, p_grants);
        if t.options[1] ? 'unless_strict' and is_strict_1(t.configs[1]) then
            return;
        end if;
        if is_special then
            room := null;
        elsif room is not null and t.pools[1] = all(t.pools) and t.priorities[1] = all(t.priorities) then
            ahead := queue_length_1(s.tenant, t.pools[1], t.priorities[1]);
        end if;
        numbers := create_tasks_1(t, above, p_by.call, room, p_grants);
        if is_special then
            perform settle_new_1(s, t, above);
        end if;
        if room is null then
            perform admit_1(array[s.id]);
        end if;
        if cardinality(p_notices) > 0 then
            perform pg_notify('adjutant_queue', n) from unnest(p_notices) n;
        end if;
        if p_limits is not null then
            perform check_tenant_tasks_1(s.tenant, p_limits[1], p_limits[2], can_wait);
        end if;
        if own_key is null then
            return query select a.* from spawn_answer_1(t, numbers, ahead) a;
            return;
        end if;
        answer := (select jsonb_agg(a order by a.number) from spawn_answer_1(t, numbers, ahead) a);
        perform store_answer_1(s.id, p_key.action, own_key, p_key.body, answer);
    end if;
    return query
    select a.*
    from jsonb_to_recordset(answer)
        a (id uuid, number integer, state text, queue_position integer, timeout_s double precision);
end $$;
select plan_by_index('spawn_1');

-- The places of tasks that can be created now, their tenants and models: in sessions that p_locked
-- names, with room for them and without a limit of the cost, whose models are checked. As in
-- check_room_1, at most all tasks since the oldest unfinished one are unfinished. If fewer tasks
-- are unfinished than may be active, all that could be admitted have been, and none is before
-- these.
create function places_with_room_1(
    p_sessions bigint[], p_locked bigint[], out places integer[], out tenants text[], out models text[]
) language plpgsql as $$
begin
    select array_agg(f.place::integer), array_agg(f.tenant), array_agg(f.model) into places, tenants, models
    from (
        select f.place, s.tenant, s.model
        from (
            select e.session, e.place, row_number() over (partition by e.session order by e.place) as k
            from unnest(p_sessions) with ordinality e (session, place)
            where e.session = any(p_locked)
        ) f
        join session s on s.id = f.session
        where s.max_cost_nanousd is null and f.k <= least(s.max_active, s.max_queued) - coalesce((
            select s.next_number - u.number
            from task u
            where u.session = f.session and u.finished_at is null
            order by u.number
            limit 1
        ), 0)
        order by f.place
    ) f;
end $$;

-- How many tasks of the same tenant will be before each of these when they are queued.
create function positions_at_back_1(p_tenants text[], p_pools text[], p_priorities smallint[]) returns integer[] language plpgsql as $$
declare
    ahead integer;
begin
    -- Most servers serve one tenant, one pool and one priority at a time.
    if p_tenants[1] = all(p_tenants) and p_pools[1] = all(p_pools) and p_priorities[1] = all(p_priorities) then
        ahead := queue_length_1(p_tenants[1], p_pools[1], p_priorities[1]);
        return array(select least(1000, ahead + n) from generate_series(0, cardinality(p_pools) - 1) n);
    end if;
    return array(
        with given as materialized (
            select
                e.*,
                count(*) over (
                    partition by e.tenant, e.pool order by e.priority desc, e.place rows unbounded preceding
                ) - 1 as before
            from unnest(p_tenants, p_pools, p_priorities) with ordinality e (tenant, pool, priority, place)
        ), ahead as materialized (
            select o.*, queue_length_1(o.tenant, o.pool, o.priority) as tasks
            from (select distinct g.tenant, g.pool, g.priority from given g) o
        )
        select least(1000, a.tasks + g.before)::integer
        from given g
        join ahead a using (tenant, pool, priority)
        order by g.place
    );
end $$;

-- Single tasks of many sessions in one call, for concurrent requests to one server: it costs little
-- more than one of them. Only plain tasks are created: without dependencies, delay and grants, for
-- a known agent, with prices for limits of the cost, in a session that has room and is not locked.
-- So it never waits. Tasks that are missing in the answer are spawned one by one, and that answer
-- says why.
create function spawn_concurrent_1(t new_tasks, p_operator jsonb, p_notices text[])
returns table (place integer, id uuid, number integer, queue_position integer, timeout_s double precision) language plpgsql as $$
#variable_conflict use_column
declare
    fit record;
    limits_cost boolean;
    known integer[];
    positions integer[];
    numbers integer[];
begin
    perform commit_durably_1();
    fit := places_with_room_1(t.sessions, array(
        select s.id
        from session s
        where s.id = any(t.sessions) and s.archived_at is null
        order by s.id
        for no key update skip locked
    ));
    if fit.places is null then
        return;
    elsif cardinality(fit.places) < cardinality(t.ids) then
        t := pick_tasks_1(t, fit.places);
    end if;
    select r.* into t.agent_versions, t.loss_rules, t.configs, limits_cost
    from resolve_agents_1(t.sessions, fit.tenants, fit.models, t.agents, t.options, p_operator) r;
    if limits_cost then
        t.configs := with_prices_1(t.configs);
    end if;
    if array_position(t.configs, null) is not null then
        known := array(select e.k::integer from unnest(t.configs) with ordinality e (config, k) where e.config is not null);
        if cardinality(known) = 0 then
            return;
        end if;
        t := pick_tasks_1(t, known);
        fit.places := array(select fit.places[k] from unnest(known) k);
        fit.tenants := array(select fit.tenants[k] from unnest(known) k);
    end if;
    t.pools := default_pools_1(t, null);
    positions := positions_at_back_1(fit.tenants, t.pools, t.priorities);
    numbers := create_tasks_1(t, null, null, cardinality(t.ids), null);
    if cardinality(p_notices) > 0 then
        perform pg_notify('adjutant_queue', n) from unnest(p_notices) n;
    end if;
    return query
    select e.place, e.id, e.number, e.position, time_limit_1(e.config)
    from unnest(fit.places, t.ids, numbers, positions, t.configs) e (place, id, number, position, config);
end $$;
select plan_by_index('spawn_concurrent_1');
