-- What people ask of the past: lists by filter, newest first, and sums. Both are planned for the values that they are called
-- with: a tenant that has most of the tasks is read along the ids until the page is full, one that has few along its sessions.

-- The smallest id that a task of this time can have. Ids are made by callers, whose clocks are not the database's: an hour's
-- slack is left where times become ids.
create function first_id(at timestamptz) returns uuid language sql immutable as $$
    select (
        lpad(to_hex(least(greatest(floor(extract(epoch from at) * 1000), 0), 281474976710655)::bigint), 12, '0')
        || repeat('0', 20)
    )::uuid
$$;

-- For whoever looks for what went wrong, in a past where nearly everything went well. The tasks that complete are not in it:
-- neither a spawn nor the usual end pays for it.
create index task_not_completed on task (id) where state in ('failed', 'cancelled');

-- One step through a tenant's tasks, the newest first: the ids of up to p_limit that fit, among the next p_reach that the
-- indexes find. Agent, model and words have no index, which every spawn would pay for: whoever asks for what is rare comes again
-- with where this got to, and no step takes long. reached is null when there is nothing further.
create function tasks_1(
    p_tenant text, p_state text, p_failure text, p_agent text, p_session text, p_model text,
    p_since timestamptz, p_until timestamptz, p_q text, p_after uuid, p_limit bigint, p_reach bigint,
    out ids uuid[], out reached uuid
)
language plpgsql stable
set plan_cache_mode = force_custom_plan set jit = off set cursor_tuple_fraction = 1 as $$
declare
    running uuid[] := array(select x.task from slot x where x.task is not null);
    stored text := case p_state when 'running' then 'queued' else p_state end;
    unfinished boolean := coalesce(stored in ('queued', 'waiting'), false);
    -- An id or a task_id is meant to find its task, and nothing that merely mentions it.
    id_in_q uuid := case when p_q ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then p_q::uuid end;
    number_in_q integer := case when p_q ~ '^t_[0-9]{2,9}$' then substr(p_q, 3)::integer end;
    words text := case when id_in_q is null and number_in_q is null then lower(p_q) end;
    named uuid[] := array[id_in_q];
    seen bigint := 0;
    next record;
begin
    ids := '{}';
    -- One look into each session. As a condition below it would be thought to be met soon, while those with a low number
    -- are the oldest.
    if number_in_q is not null then
        named := array(
            select t.id from session s join task t on t.session = s.id where s.tenant = p_tenant and t.number = number_in_q
        );
    end if;
    for next in
        select
            t.id,
            (p_agent is null or t.agent = p_agent)
            and (p_model is null or coalesce(t.config ->> 'model' = p_model, false))
            and (
                words is null
                or strpos(lower(t.agent), words) > 0
                or coalesce(strpos(lower(t.label), words) > 0, false)
                or starts_with(t.id::text, words)
            ) as fits
        from session s
        join task t on t.session = s.id
        where s.tenant = p_tenant
            and (p_session is null or s.name = p_session)
            and (p_after is null or t.id < p_after)
            and (p_since is null or (t.id >= first_id(p_since - interval '1 hour') and t.created_at >= p_since))
            and (p_until is null or (t.id < first_id(p_until + interval '1 hour') and t.created_at < p_until))
            and (p_state is null or t.state = stored)
            and (not unfinished or t.finished_at is null)
            and (p_state is distinct from 'running' or t.id = any(running))
            and (p_state is distinct from 'queued' or t.id <> all(running))
            and (p_failure is null or (t.state = 'failed' and t.failure = p_failure))
            and ((id_in_q is null and number_in_q is null) or t.id = any(named))
        order by t.id desc
        limit p_reach
    loop
        seen := seen + 1;
        reached := next.id;
        if next.fits then
            ids := ids || next.id;
            exit when cardinality(ids) = p_limit;
        end if;
    end loop;
    if seen < p_reach and cardinality(ids) < p_limit then
        reached := null;
    end if;
end $$;

-- What a tenant's tasks came to, by agent, model and how they stand. A task counts with what it was spawned with.
create function stats_1(p_tenant text, p_since timestamptz)
returns table (
    agent text, model text, state text, failure text,
    tasks bigint, turns bigint, input_tokens bigint, output_tokens bigint, cost_nanousd bigint
) language plpgsql stable
set plan_cache_mode = force_custom_plan set jit = off as $$
#variable_conflict use_column
begin
    return query
    select
        t.agent,
        t.config ->> 'model',
        case when x.task is not null then 'running' else t.state end,
        t.failure::text,
        count(*),
        sum(coalesce(x.turns_used, t.turns_used))::bigint,
        sum(coalesce(x.input_tokens, t.input_tokens))::bigint,
        sum(coalesce(x.output_tokens, t.output_tokens))::bigint,
        sum(coalesce(x.cost_nanousd, t.cost_nanousd))::bigint
    from session s
    join task t on t.session = s.id
    left join slot x on x.task = t.id
    where s.tenant = p_tenant
        and (p_since is null or (t.id >= first_id(p_since - interval '1 hour') and t.created_at >= p_since))
    group by 1, 2, 3, 4;
end $$;
