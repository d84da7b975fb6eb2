-- model limits: how many requests and tokens a minute, and how many calls at once, all workers
-- together may make of a model.

-- reserve: a worker asks a few times a second at most, for all of its tasks and with spare calls
-- for the next second. The lock of the model's limits orders the reservations of all workers.

-- Locks the limits of a model. The smallest limits hold that a worker has asked with in the last 60
-- s, so during a change of the config a lower limit holds at once, and a higher one a minute after
-- the last worker with the lower one has asked.
create function lock_model_limit_1(p_model text, p_requests bigint, p_tokens bigint, p_calls bigint)
returns model_limit language plpgsql as $$
declare
    limits model_limit;
    smallest bigint[];
begin
    select * into limits from model_limit where model = p_model for update;
    if limits.model is null then
        insert into model_limit (model, requests_per_minute, tokens_per_minute, max_concurrency)
        values (p_model, p_requests, p_tokens, p_calls) on conflict do nothing;
        select * into limits from model_limit where model = p_model for update;
    end if;
    smallest := case when limits.limited_at < now() - interval '60 seconds' then array[p_requests, p_tokens, p_calls] else array[
        least(p_requests, limits.requests_per_minute), least(p_tokens, limits.tokens_per_minute),
        least(p_calls, limits.max_concurrency)
    ] end;
    if smallest is distinct from array[limits.requests_per_minute, limits.tokens_per_minute, limits.max_concurrency]
        or limits.limited_at < now() - interval '5 seconds' and smallest is not distinct from array[p_requests, p_tokens, p_calls]
    then
        update model_limit
        set requests_per_minute = smallest[1], tokens_per_minute = smallest[2], max_concurrency = smallest[3], limited_at = now()
        where model = p_model
        returning * into limits;
    end if;
    return limits;
end $$;
select plan_by_index('lock_model_limit_1');

-- When the window has room for so many more (requests or tokens), in seconds from p_second: what
-- was granted leaves the window in the order in which it was granted, and so does what is granted
-- in its place.
create function model_room_after_1(p_model text, p_second bigint, p_limit bigint, p_used bigint, p_wanted bigint, p_tokens boolean)
returns bigint language plpgsql stable as $$
declare
    in_round bigint := (p_wanted - 1) % p_limit + 1;
    leaves bigint;
begin
    if in_round > p_limit - p_used then
        select u.second into leaves
        from (
            select x.second, sum(case when p_tokens then x.tokens else x.requests end) over (order by x.second) as left_by_then
            from model_usage x
            where x.model = p_model and x.second > p_second - 63
        ) u
        where u.left_by_then >= in_round - (p_limit - p_used)
        order by u.second
        limit 1;
    end if;
    return coalesce(leaves + 63 - p_second, 0) + 63 * ((p_wanted - 1) / p_limit);
end $$;
select plan_by_index('model_room_after_1');

-- What the limits leave at p_at, beyond what p_worker holds by its own account. Null is no limit.
create function model_room_1(
    p_limit model_limit, p_worker uuid, p_held bigint, p_at timestamptz,
    out used_requests bigint, out used_tokens bigint, out requests bigint, out tokens bigint, out calls bigint
) language plpgsql stable as $$
begin
    select coalesce(sum(u.requests), 0), coalesce(sum(u.tokens), 0) into used_requests, used_tokens
    from model_usage u
    where u.model = p_limit.model and u.second > floor(extract(epoch from p_at))::bigint - 63;
    requests := least(
        p_limit.requests_per_minute - used_requests,
        case when p_limit.requests_reset_at > p_at then p_limit.remaining_requests end
    );
    tokens := least(
        p_limit.tokens_per_minute - used_tokens,
        case when p_limit.tokens_reset_at > p_at then p_limit.remaining_tokens end
    );
    if p_limit.max_concurrency is not null then
        calls := p_limit.max_concurrency - p_held - (
            select coalesce(sum(p.calls), 0)
            from model_permit p
            where p.model = p_limit.model and p.worker <> p_worker and p.expires_at > p_at
        );
    end if;
end $$;
select plan_by_index('model_room_1');

-- What a worker reports of its calls: grants that it did not use and tokens that calls used more or
-- less than estimated, both by the second of the grant; the time that its calls took; and what the
-- provider's headers left. A second that has left the window has no row any more.
create function settle_model_usage_1(
    p_model text, p_at timestamptz, p_seconds bigint[], p_requests bigint[], p_tokens bigint[], p_call_ms double precision,
    p_remaining bigint[], p_reset_s double precision[]
) returns void language plpgsql as $$
begin
    delete from model_usage where model = p_model and second <= floor(extract(epoch from p_at))::bigint - 63;
    if cardinality(p_seconds) > 0 then
        update model_usage u
        set requests = u.requests + e.requests, tokens = u.tokens + e.tokens
        from unnest(p_seconds, p_requests, p_tokens) e (second, requests, tokens)
        where u.model = p_model and u.second = e.second;
    end if;
    if p_call_ms is not null or p_reset_s[1] is not null or p_reset_s[2] is not null then
        update model_limit
        set call_ms = coalesce(call_ms * 0.8 + p_call_ms * 0.2, call_ms),
            remaining_requests = case when p_reset_s[1] is null then remaining_requests else p_remaining[1] end,
            requests_reset_at = coalesce(p_at + p_reset_s[1] * interval '1 second', requests_reset_at),
            remaining_tokens = case when p_reset_s[2] is null then remaining_tokens else p_remaining[2] end,
            tokens_reset_at = coalesce(p_at + p_reset_s[2] * interval '1 second', tokens_reset_at)
        where model = p_model;
    end if;
end $$;
select plan_by_index('settle_model_usage_1');

-- Writes what was granted: to the current second, to the worker's permits, and off what the headers
-- left.
create function grant_model_calls_1(
    p_limit model_limit, p_worker uuid, p_lease_s double precision, p_at timestamptz,
    p_held bigint, p_requests bigint, p_tokens bigint, p_served bigint
) returns void language plpgsql as $$
begin
    if p_requests > 0 then
        insert into model_usage as u (model, second, requests, tokens)
        values (p_limit.model, floor(extract(epoch from p_at))::bigint, p_requests, p_tokens)
        on conflict (model, second) do update
        set requests = u.requests + excluded.requests, tokens = u.tokens + excluded.tokens;
    end if;
    if p_served > p_limit.served
        or p_requests > 0 and (p_limit.requests_reset_at > p_at or p_limit.tokens_reset_at > p_at)
    then
        update model_limit
        set served = greatest(served, p_served), remaining_requests = remaining_requests - p_requests,
            remaining_tokens = remaining_tokens - p_tokens
        where model = p_limit.model;
    end if;
    if p_limit.max_concurrency is not null then
        delete from model_permit where model = p_limit.model and expires_at <= p_at;
        insert into model_permit (model, worker, calls, expires_at)
        values (p_limit.model, p_worker, p_held + p_requests, p_at + p_lease_s * interval '1 second')
        on conflict (model, worker) do update
        set calls = excluded.calls, expires_at = excluded.expires_at;
    end if;
end $$;
select plan_by_index('grant_model_calls_1');

-- Gives tasks that have to wait a place, unless they have one.
create function place_model_waiters_1(
    p_limit model_limit, p_at timestamptz, p_tasks uuid[], p_tokens bigint[], p_begun boolean[]
) returns void language plpgsql as $$
begin
    with given as materialized (
        select e.task, e.tokens, e.begun, s.tenant
        from unnest(p_tasks, p_tokens, p_begun) e (task, tokens, begun)
        -- OFFSET 0 keeps the look-up by id apart from the index of unfinished tasks.
        cross join lateral (select t.session, t.finished_at from task t where t.id = e.task offset 0) t
        join session s on s.id = t.session
        where t.finished_at is null
    ), last as materialized (
        select y.tenant, greatest(p_limit.served, (
            select max(x.place) from model_waiter x where x.model = p_limit.model and x.tenant = y.tenant
        )) as place
        from (select distinct g.tenant from given g) y
    )
    insert into model_waiter as w (task, model, tenant, place, tokens, due_at)
    select
        g.task, p_limit.model, g.tenant,
        case when g.begun then 0 else last.place + row_number() over (partition by g.tenant, g.begun order by g.task) end,
        least(g.tokens, p_limit.tokens_per_minute), p_at
    from given g
    join last on last.tenant = g.tenant
    on conflict (task, model) do update
    set tokens = excluded.tokens, due_at = excluded.due_at;
end $$;
select plan_by_index('place_model_waiters_1');

-- Which of the tasks may call now (wait_ms 0), and when to ask for the others again. A task may
-- call if there is room for it and for all tasks with a place before its own. Tasks behind the
-- first 300 are due after the one before them.
create function model_turns_1(p_limit model_limit, p_worker uuid, p_held bigint, p_at timestamptz, p_tasks uuid[])
returns table (task uuid, wait_ms bigint, tokens bigint, place bigint) language plpgsql as $$
#variable_conflict use_column
declare
    second constant bigint := floor(extract(epoch from p_at));
    room record;
    waiter record;
begin
    select * into room from model_room_1(p_limit, p_worker, p_held, p_at);
    for waiter in
        with first as materialized (
            select x.*, row_number() over ahead as position, sum(x.tokens) over ahead as all_tokens
            from (
                select x.task, x.tenant, x.place, x.tokens
                from model_waiter x
                where x.model = p_limit.model and x.due_at > p_at - interval '10 seconds'
                order by x.place, x.task
                limit 300
            ) x
            window ahead as (order by x.place, x.task)
        )
        select f.task, f.tenant, f.place, f.tokens, f.position, f.all_tokens
        from first f
        where f.task = any(p_tasks)
        union all
        select w.task, w.tenant, w.place, w.tokens, null, null
        from model_waiter w
        where w.model = p_limit.model and w.task = any(p_tasks) and w.task <> all(array(select f.task from first f))
        order by place, task
    loop
        task := waiter.task;
        tokens := waiter.tokens;
        place := waiter.place;
        if waiter.position is null then
            wait_ms := greatest(250, 1000 * extract(epoch from (
                select max(x.due_at)
                from model_waiter x
                where x.model = p_limit.model and x.tenant = waiter.tenant
                    and x.place between waiter.place - 1 and waiter.place
            ) - p_at) + greatest(
                63000.0 / p_limit.requests_per_minute, 63000.0 * waiter.tokens / p_limit.tokens_per_minute,
                p_limit.call_ms / p_limit.max_concurrency
            ));
        elsif waiter.position <= coalesce(room.requests, waiter.position) and waiter.position <= coalesce(room.calls, waiter.position)
            and waiter.all_tokens <= coalesce(room.tokens, waiter.all_tokens)
        then
            wait_ms := 0;
        else
            wait_ms := greatest(
                250,
                1000 * model_room_after_1(
                    p_limit.model, second, p_limit.requests_per_minute, room.used_requests, waiter.position, false),
                1000 * model_room_after_1(
                    p_limit.model, second, p_limit.tokens_per_minute, room.used_tokens, waiter.all_tokens::bigint, true),
                1000 * extract(epoch from case when waiter.position > room.requests then p_limit.requests_reset_at end - p_at),
                1000 * extract(epoch from case when waiter.all_tokens > room.tokens then p_limit.tokens_reset_at end - p_at),
                p_limit.call_ms * (waiter.position - room.calls) / p_limit.max_concurrency
            );
        end if;
        if wait_ms = 0 then
            delete from model_waiter w where w.task = waiter.task and w.model = p_limit.model;
        else
            update model_waiter w set due_at = p_at + wait_ms * interval '1 ms' where w.task = waiter.task and w.model = p_limit.model;
        end if;
        return next;
    end loop;
end $$;
select plan_by_index('model_turns_1');

-- Reserves calls of a model for the tasks of a worker: first come, first served. The answer has a
-- row for each task, with the time after which to ask again, which is 0 if the call is granted, and
-- one row without a task for spare calls, which are given only if nobody waits. A grant is to be
-- used within 2 s of the request.
create function reserve_model_calls_1(
    p_model text, p_worker uuid, p_lease_s double precision, p_limits bigint[], p_held bigint,
    p_seconds bigint[], p_unused bigint[], p_token_changes bigint[], p_call_ms double precision,
    p_remaining bigint[], p_reset_s double precision[],
    p_tasks uuid[], p_tokens bigint[], p_begun boolean[], p_spare bigint, p_spare_tokens bigint
)
returns table (task uuid, wait_ms bigint, second bigint, requests bigint, tokens bigint) language plpgsql as $$
#variable_conflict use_column
declare
    limits model_limit;
    at timestamptz;
    room record;
    served bigint := 0;
    granted bigint := 0;
    granted_tokens bigint := 0;
    wanted bigint := cardinality(p_tasks);
    wanted_tokens bigint;
    turn record;
begin
    perform commit_lazily_1();
    perform lock_model_limit_1(p_model, p_limits[1], p_limits[2], p_limits[3]);
    -- After the lock: now() may be before the reservations that this one waited for.
    at := clock_timestamp();
    perform settle_model_usage_1(p_model, at, p_seconds, p_unused, p_token_changes, p_call_ms, p_remaining, p_reset_s);
    select * into limits from model_limit where model = p_model;
    select * into room from model_room_1(limits, p_worker, p_held, at);
    second := floor(extract(epoch from at));
    wanted_tokens := (select coalesce(sum(least(e.tokens, limits.tokens_per_minute)), 0) from unnest(p_tokens) e (tokens));
    if not exists (select from model_waiter w where w.model = p_model)
        and wanted <= coalesce(least(room.requests, room.calls), wanted) and wanted_tokens <= coalesce(room.tokens, wanted_tokens)
    then
        return query
        select e.task, 0::bigint, second, 1::bigint, least(e.tokens, limits.tokens_per_minute)
        from unnest(p_tasks, p_tokens) e (task, tokens);
        task := null;
        requests := least(p_spare, (room.requests - wanted) / 10, (room.calls - wanted) / 10);
        tokens := least(p_spare_tokens, (room.tokens - wanted_tokens) / 10);
        if requests > 0 and (tokens > 0 or p_spare_tokens = 0) then
            return next;
            granted := requests;
            granted_tokens := tokens;
        end if;
        granted := granted + wanted;
        granted_tokens := granted_tokens + wanted_tokens;
    elsif wanted > 0 then
        perform place_model_waiters_1(limits, at, p_tasks, p_tokens, p_begun);
        for turn in select * from model_turns_1(limits, p_worker, p_held, at, p_tasks) loop
            if turn.wait_ms = 0 then
                served := greatest(served, turn.place);
                granted := granted + 1;
                granted_tokens := granted_tokens + turn.tokens;
            end if;
            task := turn.task;
            wait_ms := turn.wait_ms;
            requests := 1;
            tokens := turn.tokens;
            return next;
        end loop;
    end if;
    perform grant_model_calls_1(limits, p_worker, p_lease_s, at, p_held, granted, granted_tokens, served);
end $$;
select plan_by_index('reserve_model_calls_1');
