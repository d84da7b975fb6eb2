-- What orchestrators ask, each in one call: a task for an agent by its name, how a task stands, the end of one, a page of a
-- result, and the wait for ends.

-- What a task is given of its agent: the model is the agent's, the session's or the operator's; a time-out and each limit of a
-- budget are the spawn's or the agent's; and the operator's ceilings bound them.
create function spec_at_spawn_1(p_spec jsonb, p_task jsonb, p_model text, p_operator jsonb)
returns jsonb language plpgsql immutable as $$
begin
    return p_spec || jsonb_strip_nulls(jsonb_build_object(
        'model', coalesce(nullif(p_spec ->> 'model', ''), p_model, p_operator ->> 'default_model'),
        'max_turns', least((p_spec ->> 'max_turns')::integer, (p_operator ->> 'max_turns_ceiling')::integer),
        'summary_prompt', p_task -> 'summary_prompt',
        'timeout_s', least(
            coalesce(p_task ->> 'timeout_s', p_spec ->> 'timeout_s', p_operator ->> 'default_timeout_s')::double precision,
            (p_operator ->> 'max_timeout_s')::double precision
        ),
        'budget', nullif(coalesce(p_spec -> 'budget', '{}') || coalesce(p_task -> 'budget', '{}'), '{}'),
        'skills', nullif(coalesce(p_spec -> 'skills', '[]') || coalesce(p_task #> '{equipment, skills}', '[]'), '[]'),
        'inheritance', coalesce(p_spec -> 'inheritance', p_task #> '{equipment, inheritance}'),
        'sections', nullif(p_task #> '{equipment, sections}', 'false'),
        'envelope', nullif(p_task #> '{equipment, envelope}', 'false')
    ));
end $$;

-- spawn, of tasks that name their agents: each takes a copy of what its agent is now. The maxima are the tenant's, if it has
-- some.
create function delegate_1(
    p_session bigint, p_tasks jsonb, p_operator jsonb, p_key text, p_body bytea, p_notices text[],
    p_max_active bigint, p_max_queued bigint, p_action text
)
returns table (id uuid, number integer, state text, queue_position integer) language plpgsql as $$
#variable_conflict use_column
declare
    tasks jsonb;
    unknown text;
begin
    select
        jsonb_agg(t.body || jsonb_build_object(
            'agent_version', coalesce(a.version, 0),
            'on_worker_loss', d.definition -> 'on_worker_loss',
            'config', spec_at_spawn_1(d.definition -> 'spec', t.body, s.model, p_operator)
        ) order by t.place),
        min(t.body ->> 'agent') filter (where d.definition is null)
    into tasks, unknown
    from session s
    cross join jsonb_array_elements(p_tasks) with ordinality t (body, place)
    left join lateral agent_1(s.id, t.body ->> 'agent') a on true
    cross join lateral (
        select coalesce(a.definition, free_form_1(p_operator, t.body ->> 'agent')) as definition
    ) d
    where s.id = p_session;
    -- An answer that was given stays the answer, whatever has become of the agent since.
    if unknown is not null and not exists (
        select from idempotency i
        where i.session = p_session and i.action = p_action and i.key = p_key and i.created_at > now() - interval '24 hours'
    ) then
        perform refuse('AGENT_NOT_FOUND', format('Agent not found: %s', unknown));
    end if;
    if p_max_active is null then
        return query select * from spawn_1(p_session, tasks, p_key, p_body, null, null, null, p_notices, p_action);
    else
        return query
        select * from spawn_within_1(p_max_active, p_max_queued, p_session, tasks, p_key, p_body, p_notices, p_action);
    end if;
end $$;

-- How tasks stand, without the texts that they were given and gave.
create view task_progress as
select
    t.session, t.id, t.number, t.agent, t.label, t.state, t.failure, t.error, t.turns_used, t.input_tokens, t.output_tokens,
    t.cost_nanousd, t.attempt, t.created_at, t.started_at, t.last_activity_at, t.finished_at, t.collected_at,
    case t.state when 'queued' then (select p.place from queue_positions_1(t.session, array[t.id]) p) end as queue_position,
    case when t.state = 'queued' and t.not_before > now() then
        ceil(extract(epoch from t.not_before - now()) * 1000)::bigint
    end as due_in_ms
from task_history t;

comment on view task_progress is 'How tasks stand: what status says of them.';
comment on column task_progress.queue_position is
    'How many of the same tenant''s tasks are before a queued one, counted up to 1000.';
comment on column task_progress.due_in_ms is 'How long a queued task may not start yet, in milliseconds.';

create function no_task_1(p_session bigint, p_number integer) returns void language plpgsql as $$
begin
    perform from session where id = p_session;
    if not found then
        perform refuse('SESSION_NOT_FOUND', 'Session not found');
    end if;
    perform refuse('TASK_NOT_FOUND', format('Task not found: %s', task_name(p_number)));
end $$;

create function progress_1(p_session bigint, p_number integer) returns setof task_progress language plpgsql stable as $$
begin
    return query select * from task_progress where session = p_session and number = p_number;
    if not found then
        perform no_task_1(p_session, p_number);
    end if;
end $$;

-- cancel, by the number that an orchestrator knows. One that was collected is gone for it.
create function cancel_by_number_1(p_session bigint, p_number integer)
returns table (cancelled boolean, partial_result text, leases uuid[], delivers boolean, ended uuid[], progress jsonb) language plpgsql as $$
#variable_conflict use_column
declare
    target uuid;
begin
    select t.id into target
    from task t
    where t.session = p_session and t.number = p_number and t.collected_at is null;
    if not found then
        perform no_task_1(p_session, p_number);
    end if;
    select c.cancelled, c.partial_result, c.leases, c.delivers, c.ended into cancelled, partial_result, leases, delivers, ended
    from cancel_1(target) c;
    progress := (select to_jsonb(p) from task_progress p where p.session = p_session and p.number = p_number);
    return next;
end $$;

-- A part of the full text of a task that has ended, collected or not: its result, or what a failed one had said last.
create function read_result_1(p_session bigint, p_number integer, p_offset integer, p_limit integer)
returns table (page text, chars integer) language plpgsql stable as $$
declare
    ended_at timestamptz;
    whole text;
begin
    select t.finished_at, coalesce(t.result, t.partial_result, '') into ended_at, whole
    from task t
    where t.session = p_session and t.number = p_number;
    if not found then
        perform no_task_1(p_session, p_number);
    elsif ended_at is null then
        perform refuse('TASK_NOT_READY', format('Task %s has not ended yet; check back later', task_name(p_number)));
    end if;
    return query select substr(whole, p_offset + 1, p_limit), char_length(whole);
end $$;

-- A look of somebody who waits for ends. With p_numbers it is for those tasks. Without, it is for the session's active ones
-- (p_active, as the first look found them) and for its unread notifications; what is told of these becomes read, once, however
-- many wait. A cancelled task leaves no notification, so the look finds it among p_active. If what is waited for is not
-- there yet, nothing is told, unless this is the last look.
create function wait_1(p_session bigint, p_numbers integer[], p_active integer[], p_all boolean, p_last boolean)
returns table (met boolean, active integer[], told jsonb) language plpgsql as $$
#variable_conflict use_column
declare
    missing integer;
    unfinished integer[];
    ended uuid[];
    news uuid[] := '{}';
begin
    if p_numbers is not null then
        select min(n) into missing
        from unnest(p_numbers) n
        where not exists (select from task t where t.session = p_session and t.number = n and t.collected_at is null);
        if missing is not null then
            perform no_task_1(p_session, missing);
        end if;
        ended := array(
            select t.id from task t
            where t.session = p_session and t.number = any(p_numbers) and t.finished_at is not null
        );
        met := cardinality(ended) >= case when p_all then cardinality(p_numbers) else 1 end;
    else
        perform from session where id = p_session;
        if not found then
            perform refuse('SESSION_NOT_FOUND', 'Session not found');
        end if;
        -- The unfinished first: what ends after this statement is found by the next.
        unfinished := array(
            select t.number from task t
            where t.session = p_session and t.finished_at is null and t.parent is null
            order by t.number
        );
        active := coalesce(p_active, unfinished);
        ended := array(
            select t.id from task t
            where t.session = p_session and t.number = any(p_active) and t.state = 'cancelled' and t.collected_at is null
        );
        met := cardinality(unfinished) = 0 or case
            when p_all then not unfinished && active
            else cardinality(ended) > 0
                or exists (select from notification n where n.session = p_session and n.read_at is null)
        end;
        if met or p_last then
            news := read_news_1(p_session);
            ended := ended || news;
            -- Somebody else was told, and there is more to wait for.
            if not p_all and cardinality(ended) = 0 and cardinality(unfinished) > 0 then
                met := false;
            end if;
        end if;
    end if;
    if met or p_last then
        told := (select jsonb_agg(to_jsonb(p) order by p.finished_at, p.number) from task_progress p where p.id = any(ended));
    end if;
    told := coalesce(told, '[]');
    return next;
end $$;

-- Takes the oldest unread notifications, a hundred at most: the next wait gets the others. The session's lock makes one of
-- many the one who is told, and keeps to the lock order.
create function read_news_1(p_session bigint) returns uuid[] language plpgsql as $$
declare
    news uuid[];
begin
    perform from notification where session = p_session and read_at is null;
    if not found then
        return '{}';
    end if;
    perform lock_sessions_1(array[p_session]);
    with read as (
        update notification n
        set read_at = now()
        where n.session = p_session and n.task = any(array(
            select u.task from notification u
            where u.session = p_session and u.read_at is null
            order by u.created_at, u.task
            limit 100
        ))
        returning n.task
    )
    select coalesce(array_agg(r.task), '{}') into news from read r;
    return news;
end $$;

-- Marks the news of these tasks as read: whoever waited for the session's tasks was told of them.
create function read_of_1(p_session bigint, p_numbers integer[]) returns void language plpgsql as $$
begin
    perform lock_sessions_1(array[p_session]);
    update notification n
    set read_at = now()
    where n.session = p_session and n.read_at is null and n.task = any(array(
        select t.id from task t where t.session = p_session and t.number = any(p_numbers)
    ));
end $$;

select plan_by_index('delegate_1');
select plan_by_index('progress_1');
select plan_by_index('cancel_by_number_1');
select plan_by_index('read_result_1');
select plan_by_index('wait_1');
