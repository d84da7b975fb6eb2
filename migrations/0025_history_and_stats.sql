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

create function tasks_1(
    p_tenant text, p_state text, p_failure text, p_agent text, p_session text, p_model text,
    p_since timestamptz, p_until timestamptz, p_q text, p_after uuid, p_limit bigint
)
returns setof task_history language plpgsql stable
set plan_cache_mode = force_custom_plan set jit = off as $$
declare
    running uuid[] := array(select x.task from slot x where x.task is not null);
    stored text := case p_state when 'running' then 'queued' else p_state end;
    unfinished boolean := coalesce(stored in ('queued', 'waiting'), false);
    -- An id or a task_id is meant to find its task, and nothing that merely mentions it.
    id_in_q uuid := case when p_q ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then p_q::uuid end;
    number_in_q integer := case when p_q ~ '^t_[0-9]{2,9}$' then substr(p_q, 3)::integer end;
begin
    return query
    select h.*
    from (
        select t.id
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
            and (p_agent is null or t.agent = p_agent)
            and (p_model is null or t.config ->> 'model' = p_model)
            and (id_in_q is null or t.id = id_in_q)
            and (number_in_q is null or t.number = number_in_q)
            and (
                p_q is null or id_in_q is not null or number_in_q is not null
                or strpos(lower(t.agent), lower(p_q)) > 0 or strpos(lower(t.label), lower(p_q)) > 0
                or starts_with(t.id::text, lower(p_q))
            )
        order by t.id desc
        limit p_limit
    ) page
    join task_history h on h.id = page.id
    order by h.id desc;
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
