-- What tasks need and workers have: a worker claims only tasks whose model and tools it has.

-- No id is used twice: a worker may still have that of a requirement that was deleted.
create sequence requirement_id;

create table requirement (
    id integer primary key,
    model text,
    tools text[] not null,
    digest text not null unique,
    used_at timestamptz not null default now()
);

comment on table requirement is
    'What tasks need of a worker: each combination of a model and tools once. Tasks, and their rows '
    'in the queue, have its id. A row is deleted when no unfinished task needs it.';
comment on column requirement.model is 'Null: none.';
comment on column requirement.tools is
    'The tools that its agent names and that its task is permitted and granted, sorted. An agent '
    'that ignores missing tools needs none.';
comment on column requirement.digest is
    'Of what a configuration says: several digests may have the same model and tools.';
comment on column requirement.used_at is
    'When it was last known to be needed, by the hour.';

create table tool_shortage (
    pool text not null,
    needs integer not null,
    since timestamptz not null default now(),
    patience interval not null,
    looked_at timestamptz not null default '-infinity',
    primary key (pool, needs)
);

comment on table tool_shortage is
    'The requirements with tools that no living worker of a pool has.';
comment on column tool_shortage.patience is
    'How long the worker that looked last lets tasks wait for the tools.';
comment on column tool_shortage.looked_at is
    'When the queue was last searched for tasks that have waited too long.';

-- The tools that a task cannot run without. A configuration is free-form JSON: what is no name is
-- ignored.
create function required_tools_1(p_config jsonb, p_permissions jsonb, p_grants jsonb) returns text[] language plpgsql stable as $$
declare
    permissions jsonb := jsonb_strip_nulls(p_permissions);
begin
    if p_config ->> 'missing_tools' = 'ignore' then
        return '{}';
    end if;
    return array(
        select distinct n.name
        from (
            select jsonb_path_query(p_config, '$.tools[*]')
            union all
            select jsonb_path_query(p_config, '$.skills[*].tools[*]')
        ) named (value)
        cross join lateral (select named.value #>> '{}' as name) n
        where jsonb_typeof(named.value) = 'string' and n.name not in ('shared_context', 'subagent')
            and is_granted_1(permissions, 'allow', n.name)
            and not (coalesce(permissions ? 'deny', false) and is_granted_1(permissions, 'deny', n.name))
            and is_granted_1(p_grants, 'tools', n.name)
        order by n.name
    );
end $$;

-- The digest of a task's requirement; null if every worker can run it. Most configurations name
-- their tools only in their list. STABLE and without SET clauses, so that PostgreSQL inlines it.
create function requirement_digest_1(p_config jsonb, p_permissions jsonb, p_grants jsonb) returns text language sql stable as $$
    select case
        when coalesce(p_config ->> 'model', '') = '' and coalesce(p_config ->> 'tools', '[]') = '[]'
            and not p_config ? 'skills' then null
        when p_permissions is null and p_grants is null and not p_config ?| array['skills', 'missing_tools']
            then md5(concat_ws(chr(10), p_config ->> 'model', p_config ->> 'tools'))
        else md5(concat_ws(chr(10), p_config ->> 'model', required_tools_1(p_config, p_permissions, p_grants)::text))
    end
$$;

-- Whether a worker with these models and tools can run tasks with this requirement.
create function satisfies_1(p_models text[], p_tools text[], r requirement) returns boolean language sql immutable as $$
    select (p_models is null or r.model is null or r.model = any(p_models) or '*' = any(p_models))
        and (p_tools is null or r.tools <@ p_tools)
$$;

-- Every requirement that a worker satisfies, by id.
create function requirements_of_1(w worker) returns integer[] language plpgsql stable as $$
begin
    return array(select r.id from requirement r where satisfies_1(w.models, w.tools, r) order by r.id);
end $$;

-- Adds a requirement, and tells the workers that satisfy it; or says that one is needed that was
-- not for an hour. One transaction at a time, so that the order of ids is that of commits. A worker
-- whose row is locked finds it at its next poll. There is an end to the number of combinations:
-- tasks with further ones are claimed by every worker.
create function add_requirement_1(p_digest text, p_config jsonb, p_permissions jsonb, p_grants jsonb) returns integer language plpgsql as $$
declare
    added requirement;
begin
    perform pg_advisory_xact_lock(hashtext('adjutant requirement'));
    select * into added from requirement where digest = p_digest;
    if found then
        update requirement set used_at = now() where id = added.id and used_at < now();
        return added.id;
    end if;
    if (select count(*) from requirement) >= 10000 then
        return null;
    end if;
    insert into requirement (id, model, tools, digest)
    values (
        nextval('requirement_id'), nullif(p_config ->> 'model', ''), required_tools_1(p_config, p_permissions, p_grants),
        p_digest
    )
    returning * into added;
    update worker
    set can = can || added.id
    where id in (
        select w.id
        from worker w
        where w.stopped_at is null and satisfies_1(w.models, w.tools, added)
        order by w.id
        for no key update skip locked
    );
    return added.id;
end $$;

-- One step of a walk through all unfinished tasks, 1000 at a time, in the order of their names:
-- keeps the requirements that they need and that nothing is known to have needed since p_before.
-- The answer is where the next step begins; null at the end, and if there are no such requirements.
create function keep_requirements_1(
    p_before timestamptz, p_session bigint, p_number integer, out session bigint, out number integer
) language plpgsql as $$
declare
    unused integer[] := array(select r.id from requirement r where r.used_at < p_before);
    needed integer[];
begin
    if unused = '{}' then
        return;
    end if;
    with walked as materialized (
        select t.session, t.number, t.needs
        from task t
        where t.finished_at is null and (t.session, t.number) > (p_session, p_number)
        order by t.session, t.number
        limit 1000
    )
    select array_agg(distinct w.needs) filter (where w.needs = any(unused)), l.session, l.number
    into needed, session, number
    from walked w
    left join (
        select * from walked x order by x.session, x.number offset 999
    ) l on true
    group by l.session, l.number;
    if needed is not null then
        perform pg_advisory_xact_lock(hashtext('adjutant requirement'));
        update requirement r set used_at = now() where r.id = any(needed);
    end if;
end $$;
select plan_by_index('keep_requirements_1');

-- Deletes the requirements that nothing is known to have needed since p_before, at the end of a
-- walk with the same time; returns how many. A spawn that found one of them without the lock began
-- within an hour after it was needed, and has ended long ago. The workers forget it at their polls.
create function delete_requirements_1(p_before timestamptz) returns integer language plpgsql as $$
declare
    gone integer[];
begin
    perform pg_advisory_xact_lock(hashtext('adjutant requirement'));
    with deleted as (
        delete from requirement where used_at < p_before returning id
    )
    select array_agg(id) into gone from deleted;
    delete from tool_shortage where needs = any(gone);
    return coalesce(cardinality(gone), 0);
end $$;

-- Finds out again what a worker can run. Spawns that add requirements at the same time commit
-- before.
create function update_can_1(p_worker uuid) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(hashtext('adjutant requirement'));
    update worker w
    set can = requirements_of_1(w)
    where w.id = p_worker and w.can <> requirements_of_1(w);
end $$;

-- Publishes what a worker has. Null models or tools: it runs tasks of every kind.
create function set_abilities_1(p_worker uuid, p_models text[], p_tools text[], p_servers_down jsonb) returns void language plpgsql as $$
begin
    update worker
    set models = p_models, tools = p_tools, servers_down = p_servers_down
    where id = p_worker
        and (models is distinct from p_models or tools is distinct from p_tools or servers_down <> p_servers_down);
    perform update_can_1(p_worker);
end $$;

-- The tools of a requirement that no living worker of a pool has. None if no worker lives there.
create function missing_tools_1(p_pool text, p_needs integer) returns text[] language plpgsql stable as $$
begin
    return array(
        select tool
        from requirement r
        cross join unnest(r.tools) tool
        where r.id = p_needs
            and exists (select from living_worker l where l.pool = p_pool)
            and not exists (
                select from living_worker l where l.pool = p_pool and (l.tools is null or tool = any(l.tools))
            )
        order by tool
    );
end $$;

-- Why tasks with a requirement cannot run in a pool: the tools that are missing, and the MCP
-- servers that have not started there. Names and reasons are shortened. Null if no tool is missing.
create function missing_tools_text_1(p_pool text, p_needs integer) returns text language plpgsql stable as $$
begin
    return (
        select format(
            'No worker of the pool %s has the tool%s %s',
            p_pool, case when count(*) > 1 then 's' end, string_agg(to_json(left(m.tool, 64))::text, ', ' order by m.place)
        )
        from unnest(missing_tools_1(p_pool, p_needs)) with ordinality m (tool, place)
        where m.place <= 5
        having count(*) > 0
    ) || coalesce((
        select string_agg(format('. MCP server %s: %s', left(s.name, 64), left(s.reason, 300)), '' order by s.name)
        from (
            select d.name, min(d.reason) as reason
            from living_worker l
            cross join jsonb_each_text(l.servers_down) d (name, reason)
            where l.pool = p_pool
            group by d.name
            order by d.name
            limit 5
        ) s
    ), '');
end $$;

-- Keeps the shortages of a pool, and returns those that have lasted for longer than the patience
-- and whose tasks were not searched for lately. The patience begins anew when all workers were
-- restarted: a server that they need may still be starting.
create function lasting_shortages_1(p_pool text, p_patience interval) returns integer[] language plpgsql as $$
declare
    lacking integer[];
begin
    lacking := array(
        with living as materialized (
            select distinct l.tools from living_worker l where l.pool = p_pool
        ), known as materialized (
            select array(select distinct unnest(l.tools) from living l) as tools
        )
        select r.id
        from requirement r
        cross join known k
        where not r.tools <@ k.tools and exists (select from living) and not exists (select from living l where l.tools is null)
    );
    delete from tool_shortage s where s.pool = p_pool and s.needs <> all(lacking);
    insert into tool_shortage (pool, needs, patience)
    select p_pool, unnest(lacking), p_patience
    on conflict do nothing;
    update tool_shortage s set patience = p_patience where s.pool = p_pool and s.patience <> p_patience;
    return array(
        select s.needs
        from tool_shortage s
        where s.pool = p_pool and s.since <= now() - p_patience and s.looked_at <= now() - least(p_patience / 10, interval '10 s')
            and exists (select from living_worker l where l.pool = p_pool and l.started_at <= now() - p_patience)
    );
end $$;

-- Fails queued tasks, at most p_limit of them, that have waited for longer than the patience while
-- no living worker of their pool has their tools; returns them. A pool without workers waits. The
-- tasks of a session that another transaction holds are left for the next call.
create function fail_without_tools_1(p_worker uuid, p_patience interval, p_limit integer) returns uuid[] language plpgsql as $$
declare
    own_pool text := (select pool from worker where id = p_worker);
    due integer[];
    found uuid[];
    sessions bigint[];
    doomed uuid[];
    reasons jsonb[];
begin
    -- One call at a time is enough; others would only search the queue again.
    if not pg_try_advisory_xact_lock(hashtext('adjutant fail_without_tools'), hashtext(own_pool)) then
        return '{}';
    end if;
    due := lasting_shortages_1(own_pool, p_patience);
    if due = '{}' then
        return '{}';
    end if;
    select coalesce(array_agg(late.task), '{}'), array_agg(distinct late.session) into found, sessions
    from (
        select q.task, q.session
        from queue q
        join task t on t.id = q.task
        where q.pool = own_pool and q.needs = any(due) and t.created_at <= now() - p_patience
        limit p_limit
    ) late;
    if cardinality(found) < p_limit then
        update tool_shortage set looked_at = now() where pool = own_pool and needs = any(due);
    end if;
    sessions := lock_free_sessions_1(sessions);
    with gone as (
        delete from queue
        where (session, task) in (
            select q.session, q.task
            from queue q
            -- In this snapshot too, from which the texts below come.
            where q.session = any(sessions) and q.task = any(found) and cardinality(missing_tools_1(own_pool, q.needs)) > 0
            for update skip locked
        )
        returning task, needs
    ), texts as materialized (
        select n.needs, missing_tools_text_1(own_pool, n.needs) as text from (select distinct needs from gone) n
    )
    select
        coalesce(array_agg(g.task order by g.task), '{}'),
        array_agg(jsonb_build_object('failure', 'tool', 'error', x.text) order by g.task)
    into doomed, reasons
    from gone g
    join texts x using (needs);
    if doomed <> '{}' then
        perform write_ends_1(null, doomed, null, array_fill('failed'::text, array[cardinality(doomed)]), null, reasons);
        perform settle_and_admit_1(sessions, doomed, '{}');
    end if;
    return doomed;
end $$;
select plan_by_index('fail_without_tools_1');
