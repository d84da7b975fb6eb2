-- Agents (named configurations of the config file or of one session), the tools that workers
-- publish, and the resolution of an agent's configuration at spawn.

create table agent (
    session bigint,
    name text not null,
    version integer not null check (version > 0),
    definition jsonb not null,
    defined_at timestamptz not null default now(),
    gone_at timestamptz,
    publisher text,
    unique nulls not distinct (session, name, version),
    constraint published_or_of_a_session check (num_nonnulls(session, publisher) = 1)
);

comment on table agent is
    'Agents by name. The newest version is in effect, and the newest 20 of a name are kept. Tasks '
    'have copies of their configurations.';
comment on column agent.session is 'Null: an agent of the config file, visible to every session.';
comment on column agent.definition is 'The whole definition. A task takes a copy of what it needs.';
comment on column agent.gone_at is 'When no process published it any more.';
comment on column agent.publisher is 'The name of the config that has it. Null: of a session.';

create table publisher (
    process uuid primary key,
    config text not null,
    name text not null,
    definitions jsonb not null,
    digest text not null,
    changed_at timestamptz not null,
    seen_at timestamptz not null default now(),
    stopped_at timestamptz
)
with (fillfactor = 50);

comment on table publisher is
    'The processes that publish agents, each with its list: those that run, and those of the last '
    '7 days.';
comment on column publisher.config is 'The name of the config. Agents belong to it.';
comment on column publisher.name is 'A name for people: host and process.';
comment on column publisher.digest is 'Of the definitions: equal lists have equal digests.';
comment on column publisher.changed_at is
    'When this list was new. A process that starts with a list that its config had before inherits '
    'the time, so that a restart of the previous release does not count as a change.';

-- Whether an agent of the config file is for this tenant: its "tenants" are missing, or name it.
create function is_for_tenant_1(p_definition jsonb, p_tenant text) returns boolean language sql immutable as $$
    select coalesce(p_definition -> 'tenants' ? p_tenant, true)
$$;

-- Whether grants allow a name of this kind: tools, models, agents, pools. They are lists of
-- patterns, in which * is any text; a missing list allows every name. Grants::allows_tool in
-- adjutant-agent matches the same way.
create function is_granted_1(p_grants jsonb, p_kind text, p_name text) returns boolean language sql immutable as $$
    select p_grants -> p_kind is null or exists (
        select
        from jsonb_array_elements_text(p_grants -> p_kind) g (pattern)
        where p_name like replace(replace(replace(replace(g.pattern, '\', '\\'), '%', '\%'), '_', '\_'), '*', '%')
    )
$$;

-- The newest version of an agent: the session's own, or else the config file's, if it is for the
-- session's tenant.
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
    where a.gone_at is null and is_for_tenant_1(a.definition, (select tenant from session where id = p_session));
end $$;
select plan_by_index('agent_1');

-- The agents of a session, by name.
create function agents_1(p_session bigint) returns setof agent language plpgsql stable as $$
declare
    owner text;
begin
    select tenant into owner from session where id = p_session;
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
    where known.gone_at is null and is_for_tenant_1(known.definition, owner)
    order by known.name;
end $$;
select plan_by_index('agents_1');

-- Deletes the versions of an agent that are older than the newest 20, up to 1000 of them.
create function forget_versions_1(p_session bigint, p_name text, p_newest integer) returns void language plpgsql as $$
begin
    if p_session is null then
        delete from agent
        where session is null and name = p_name and version between p_newest - 1019 and p_newest - 20;
    else
        delete from agent
        where session = p_session and name = p_name and version between p_newest - 1019 and p_newest - 20;
    end if;
end $$;
select plan_by_index('forget_versions_1');

-- The agents of configs that are there, in their newest versions.
create view published_agent as
select newest.*
from (
    select distinct on (a.name) a.name, a.version, a.publisher, a.gone_at
    from agent a
    where a.session is null
    order by a.name, a.version desc
) newest
where newest.gone_at is null;

comment on view published_agent is 'The agents of configs that are there, in their newest versions.';
comment on column published_agent.name is 'Its name in the config.';
comment on column published_agent.version is 'The number of its newest version.';
comment on column published_agent.publisher is 'The name of the config that it belongs to.';
comment on column published_agent.gone_at is 'When it left its config: null here.';

-- Whether a process that was last seen then counts: it reports every 15 s.
create function is_publishing_1(p_seen_at timestamptz, p_stopped_at timestamptz) returns boolean language sql stable as $$
    select p_stopped_at is null and p_seen_at > now() - interval '2 minutes'
$$;

-- The agents of a config: all that its running processes publish, each as the newest list has it.
create function current_agents_1(p_config text) returns table (name text, definition jsonb) language plpgsql stable as $$
begin
    return query
    select distinct on (d ->> 'name') d ->> 'name', d
    from publisher p
    cross join jsonb_array_elements(p.definitions) d
    where p.config = p_config and is_publishing_1(p.seen_at, p.stopped_at)
    order by d ->> 'name', p.changed_at desc, p.process;
end $$;

-- An agent among these names that a running process of another config publishes, if there is one.
create function published_elsewhere_1(p_config text, p_names text[])
returns table (agent text, config text, process text) language plpgsql stable as $$
begin
    return query
    select d ->> 'name', p.config, p.name
    from publisher p
    cross join jsonb_array_elements(p.definitions) d
    where p.config <> p_config and is_publishing_1(p.seen_at, p.stopped_at) and d ->> 'name' = any(p_names)
    order by d ->> 'name', p.seen_at desc
    limit 1;
end $$;

-- Makes the table of agents fit what the processes of a config publish: changed definitions become
-- new versions, missing agents are marked. Needs the lock of publish_agents_1. Agents of other
-- configs stay. Of an agent that a running process of another config has, that one's stays.
create function settle_agents_1(p_config text) returns void language plpgsql as $$
declare
    names text[] := array(select c.name from current_agents_1(p_config) c);
begin
    update agent
    set gone_at = now()
    where session is null and gone_at is null and publisher = p_config and name <> all(names);
    names := array(
        select n.name
        from unnest(names) n (name)
        where n.name in (select a.name from published_agent a where a.publisher = p_config)
            or not exists (select from published_elsewhere_1(p_config, array[n.name]))
    );
    update agent a
    set gone_at = null, publisher = p_config
    from current_agents_1(p_config) c
    where a.session is null and a.name = c.name and a.name = any(names) and a.definition = c.definition
        and (a.gone_at is not null or a.publisher <> p_config)
        and not exists (select from agent b where b.session is null and b.name = a.name and b.version > a.version);
    insert into agent (name, version, definition, publisher)
    select c.name, coalesce(newest.version, 0) + 1, c.definition, p_config
    from current_agents_1(p_config) c
    left join lateral (
        select a.version, a.definition
        from agent a
        where a.session is null and a.name = c.name
        order by a.version desc
        limit 1
    ) newest on true
    where c.name = any(names) and newest.definition is distinct from c.definition;
    perform forget_versions_1(null, a.name, max(a.version))
    from agent a
    where a.session is null and a.name = any(names)
    group by a.name;
end $$;
select plan_by_index('settle_agents_1');

-- Sets the list of a process. A list that its config had before counts from then. One process at a
-- time, so that a version has one content.
create function publish_agents_1(p_process uuid, p_config text, p_name text, p_definitions jsonb) returns void language plpgsql as $$
declare
    wanted_digest text := md5(p_definitions::text);
    other record;
begin
    perform pg_advisory_xact_lock(hashtext('adjutant publish_agents'));
    select * into other
    from published_elsewhere_1(p_config, array(select d ->> 'name' from jsonb_array_elements(p_definitions) d));
    if found then
        perform refuse('AGENT_ALREADY_EXISTS', format(
            'The agent %s of the config "%s" is also published by the config "%s" (process %s); '
            'rename one of the agents, or set the same name in both configs',
            other.agent, p_config, other.config, other.process
        ));
    end if;
    insert into publisher as p (process, config, name, definitions, digest, changed_at)
    values (
        p_process, p_config, p_name, p_definitions, wanted_digest,
        coalesce((select min(x.changed_at) from publisher x where x.config = p_config and x.digest = wanted_digest), now())
    )
    on conflict (process) do update
    set config = excluded.config, name = excluded.name, definitions = excluded.definitions, digest = excluded.digest,
        changed_at = case when p.digest = excluded.digest then p.changed_at else now() end,
        seen_at = now(), stopped_at = null;
    perform settle_agents_1(p_config);
    delete from publisher
    where process in (
        select x.process from publisher x where x.seen_at < now() - interval '7 days' limit 1000 for update skip locked
    );
end $$;
select plan_by_index('publish_agents_1');

-- Reports that a process still runs. False: it has to publish again. Where lists differ, one that
-- is no longer reported loses its effect here; but not in the first report after a pause, when
-- those of others may have paused too, as in an outage of the database.
create function keep_published_1(p_process uuid) returns boolean language plpgsql as $$
declare
    mine publisher;
begin
    select * into mine from publisher where process = p_process and stopped_at is null;
    if not found then
        return false;
    end if;
    if is_publishing_1(mine.seen_at, null) and (
        select count(distinct p.digest) > 1
        from publisher p
        where p.config = mine.config and p.stopped_at is null and p.seen_at > now() - interval '1 hour'
    ) then
        perform pg_advisory_xact_lock(hashtext('adjutant publish_agents'));
        perform settle_agents_1(mine.config);
    end if;
    update publisher set seen_at = now() where process = p_process;
    return true;
end $$;
select plan_by_index('keep_published_1');

-- Ends the publishing of a process that stops. Agents that the others of its config do not publish
-- are gone; if it is the last one, all stay, and their tasks wait for the next.
create function stop_publishing_1(p_process uuid) returns void language plpgsql as $$
declare
    stopped text;
begin
    perform pg_advisory_xact_lock(hashtext('adjutant publish_agents'));
    update publisher set stopped_at = now() where process = p_process and stopped_at is null returning config into stopped;
    if exists (select from publisher p where p.config = stopped and is_publishing_1(p.seen_at, p.stopped_at)) then
        perform settle_agents_1(stopped);
    end if;
end $$;
select plan_by_index('stop_publishing_1');

-- Defines an agent for one session and returns its version. A session's own agent may be replaced,
-- one of the config file may not.
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
    perform forget_versions_1(p_session, wanted, coalesce(known.version, 0) + 1);
    return coalesce(known.version, 0) + 1;
end $$;
select plan_by_index('define_1');

-- The agent for a name that is not registered, if the operator allows free-form agents.
create function free_form_agent_1(p_operator jsonb, p_name text) returns jsonb language sql immutable as $$
    select case when p_name ~ '^[a-z0-9_-]{1,64}$' then jsonb_set(
        p_operator -> 'free_form',
        '{config, system_prompt}',
        to_jsonb(replace(p_operator #>> '{free_form, config, system_prompt}', '${_category}', p_name))
    ) end
$$;

-- The smaller of two budgets, limit by limit.
create function tighter_budget_1(a jsonb, b jsonb) returns jsonb language plpgsql immutable as $$
begin
    return jsonb_strip_nulls(jsonb_build_object(
        'max_input_tokens', least((a ->> 'max_input_tokens')::bigint, (b ->> 'max_input_tokens')::bigint),
        'max_output_tokens', least((a ->> 'max_output_tokens')::bigint, (b ->> 'max_output_tokens')::bigint),
        'max_cost_nanousd', least((a ->> 'max_cost_nanousd')::bigint, (b ->> 'max_cost_nanousd')::bigint)
    ));
end $$;

-- The configuration of a task. The model is the agent's, the session's or the operator's. The
-- time-out is the spawn's or the agent's. A spawn can lower the limits of the agent's budget, not
-- raise them. The operator's ceilings bound them.
create function resolve_config_1(p_agent jsonb, p_options jsonb, p_model text, p_operator jsonb)
returns jsonb language plpgsql immutable as $$
begin
    return p_agent || jsonb_strip_nulls(jsonb_build_object(
        'model', coalesce(nullif(p_agent ->> 'model', ''), p_model, p_operator ->> 'default_model'),
        'max_turns', least((p_agent ->> 'max_turns')::integer, (p_operator ->> 'max_turns_ceiling')::integer),
        'summary_prompt', p_options -> 'summary_prompt',
        'timeout_s', least(
            coalesce(p_options ->> 'timeout_s', p_agent ->> 'timeout_s', p_operator ->> 'default_timeout_s')::double precision,
            (p_operator ->> 'max_timeout_s')::double precision
        ),
        'budget', nullif(case
            when p_options ? 'budget' then tighter_budget_1(p_agent -> 'budget', p_options -> 'budget')
            else p_agent -> 'budget'
        end, '{}'),
        'on_budget', coalesce(p_options -> 'on_budget', p_agent -> 'on_budget'),
        'skills', nullif(coalesce(p_agent -> 'skills', '[]') || coalesce(p_options #> '{equipment, skills}', '[]'), '[]'),
        'inheritance', coalesce(p_agent -> 'inheritance', p_options #> '{equipment, inheritance}'),
        'sections', nullif(p_options #> '{equipment, sections}', 'false'),
        'envelope', nullif(p_options #> '{equipment, envelope}', 'false'),
        'continues', p_options -> 'continues'
    ));
end $$;

-- The longest that a task may run. A configuration is free-form JSON: what is no number is no
-- limit.
create function time_limit_1(p_config jsonb) returns double precision language sql immutable as $$
    select case jsonb_typeof(p_config -> 'timeout_s') when 'number' then (p_config -> 'timeout_s')::double precision end
$$;

-- Whether an agent's inheritance policy turns missing skills or tool conflicts into errors. Only
-- the caller can check these, before the spawn.
create function is_strict_1(p_config jsonb) returns boolean language sql immutable as $$
    select coalesce('error' in (
        p_config #>> '{inheritance, missing_skill_policy}', p_config #>> '{inheritance, tool_conflict_policy}'
    ), false)
$$;

-- Adds what a task gets from its session: the parent's settings, if it inherits any, and the
-- permissions; and its grants, in place of those that its configuration may contain. Applied to
-- every new task, in the transaction that creates it. STABLE, as the functions that it calls, so
-- that PostgreSQL inlines it.
create function add_session_settings_1(p_config jsonb, p_parent jsonb, p_permissions jsonb, p_grants jsonb)
returns jsonb language sql stable as $$
    select case
        when p_parent is null and p_permissions is null and p_grants is null
            and not p_config ?| array['parent', 'permissions', 'grants'] then p_config
        else (p_config - array['parent', 'permissions', 'grants']) || jsonb_strip_nulls(jsonb_build_object(
            'parent', case when p_config ? 'inheritance' then p_parent end,
            'permissions', p_permissions,
            'grants', p_grants
        ))
    end
$$;

create table tool (
    name text primary key,
    definition jsonb not null,
    tenants text[],
    seen_at timestamptz not null default now()
);

comment on table tool is
    'Every tool that a worker has. Workers publish their tools repeatedly; a tool that is not '
    'published for a day is gone.';
comment on column tool.tenants is 'The tenants whose tasks may use it. Null: all.';

-- Whether a tool is for this tenant; without a tenant, every tool is.
create function is_tool_for_1(p_tenants text[], p_tenant text) returns boolean language sql immutable as $$
    select p_tenants is null or p_tenant is null or p_tenant = any(p_tenants)
$$;

-- A definition may also say its "tenants". Ordered by name, so that two workers that start at the
-- same time do not deadlock.
create function publish_tools_1(p_definitions jsonb) returns void language plpgsql as $$
begin
    insert into tool (name, definition, tenants)
    select distinct on (d ->> 'name')
        d ->> 'name', d - 'tenants',
        case when d ? 'tenants' then array(select jsonb_array_elements_text(d -> 'tenants')) end
    from jsonb_array_elements(p_definitions) d
    order by d ->> 'name'
    on conflict (name) do update
    set definition = excluded.definition, tenants = excluded.tenants, seen_at = excluded.seen_at;
end $$;

create table model (
    name text primary key,
    has_prices boolean not null,
    seen_at timestamptz not null default now()
);

comment on table model is
    'Every name by which a worker knows a model, aliases too; * stands for all other names. Workers '
    'publish them repeatedly; one that is not published for a day is unknown.';
comment on column model.has_prices is
    'Whether its calls have a cost. If workers disagree: what the last one said.';

create function publish_models_1(p_models jsonb) returns void language plpgsql as $$
begin
    insert into model (name, has_prices)
    select e.key, e.value::boolean
    from jsonb_each(p_models) e
    order by e.key
    on conflict (name) do update
    set has_prices = excluded.has_prices, seen_at = excluded.seen_at;
end $$;

-- The first of these models that is known to have no prices.
create function unpriced_model_1(p_models text[]) returns text language plpgsql stable as $$
begin
    return (
        select e.name
        from unnest(p_models) with ordinality e (name, place)
        cross join lateral (
            select m.has_prices
            from model m
            where m.name in (e.name, '*') and m.seen_at > now() - interval '1 day'
            order by m.name = '*'
            limit 1
        ) known
        where not known.has_prices
        order by e.place
        limit 1
    );
end $$;
select plan_by_index('unpriced_model_1');
