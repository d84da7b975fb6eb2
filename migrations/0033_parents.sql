-- Sessions as parents: what a session carries of its orchestrator, for its tasks to inherit, and which tools they may use.
alter table session add column parent jsonb, add column permissions jsonb;
comment on column session.parent is
    'What agents may inherit: the orchestrator''s system_prompt, its tools by name, its skills with their texts. Null: nothing.';
comment on column session.permissions is
    'Patterns of tools that all tasks spawned from now on may (allow) and may not (deny) use, whatever their agents list. Null: no bounds.';

-- What every task is given of its session, in the transaction that makes it, however it is made: children, retries and
-- continuations too. A task that inherits nothing carries no copy of the parent. (No more than stable, as the functions that it
-- calls: then it becomes part of the statement that calls it, instead of a call for every row.)
create function equip_1(p_config jsonb, p_parent jsonb, p_permissions jsonb) returns jsonb language sql stable as $$
    select case
        when p_parent is null and p_permissions is null and not p_config ?| array['parent', 'permissions'] then p_config
        else (p_config - array['parent', 'permissions']) || jsonb_strip_nulls(jsonb_build_object(
            'parent', case when p_config ? 'inheritance' then p_parent end,
            'permissions', p_permissions
        ))
    end
$$;

-- The agent that a name which nobody registered stands for, if the operator allows any.
create function free_form_1(p_operator jsonb, p_name text) returns jsonb language sql immutable as $$
    select case when p_name ~ '^[a-z0-9_-]{1,64}$' then jsonb_set(
        p_operator -> 'free_form',
        '{spec, system_prompt}',
        to_jsonb(replace(p_operator #>> '{free_form, spec, system_prompt}', '${_category}', p_name))
    ) end
$$;

-- Changes what a session carries: the fields of p_change, of which null takes away.
create function change_session_1(p_tenant text, p_name text, p_change jsonb) returns void language plpgsql as $$
declare
    s session;
begin
    select * into s from session where tenant = p_tenant and name = p_name for no key update;
    if not found then
        perform refuse('SESSION_NOT_FOUND', format('Session not found: %s', p_name));
    elsif s.archived_at is not null then
        perform refuse('SESSION_ARCHIVED', format('Session %s is archived: it does not change any more', s.name));
    end if;
    update session
    set model = case when p_change ? 'model' then p_change ->> 'model' else model end,
        metadata = case when p_change ? 'metadata' then coalesce(nullif(p_change -> 'metadata', 'null'), '{}') else metadata end,
        permissions = case when p_change ? 'permissions' then nullif(p_change -> 'permissions', 'null') else permissions end,
        parent = nullif(jsonb_strip_nulls(coalesce(parent, '{}') || coalesce(p_change -> 'parent', '{}')), '{}')
    where id = s.id;
end $$;

-- How a task stands and what it gave, for those who read without taking.
create view task_reading as
select p.*, h.result, h.summary, h.partial_result, h.timeout_s, t.on_worker_loss
from task_progress p
join task_history h on h.id = p.id
join task t on t.id = p.id;

comment on view task_reading is 'How tasks stand, with all that they gave.';

-- Somebody waits for news of these tasks (null: of all that an orchestrator of the session spawned). Told is what has ended and was
-- not told before, the first first, and what was cancelled since the first look (p_active), which leaves no news. What is told
-- becomes read. If there is none, nothing is told, unless nothing is left to wait for or this is the last look.
create function wake_1(p_session bigint, p_numbers integer[], p_active integer[], p_last boolean)
returns table (met boolean, active integer[], told jsonb) language plpgsql as $$
#variable_conflict use_column
declare
    missing integer;
    unfinished integer[];
    cancelled uuid[];
    news uuid[] := '{}';
begin
    perform from session where id = p_session;
    if not found then
        perform refuse('SESSION_NOT_FOUND', 'Session not found');
    end if;
    select min(n) into missing
    from unnest(p_numbers) n
    where not exists (select from task t where t.session = p_session and t.number = n);
    if missing is not null then
        perform no_task_1(p_session, missing);
    end if;
    -- The unfinished first: what ends after this statement is found by the next.
    unfinished := array(
        select t.number from task t
        where t.session = p_session and t.finished_at is null
            and case when p_numbers is null then t.parent is null else t.number = any(p_numbers) end
        order by t.number
    );
    active := coalesce(p_active, unfinished);
    cancelled := array(
        select t.id from task t where t.session = p_session and t.number = any(p_active) and t.state = 'cancelled'
    );
    met := cardinality(unfinished) = 0 or cardinality(cancelled) > 0 or exists (
        select from notification n
        join task t on t.id = n.task
        where n.session = p_session and n.read_at is null and (p_numbers is null or t.number = any(p_numbers))
    );
    if met or p_last then
        news := read_news_of_1(p_session, p_numbers);
        if cardinality(news) = 0 and cardinality(cancelled) = 0 and cardinality(unfinished) > 0 then
            -- Somebody else was told, and there is more to wait for.
            met := false;
        end if;
    end if;
    told := coalesce((
        select jsonb_agg(to_jsonb(r) - '{result, partial_result}'::text[] order by r.finished_at, r.number)
        from task_reading r
        where r.id = any(news || cancelled) and (met or p_last)
    ), '[]');
    return next;
end $$;

-- As read_news_1, of these tasks only (null: of all).
create function read_news_of_1(p_session bigint, p_numbers integer[]) returns uuid[] language plpgsql as $$
declare
    news uuid[];
begin
    if p_numbers is null then
        return read_news_1(p_session);
    end if;
    perform lock_sessions_1(array[p_session]);
    with read as (
        update notification n
        set read_at = now()
        where n.session = p_session and n.read_at is null and n.task = any(array(
            select t.id from task t where t.session = p_session and t.number = any(p_numbers)
        ))
        returning n.task
    )
    select coalesce(array_agg(r.task), '{}') into news from read r;
    return news;
end $$;

select plan_by_index('change_session_1');
select plan_by_index('wake_1');
select plan_by_index('read_news_of_1');
