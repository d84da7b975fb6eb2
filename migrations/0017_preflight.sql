-- preflight: what a task checks before every model call. Is the model's gate open, and is there
-- budget left?

create table model_gate (
    model text primary key,
    closed_until timestamptz not null,
    since timestamptz not null default now(),
    reason gate_reason not null default 'rate_limit',
    status smallint,
    error text
);

comment on table model_gate is
    'Models that no worker may call now. A gate of `rate_limit` or `outage` is open once its time '
    'has come. A `circuit` is closed until a call succeeds: when its time has come, one task of the '
    'whole fleet may call, and moves the time.';
comment on column model_gate.closed_until is 'By the database''s clock; it only moves forward.';
comment on column model_gate.since is
    'Since when it is closed, with openings of less than a minute in between.';
comment on column model_gate.reason is
    'rate_limit: the provider asked for a pause. circuit: it refuses the key. outage: all tries '
    'failed, and calls go to the fallback.';
comment on column model_gate.status is 'The HTTP status that closed it, if there was one.';
comment on column model_gate.error is
    'What closed it, in one sentence. Never a text of the provider.';

-- Closes a gate for all workers. The answer says whether it was open, for a minute at least: the
-- one caller that gets true logs it. A gate that is lost in a crash of the server is closed again
-- by the next call that fails.
create function close_gate_1(
    p_model text, p_seconds double precision, p_reason gate_reason, p_status smallint, p_error text
) returns boolean language plpgsql as $$
declare
    is_new boolean;
begin
    perform commit_lazily_1();
    insert into model_gate as g (model, closed_until, reason, status, error)
    values (p_model, now() + p_seconds * interval '1 second', p_reason, p_status, p_error)
    on conflict (model) do update
    set closed_until = greatest(g.closed_until, excluded.closed_until),
        since = case
            when g.reason = 'circuit' or g.reason = excluded.reason and g.closed_until > now() - interval '1 minute' then g.since
            else excluded.since
        end,
        -- Only a call that succeeds opens a circuit.
        reason = case when g.reason = 'circuit' then g.reason else excluded.reason end,
        status = case when g.reason = 'circuit' then g.status else excluded.status end,
        error = case when g.reason = 'circuit' then g.error else excluded.error end
    where g.closed_until < excluded.closed_until and (p_reason <> 'circuit' or g.reason <> 'circuit' or g.closed_until <= now())
        or p_reason = 'circuit' and g.reason <> 'circuit'
    returning g.since = now() into is_new;
    return coalesce(is_new, false);
end $$;
select plan_by_index('close_gate_1');

-- A task at a circuit asks for the next call. One task of the fleet gets it whenever the circuit's
-- time has come, and moves the time by p_seconds, so that the others wait even if it dies.
create function take_probe_1(
    p_model text, p_seconds double precision,
    out is_taken boolean, out closed_ms bigint, out status smallint, out error text
) language plpgsql as $$
begin
    perform commit_lazily_1();
    update model_gate g
    set closed_until = now() + p_seconds * interval '1 second'
    where g.model = p_model and g.reason = 'circuit' and g.closed_until <= now();
    is_taken := found;
    select greatest(0, ceil(extract(epoch from g.closed_until - now()) * 1000)), g.status, g.error
    into closed_ms, status, error
    from model_gate g
    where g.model = p_model;
end $$;
select plan_by_index('take_probe_1');

-- After a call that succeeded. False if the circuit was open already.
create function open_circuit_1(p_model text) returns boolean language plpgsql as $$
begin
    perform commit_lazily_1();
    delete from model_gate where model = p_model and reason = 'circuit';
    return found;
end $$;
select plan_by_index('open_circuit_1');

-- Makes tasks due that gave their slots back at a circuit, up to 1000 in a call. It locks task rows
-- alone, and skips locked ones: these come back by themselves when the next probe was due.
create function wake_from_circuit_1(p_model text) returns integer language plpgsql as $$
declare
    woken integer;
begin
    update task
    set not_before = now()
    where id in (
        select t.id
        from failed_call f
        join task t on t.id = f.task
        where f.model = p_model and f.waits_since is not null and f.answers = t.answers
            and t.state = 'queued' and t.not_before > now()
        limit 1000
        for no key update of t skip locked
    );
    get diagnostics woken = row_count;
    return woken;
end $$;
select plan_by_index('wake_from_circuit_1');

-- Records the failed tries of the call that a task is making, or that it waits at a circuit. The
-- slot's lock is the fence, as for every write of a worker. With p_detail it writes an event, which
-- needs the session's lock first.
create function record_failed_call_1(
    p_session bigint, p_slot integer, p_task uuid, p_lease uuid, p_call jsonb, p_detail text
) returns void language plpgsql as $$
declare
    held slot;
begin
    if p_detail is null then
        perform commit_lazily_1();
    else
        perform lock_sessions_1(array[p_session]);
    end if;
    select * into held
    from slot
    where n = p_slot and session = p_session and task = p_task and lease = p_lease for update;
    if not found then
        perform lease_lost(p_task);
    end if;
    insert into failed_call as f (
        task, model, host, answers, tries, refusals, max_tries, spent_ms, status, error, next_try_at, waits_since,
        waits_until
    )
    select
        p_task, c.model, c.host, held.answers, c.tries, c.refusals, c.max_tries, c.spent_ms, c.status, c.error,
        now() + c.next_try_ms * interval '1 ms',
        case when c.waits_ms is not null then now() end, now() + c.waits_ms * interval '1 ms'
    from jsonb_to_record(p_call) c (
        model text, host text, tries integer, refusals integer, max_tries integer, spent_ms bigint, status smallint,
        error text, next_try_ms bigint, waits_ms bigint
    )
    on conflict (task) do update
    set model = excluded.model, host = excluded.host, answers = excluded.answers, tries = excluded.tries,
        refusals = excluded.refusals, max_tries = excluded.max_tries, spent_ms = excluded.spent_ms,
        status = excluded.status, error = excluded.error, next_try_at = excluded.next_try_at,
        first_failed_at = case when f.answers = excluded.answers then f.first_failed_at else excluded.first_failed_at end,
        last_failed_at = excluded.last_failed_at,
        waits_since = case
            when f.answers = excluded.answers and excluded.waits_since is not null
            then coalesce(f.waits_since, excluded.waits_since)
            else excluded.waits_since
        end,
        waits_until = excluded.waits_until;
    if p_detail is not null then
        perform record_event_1(held, 'retrying', null, null, null, p_detail);
    end if;
end $$;
select plan_by_index('record_failed_call_1');

-- Deletes what no longer counts, up to 1000 rows in a call.
create function delete_stale_failed_calls_1() returns integer language plpgsql as $$
declare
    deleted integer;
begin
    perform commit_lazily_1();
    delete from failed_call
    where task in (
        select f.task
        from failed_call f
        where not exists (
            select
            from task t
            left join slot x on x.task = t.id and x.n > 0
            where t.id = f.task and t.finished_at is null and coalesce(x.answers, t.answers) = f.answers
        )
        limit 1000
        for update of f skip locked
    );
    get diagnostics deleted = row_count;
    return deleted;
end $$;

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
    closed_ms bigint, is_circuit boolean,
    session_budget jsonb, session_input_tokens bigint, session_output_tokens bigint, session_cost_nanousd bigint,
    tree_budget jsonb, tree_input_tokens bigint, tree_output_tokens bigint, tree_cost_nanousd bigint
) language plpgsql stable as $$
#variable_conflict use_column
declare
    s session;
    top uuid;
begin
    select greatest(0, ceil(extract(epoch from g.closed_until - now()) * 1000)), g.reason = 'circuit'
    into closed_ms, is_circuit
    from model_gate g
    where g.model = p_model;
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
        where x.session = p_session and x.n > 0;
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
            where x.session = p_session and x.n > 0 and t.root = top
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

-- Whose budget is used up, so that a task that no slot holds may call no model: the task's, its
-- tree's or its session's; null if none is.
create function used_up_budget_1(p_task uuid) returns text language plpgsql stable as $$
declare
    t task;
    p record;
begin
    select * into t from task where id = p_task;
    select * into p from preflight_1(t.id, t.session, '');
    return case
        when is_used_up_1(t.config -> 'budget', t.input_tokens, t.output_tokens, t.cost_nanousd) then 'task'
        when is_used_up_1(p.tree_budget, p.tree_input_tokens, p.tree_output_tokens, p.tree_cost_nanousd) then 'tree'
        when is_used_up_1(p.session_budget, p.session_input_tokens, p.session_output_tokens, p.session_cost_nanousd) then 'session'
    end;
end $$;
select plan_by_index('used_up_budget_1');

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
