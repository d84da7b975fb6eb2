-- Agents: named configurations, of the config (every session sees them) or of one session. Every version stays: a task says
-- which one it was spawned with.
create table agent (
    session bigint,
    name text not null,
    version integer not null check (version > 0),
    definition jsonb not null,
    defined_at timestamptz not null default now(),
    gone_at timestamptz,
    unique nulls not distinct (session, name, version)
);

comment on table agent is 'Agents by name; the newest version counts.';
comment on column agent.session is 'Null: an agent of the config.';
comment on column agent.definition is 'All that its author said; a task takes a copy of what it needs.';
comment on column agent.gone_at is 'Since when the config does not have it any more.';

alter table session add column model text;
comment on column session.model is 'The orchestrator''s model, which agents without one use. Null: the config''s default.';

-- The newest version of an agent, a session's own before one of the config.
create function agent_1(p_session bigint, p_name text) returns setof agent language plpgsql stable as $$
begin
    return query
    select * from agent where session = p_session and name = p_name order by version desc limit 1;
    if found then
        return;
    end if;
    return query
    select a.*
    from (select * from agent where session is null and name = p_name order by version desc limit 1) a
    where a.gone_at is null;
end $$;

-- The agents that a session can spawn, by name.
create function agents_1(p_session bigint) returns setof agent language plpgsql stable as $$
begin
    perform from session where id = p_session;
    if not found then
        perform refuse('SESSION_NOT_FOUND', 'Session not found');
    end if;
    return query
    select known.*
    from (
        select distinct on (a.name) a.*
        from (
            select * from agent where session = p_session
            union all
            select * from agent where session is null
        ) a
        order by a.name, a.session nulls last, a.version desc
    ) known
    where known.gone_at is null
    order by known.name;
end $$;

-- Makes the config's agents be these: what is new or other than before becomes a version, what is missing is marked. One
-- process at a time, so that a version has one content.
create function publish_agents_1(p_definitions jsonb) returns void language plpgsql as $$
declare
    names text[] := array(select d ->> 'name' from jsonb_array_elements(p_definitions) d);
begin
    perform pg_advisory_xact_lock(hashtext('adjutant publish_agents'));
    update agent set gone_at = now() where session is null and gone_at is null and name <> all(names);
    update agent a
    set gone_at = null
    from jsonb_array_elements(p_definitions) d
    where a.session is null and a.name = d ->> 'name' and a.definition = d and a.gone_at is not null
        and not exists (select from agent b where b.session is null and b.name = a.name and b.version > a.version);
    insert into agent (name, version, definition)
    select d ->> 'name', coalesce(newest.version, 0) + 1, d
    from jsonb_array_elements(p_definitions) d
    left join lateral (
        select a.version, a.definition
        from agent a
        where a.session is null and a.name = d ->> 'name'
        order by a.version desc
        limit 1
    ) newest on true
    where newest.definition is distinct from d;
end $$;

-- An agent of one session; the answer is its version. A session's own agent may be replaced, one of the config may not.
create function define_1(p_session bigint, p_definition jsonb, p_replace boolean) returns integer language plpgsql as $$
declare
    s session;
    wanted text := p_definition ->> 'name';
    known agent;
begin
    perform commit_durably_1();
    select * into s from session where id = p_session for no key update;
    if not found then
        perform refuse('SESSION_NOT_FOUND', 'Session not found');
    elsif s.archived_at is not null then
        perform refuse('SESSION_ARCHIVED', format('Session %s is archived: it accepts no new agents', s.name));
    end if;
    select * into known from agent_1(p_session, wanted);
    if found and (known.session is null or not p_replace) then
        perform refuse('AGENT_ALREADY_EXISTS', format('Agent already exists: %s', wanted));
    end if;
    insert into agent (session, name, version, definition)
    values (p_session, wanted, coalesce(known.version, 0) + 1, p_definition);
    return coalesce(known.version, 0) + 1;
end $$;

-- Tools: the catalogue that workers publish, so that who runs none can tell what there is.
create table tool (
    name text primary key,
    definition jsonb not null,
    seen_at timestamptz not null default now()
);

comment on table tool is 'Every tool that a worker has. Workers say so again and again: what nobody has mentioned for a day is gone.';

-- By name, so that two workers that start together do not wait for each other in a circle.
create function publish_tools_1(p_definitions jsonb) returns void language plpgsql as $$
begin
    insert into tool (name, definition)
    select distinct on (d ->> 'name') d ->> 'name', d
    from jsonb_array_elements(p_definitions) d
    order by d ->> 'name'
    on conflict (name) do update
    set definition = excluded.definition, seen_at = excluded.seen_at;
end $$;

select plan_by_index('agent_1');
select plan_by_index('agents_1');
select plan_by_index('publish_agents_1');
select plan_by_index('define_1');
