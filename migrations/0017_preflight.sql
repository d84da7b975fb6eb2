-- preflight: what a task checks before every model call. Is the model's gate open, and is there
-- budget left?

create table model_gate (
    model text primary key,
    closed_until timestamptz not null
);

comment on table model_gate is
    'Rate-limited models: a 429 seen by one worker holds the model back on all of them.';
comment on column model_gate.closed_until is 'By the database''s clock; it only moves forward.';

-- A gate that is lost in a crash of the server is closed again by the next rate-limited call.
create function close_gate_1(p_model text, p_seconds double precision) returns void language plpgsql as $$
begin
    perform commit_lazily_1();
    insert into model_gate as g (model, closed_until)
    values (p_model, now() + p_seconds * interval '1 second')
    on conflict (model) do update
    set closed_until = excluded.closed_until
    where g.closed_until < excluded.closed_until;
end $$;
select plan_by_index('close_gate_1');

-- Limits of models, which hold over all workers. 0024_model_limits.sql reserves calls under them.
create table model_limit (
    model text primary key,
    requests_per_minute bigint,
    tokens_per_minute bigint,
    max_concurrency bigint,
    limited_at timestamptz not null default now(),
    served bigint not null default 0,
    call_ms double precision not null default 1000,
    remaining_requests bigint,
    requests_reset_at timestamptz,
    remaining_tokens bigint,
    tokens_reset_at timestamptz
) with (fillfactor = 50);

comment on table model_limit is
    'The limits that hold for a model: the smallest that a worker has asked with in the last '
    'minute.';
comment on column model_limit.limited_at is 'When a worker last asked with these limits.';
comment on column model_limit.served is 'The highest place of a task that has got its call.';
comment on column model_limit.call_ms is 'How long a call takes, as a moving average.';
comment on column model_limit.remaining_requests is
    'What the provider''s headers left, less what was granted since. Ignored after the reset.';

-- Requests and tokens by the second in which they were granted.
create table model_usage (
    model text not null,
    second bigint not null,
    requests bigint not null,
    tokens bigint not null,
    primary key (model, second)
) with (fillfactor = 50);

comment on table model_usage is
    'A grant is used within 2 s. So the grants of a second are used before the end of the third '
    'second, and count for 63 s: then no 60 s have more calls than the limit.';

create table model_permit (
    model text not null,
    worker uuid not null,
    calls bigint not null check (calls >= 0),
    expires_at timestamptz not null,
    primary key (model, worker)
) with (fillfactor = 50);

comment on table model_permit is
    'The calls that each worker may have under way. Those of a dead worker expire with its lease.';

create table model_waiter (
    task uuid not null,
    model text not null,
    tenant text not null,
    place bigint not null,
    tokens bigint not null,
    due_at timestamptz not null,
    primary key (task, model)
);
create index model_waiter_place on model_waiter (model, place, task);
create index model_waiter_tenant on model_waiter (model, tenant, place);

comment on table model_waiter is
    'Tasks that wait for a call, in a worker or with a delay. A task keeps its place until it gets '
    'the call or ends. Tasks that are 10 s late do not hold up others.';
comment on column model_waiter.place is
    'First come, first served within a tenant; the tenants take turns. Tasks that have had a call '
    'are ahead of all others.';

-- Sums are computed only where there is a budget. For a session: its row has the cost of ended
-- attempts, its slots that of running ones. For a tree: every task is read.
create function preflight_1(p_task uuid, p_session bigint, p_model text)
returns table (
    closed_ms bigint,
    session_budget jsonb, session_input_tokens bigint, session_output_tokens bigint, session_cost_nanousd bigint,
    tree_budget jsonb, tree_input_tokens bigint, tree_output_tokens bigint, tree_cost_nanousd bigint
) language plpgsql stable as $$
#variable_conflict use_column
declare
    s session;
    top uuid;
begin
    closed_ms := (
        select greatest(0, ceil(extract(epoch from g.closed_until - now()) * 1000)) from model_gate g where g.model = p_model
    );
    select * into s from session where id = p_session;
    session_budget := jsonb_strip_nulls(jsonb_build_object(
        'max_input_tokens', s.max_input_tokens, 'max_output_tokens', s.max_output_tokens,
        'max_cost_nanousd', s.max_cost_nanousd
    ));
    select r.id, r.config -> 'budget' into top, tree_budget
    from task t
    join task r on r.id = t.root
    where t.id = p_task;
    if session_budget <> '{}' then
        select
            s.input_tokens + coalesce(sum(x.input_tokens - t.input_tokens), 0),
            s.output_tokens + coalesce(sum(x.output_tokens - t.output_tokens), 0),
            s.cost_nanousd + coalesce(sum(x.cost_nanousd - t.cost_nanousd), 0)
        into session_input_tokens, session_output_tokens, session_cost_nanousd
        from slot x
        join task t on t.id = x.task
        where x.session = p_session;
    end if;
    if tree_budget <> '{}' then
        select sum(spent.input_tokens), sum(spent.output_tokens), sum(spent.cost_nanousd)
        into tree_input_tokens, tree_output_tokens, tree_cost_nanousd
        from (
            select t.input_tokens, t.output_tokens, t.cost_nanousd from task t where t.id = top
            union all
            select t.input_tokens, t.output_tokens, t.cost_nanousd from task t where t.root = top and t.parent is not null
            union all
            select
                x.input_tokens - t.input_tokens, x.output_tokens - t.output_tokens, x.cost_nanousd - t.cost_nanousd
            from slot x
            join task t on t.id = x.task
            where x.session = p_session and t.root = top
        ) spent;
    end if;
    return next;
end $$;
select plan_by_index('preflight_1');

-- Whether one of the limits of a budget is reached.
create function is_used_up_1(p_budget jsonb, p_input_tokens bigint, p_output_tokens bigint, p_cost_nanousd bigint)
returns boolean language plpgsql immutable as $$
begin
    return coalesce(p_input_tokens >= (p_budget ->> 'max_input_tokens')::bigint, false)
        or coalesce(p_output_tokens >= (p_budget ->> 'max_output_tokens')::bigint, false)
        or coalesce(p_cost_nanousd >= (p_budget ->> 'max_cost_nanousd')::bigint, false);
end $$;

-- Whether a task that no slot holds may call no model, because its budget, its tree's or its
-- session's is used up.
create function is_over_budget_1(p_task uuid) returns boolean language plpgsql stable as $$
declare
    t task;
    p record;
begin
    select * into t from task where id = p_task;
    select * into p from preflight_1(t.id, t.session, '');
    return is_used_up_1(t.config -> 'budget', t.input_tokens, t.output_tokens, t.cost_nanousd)
        or is_used_up_1(p.tree_budget, p.tree_input_tokens, p.tree_output_tokens, p.tree_cost_nanousd)
        or is_used_up_1(p.session_budget, p.session_input_tokens, p.session_output_tokens, p.session_cost_nanousd);
end $$;
select plan_by_index('is_over_budget_1');

-- What a task has that is about to end over budget: its own budget as it is now, which may have
-- been raised since the claim, and whether it waits for more instead: as it says, or its root, or
-- its session.
create function over_budget_1(p_task uuid) returns table (budget jsonb, waits boolean) language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    select
        coalesce(t.config -> 'budget', '{}'),
        coalesce(t.config ->> 'on_budget', r.config ->> 'on_budget', s.on_budget) is not distinct from 'pause'
    from task t
    join task r on r.id = t.root
    join session s on s.id = t.session
    where t.id = p_task;
end $$;
select plan_by_index('over_budget_1');
