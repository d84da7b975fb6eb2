-- spawn: creates tasks.

-- Records the dependencies of new tasks: the number of an earlier task, or a negative place in the
-- batch (-1 is its first). Numbers that are not in use yet are refused, because they could close a
-- circle. So could a dependency on a task of another spawner, together with a parent that waits for
-- its children; so a task may depend only on tasks of the same spawner.
create function record_dependencies_1(s session, p_tasks jsonb, p_spawned uuid[], p_parent uuid) returns void language plpgsql as $$
declare
    missing integer;
begin
    with named as (
        select
            p_spawned[e.place] as task,
            x.dependency,
            case when x.dependency > 0 then x.dependency else s.next_number - x.dependency - 1 end as number
        from jsonb_array_elements(p_tasks) with ordinality e (body, place)
        cross join lateral jsonb_array_elements_text(e.body -> 'depends_on') d (word)
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

-- The session's limits: max_active unfinished tasks without a parent, or with "queue" max_queued in
-- all. Counts stop at the limit that they are compared with, so that a long backlog stays cheap.
create function check_room_1(s session, p_tasks jsonb) returns void language plpgsql as $$
declare
    wanted integer := jsonb_array_length(p_tasks);
    impatient integer := (select count(*) from jsonb_array_elements(p_tasks) t where not (t -> 'queue')::boolean);
    oldest integer;
    unfinished integer;
begin
    if impatient > 0 then
        select count(*) into unfinished
        from (
            select from task where session = s.id and finished_at is null and parent is null limit s.max_active
        ) t;
        if unfinished + wanted > s.max_active then
            perform refuse('MAX_TASKS_EXCEEDED', format(
                'The session has %s unfinished tasks, and with %s more it would have over %s; wait for one to end, or spawn with "queue": true',
                unfinished, wanted, s.max_active
            ));
        end if;
    end if;
    -- Tasks end roughly in the order of their numbers, so the oldest number usually decides.
    select number into oldest from task where session = s.id and finished_at is null order by number limit 1;
    if oldest is null or s.next_number - oldest + wanted <= s.max_queued then
        return;
    end if;
    select count(*) into unfinished
    from (select from task where session = s.id and finished_at is null limit s.max_queued) t;
    if unfinished + wanted > s.max_queued then
        perform refuse('MAX_TASKS_EXCEEDED', format(
            'The session has %s unfinished tasks, and with %s more it would have over %s, which is all its queue takes',
            unfinished, wanted, s.max_queued
        ));
    end if;
end $$;

-- The answer of a spawn; s is the session before it. Usually all new tasks have one pool and priority
-- (otherwise p_pool or p_priority is null) and the session had nothing else to do: then they are the
-- last of the queue, or outside the window behind those.
create function spawn_answer_1(s session, p_spawned uuid[], p_pool text, p_priority smallint)
returns table (id uuid, number integer, state text, queue_position integer) language plpgsql as $$
#variable_conflict use_column
declare
    before integer;
begin
    if p_pool is null or p_priority is null
        or exists (select from task where session = s.id and finished_at is null and number < s.next_number) then
        return query
        select t.id, t.number, t.state::text, p.place
        from task t
        left join queue_positions_1(s.id, p_spawned) p on p.task = t.id
        where t.session = s.id and t.number >= s.next_number and t.number < s.next_number + cardinality(p_spawned)
        order by t.number;
        return;
    end if;
    before := queue_length_1(s.tenant, p_pool, p_priority) - (select count(*) from queue where session = s.id);
    return query
    select t.id, (s.next_number + t.place - 1)::integer, 'queued', least(1000, before + t.place - 1)::integer
    from unnest(p_spawned) with ordinality t (id, place);
end $$;
alter function spawn_answer_1 set enable_hashjoin = on;

-- The plain case: one task that waits for nothing, in a session with room for it. Returns no row if it
-- is not the plain case. If fewer tasks are unfinished than may be active, all that could be admitted
-- have been, and none is before this one. Needs the session's lock.
create function spawn_one_1(s session, p_tasks jsonb, p_notices text[])
returns table (id uuid, number integer, state text, queue_position integer) language plpgsql as $$
#variable_conflict use_column
declare
    unfinished integer;
begin
    if jsonb_array_length(p_tasks -> 0 -> 'depends_on') > 0 or p_tasks -> 0 ->> 'delay_s' is not null
        or p_tasks -> 0 ? 'snapshot' then
        return;
    end if;
    select count(*) into unfinished
    from (select from task where session = s.id and finished_at is null limit s.max_active) t;
    if unfinished >= least(s.max_active, s.max_queued) then
        return;
    end if;
    return query
    with asked as materialized (
        select *
        from jsonb_to_recordset(p_tasks) as t (
            id uuid, label text, metadata jsonb, agent text, agent_version integer, config jsonb, assignment text,
            pool text, priority smallint, on_worker_loss text, max_failures smallint, traceparent text, webhook jsonb
        )
    ), made as (
        insert into task (
            id, session, number, root, depth, label, metadata, agent, agent_version, config, assignment, pool, priority,
            on_worker_loss, max_failures, traceparent, webhook, state
        )
        select
            a.id, s.id, s.next_number, a.id, 0, a.label, coalesce(a.metadata, '{}'), a.agent, a.agent_version,
            add_session_settings_1(a.config, s.parent, s.permissions), a.assignment, a.pool, a.priority, a.on_worker_loss, a.max_failures,
            a.traceparent, a.webhook, 'queued'
        from asked a
    ), emitted as (
        insert into event (session, seq, task, kind)
        select s.id, s.next_event, a.id, 'spawned' from asked a
    ), counted as (
        update session set next_number = next_number + 1, next_event = next_event + 1 where session.id = s.id
    ), queued as (
        insert into queue (task, session, tenant, pool, priority, entry)
        select a.id, s.id, s.tenant, a.pool, a.priority, nextval('queue_entry') from asked a
    )
    select a.id, s.next_number, 'queued', (
        select count(*)::integer
        from (
            select from queue b where b.pool = a.pool and b.tenant = s.tenant and b.priority >= a.priority limit 1000
        ) b
    )
    from asked a;
    if cardinality(p_notices) > 0 then
        perform pg_notify('adjutant_queue', n) from unnest(p_notices) n;
    end if;
end $$;

-- Creates many tasks at once, all or none. Children need their parent's lease.
create function spawn_1(
    p_session bigint, p_tasks jsonb, p_key text, p_body bytea, p_parent uuid, p_lease uuid, p_slot integer, p_notices text[],
    p_action text default 'spawn'
)
returns table (id uuid, number integer, state text, queue_position integer) language plpgsql as $$
#variable_conflict use_column
declare
    s session;
    above task;
    wanted integer := jsonb_array_length(p_tasks);
    -- A parent's keys are separate from the orchestrator's.
    own_key text := coalesce(p_parent || '/', '') || p_key;
    spawned uuid[];
    waiting uuid[];
    overlays bigint[];
    line_pool text;
    line_priority smallint;
    answer jsonb;
begin
    perform commit_durably_1();
    select * into s from session where session.id = p_session for no key update;
    if not found then
        perform refuse('SESSION_NOT_FOUND', 'Session not found');
    end if;

    if p_parent is not null then
        update slot
        set active_at = now(),
            expires_at = greatest(expires_at, now() + (select w.lease from worker w where w.id = slot.worker))
        where slot.n = p_slot and slot.task = p_parent and slot.lease = p_lease and slot.session = s.id;
        if not found then
            perform lease_lost(p_parent);
        end if;
        select * into above from task where task.id = p_parent;
    end if;

    if p_key is not null then
        answer := find_answer_1(s.id, p_action, own_key, p_body);
    end if;
    if answer is not null then
        return query select a.* from jsonb_to_recordset(answer)
            a (id uuid, number integer, state text, queue_position integer);
        return;
    end if;

    if s.archived_at is not null then
        perform refuse('SESSION_ARCHIVED', format('Session %s is archived: it accepts no new tasks', s.name));
    end if;
    if p_tasks -> 0 ? 'quota' then
        perform check_quota_1(s, p_tasks -> 0);
    end if;
    if wanted = 1 and p_parent is null and p_key is null then
        return query select * from spawn_one_1(s, p_tasks, p_notices);
        if found then
            return;
        end if;
    end if;
    if above.depth >= 10 then
        perform refuse('INVALID_ARGUMENT', 'depth: a tree of tasks is at most 10 deep');
    elsif p_parent is null then
        perform check_room_1(s, p_tasks);
    end if;

    with made as (
        insert into task (
            id, session, number, parent, root, depth, label, metadata, agent, agent_version, config, assignment,
            pool, priority, not_before, on_worker_loss, max_failures, traceparent, call, webhook, state, waiting_for, context
        )
        select
            t.id, s.id, s.next_number + t.place - 1, above.id, coalesce(above.root, t.id), coalesce(above.depth + 1, 0),
            t.label, coalesce(t.metadata, '{}'), t.agent, t.agent_version, add_session_settings_1(t.config, s.parent, s.permissions), t.assignment,
            t.pool, t.priority, now() + t.delay_s * interval '1 second', t.on_worker_loss, t.max_failures, t.traceparent,
            t.call, t.webhook,
            case when cardinality(t.depends_on) > 0 then 'waiting' else 'queued' end,
            case when cardinality(t.depends_on) > 0 then 'dependencies' end,
            case when t.snapshot then nextval('context_overlay') else above.context end
        from rows from (
            jsonb_to_recordset(p_tasks) as (
                id uuid, label text, metadata jsonb, agent text, agent_version integer, config jsonb, assignment text,
                pool text, priority smallint, delay_s double precision, on_worker_loss text, max_failures smallint,
                traceparent text, call text, webhook jsonb, depends_on integer[], snapshot boolean
            )
        ) with ordinality t (
            id, label, metadata, agent, agent_version, config, assignment, pool, priority, delay_s, on_worker_loss,
            max_failures, traceparent, call, webhook, depends_on, snapshot, place
        )
        returning id, number, state, context, pool, priority, not_before
    ), emitted as (
        insert into event (session, seq, task, kind)
        select s.id, s.next_event + m.number - s.next_number, m.id, 'spawned'
        from made m
    )
    select
        array_agg(m.id order by m.number),
        coalesce(array_agg(m.id order by m.number) filter (where m.state = 'waiting'), '{}'),
        array_agg(m.context) filter (where m.context is distinct from above.context),
        case when min(m.pool) = max(m.pool) and bool_and(m.state = 'queued' and m.not_before is null) then min(m.pool) end,
        case when min(m.priority) = max(m.priority) then min(m.priority) end
    into spawned, waiting, overlays, line_pool, line_priority
    from made m;
    update session set next_number = next_number + wanted, next_event = next_event + wanted where session.id = s.id;

    if overlays is not null then
        perform copy_context_1(coalesce(above.context, s.id), overlays);
    end if;
    if cardinality(waiting) > 0 then
        perform record_dependencies_1(s, p_tasks, spawned, p_parent);
        perform settle_1(waiting);
    end if;
    perform admit_1(array[s.id]);
    perform pg_notify('adjutant_queue', n) from unnest(p_notices) n;

    if p_key is null then
        return query select * from spawn_answer_1(s, spawned, line_pool, line_priority);
        return;
    end if;
    answer := (select jsonb_agg(a order by a.number) from spawn_answer_1(s, spawned, line_pool, line_priority) a);
    perform store_answer_1(s.id, p_action, own_key, p_body, answer);
    return query select a.* from jsonb_to_recordset(answer)
        a (id uuid, number integer, state text, queue_position integer);
end $$;
select plan_by_index('spawn_1');

-- spawn for a tenant with limits. They are checked afterwards, when it is known whether tasks were
-- created: a repeated request gets its stored answer and creates nothing.
create function spawn_within_1(
    p_max_active bigint, p_max_queued bigint, p_session bigint, p_tasks jsonb, p_key text, p_body bytea, p_notices text[],
    p_action text
)
returns table (id uuid, number integer, state text, queue_position integer) language plpgsql as $$
#variable_conflict use_column
declare
    owner text := (select s.tenant from session s where s.id = p_session);
    first integer;
    impatient boolean := exists (select from jsonb_array_elements(p_tasks) t where not (t -> 'queue')::boolean);
    used record;
begin
    perform lock_tenant_1(owner);
    first := (select s.next_number from session s where s.id = p_session);
    return query select * from spawn_1(p_session, p_tasks, p_key, p_body, null, null, null, p_notices, p_action);
    if first = (select s.next_number from session s where s.id = p_session) then
        return;
    end if;
    select * into used from tenant_usage_1(owner, greatest(p_max_active, p_max_queued) + 1);
    if impatient and used.active > p_max_active then
        perform refuse('MAX_TASKS_EXCEEDED', format(
            'With this the tenant would have over %s unfinished tasks; wait for one to end, or spawn with "queue": true',
            p_max_active
        ));
    elsif used.queued > p_max_queued then
        perform refuse('MAX_TASKS_EXCEEDED', format(
            'With this the tenant would have over %s unfinished tasks, which is all it may have', p_max_queued
        ));
    end if;
end $$;
