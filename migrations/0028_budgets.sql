-- Budgets: prices that limits of the cost need, warnings, and raise.

-- Refuses a limit of the cost that would never be reached, because the model of a task has no
-- prices: its own limit, its tree's or its session's. A model that no worker has published is not
-- refused here: a worker that has no prices for it will not call it.
create function check_prices_1(s session, p_parent task, p_configs jsonb[]) returns void language plpgsql as $$
declare
    is_limited boolean := s.max_cost_nanousd is not null or coalesce(p_parent.root is not null and (
        select r.config -> 'budget' ? 'max_cost_nanousd' from task r where r.id = p_parent.root
    ), false);
    unpriced text := unpriced_model_1(array(
        select e.config ->> 'model'
        from unnest(p_configs) e (config)
        where is_limited or e.config -> 'budget' ? 'max_cost_nanousd'
    ));
begin
    if unpriced is not null then
        perform refuse('INVALID_ARGUMENT', format(
            'max_cost_usd: the model %s has no prices, so a limit of %s would never be reached; set models.%s.prices in the config of the workers',
            to_json(unpriced), case when is_limited then 'the cost of its session or tree' else 'its cost' end, unpriced
        ));
    end if;
end $$;
select plan_by_index('check_prices_1');

-- The configurations without those that limit the cost of a model without prices, which are null.
create function with_prices_1(p_configs jsonb[]) returns jsonb[] language plpgsql stable as $$
begin
    return array(
        select case
            when coalesce(e.config -> 'budget' ? 'max_cost_nanousd', false)
                and unpriced_model_1(array[e.config ->> 'model']) is not null then null
            else e.config
        end
        from unnest(p_configs) with ordinality e (config, place)
        order by e.place
    );
end $$;

create table budget_warning (
    session bigint not null,
    task uuid,
    max text not null,
    allowed bigint not null,
    unique nulls not distinct (session, task, max, allowed)
);

comment on table budget_warning is
    'Limits of budgets of which four fifths are used. Each is told once; a raise makes it another.';
comment on column budget_warning.task is
    'The task, or the root of the tree, that has the budget. Null: the session.';

-- Writes the event that warns of a limit, unless it has been written. The warning says scope,
-- limit, allowed, spent. The slot's lock is the fence.
create function warn_of_budget_1(p_session bigint, p_slot integer, p_task uuid, p_lease uuid, p_warning jsonb)
returns void language plpgsql as $$
declare
    held slot;
begin
    perform lock_sessions_1(array[p_session]);
    select * into held
    from slot
    where n = p_slot and session = p_session and task = p_task and lease = p_lease for update;
    if not found then
        perform lease_lost(p_task);
    end if;
    insert into budget_warning (session, task, max, allowed)
    select
        p_session, case when p_warning ->> 'scope' <> 'session' then
            case p_warning ->> 'scope' when 'task' then p_task else (select t.root from task t where t.id = p_task) end
        end,
        p_warning ->> 'limit', (p_warning ->> 'allowed')::bigint
    on conflict do nothing;
    if found then
        perform record_event_1(held, 'budget_warning', null, null, null, p_budget => p_warning);
    end if;
end $$;
select plan_by_index('warn_of_budget_1');

-- A figure of a limit in words: dollars, or tokens.
create function budget_figure_1(p_limit text, p_value bigint) returns text language plpgsql immutable as $$
begin
    return case p_limit when 'max_cost_nanousd' then trim_scale(p_value / 1e9)::text else p_value::text end;
end $$;

-- A budget with higher limits. Refuses a limit that it does not have, one that would be lower, and
-- one that is used up already. Repeating a raise changes nothing.
create function raised_budget_1(p_budget jsonb, p_raise jsonb, p_spent jsonb, p_what text, p_hint text)
returns jsonb language plpgsql immutable as $$
declare
    field text;
    name text;
    wanted bigint;
    allowed bigint;
    spent bigint;
begin
    for field, wanted in select key, value::bigint from jsonb_each_text(p_raise) order by key loop
        name := case field when 'max_cost_nanousd' then 'max_cost_usd' else field end;
        allowed := (p_budget ->> field)::bigint;
        spent := (p_spent ->> field)::bigint;
        if allowed is null then
            perform refuse('INVALID_ARGUMENT', format('%s: %s has no such limit%s', name, p_what, p_hint));
        elsif wanted < allowed then
            perform refuse('INVALID_ARGUMENT', format(
                '%s: that of %s is %s already, and a raise does not lower it', name, p_what, budget_figure_1(field, allowed)
            ));
        elsif wanted > allowed and wanted <= spent then
            perform refuse('INVALID_ARGUMENT', format(
                '%s: %s has used %s already, so it needs more than that', name, p_what, budget_figure_1(field, spent)
            ));
        end if;
    end loop;
    return p_budget || p_raise;
end $$;

-- Wakes the tasks of a session that wait for a budget that has room again: of one tree, or (with
-- p_root null) of all, those with a number from p_from on. A transaction looks at 100 of them, and
-- marks the next one as due: the poll of any worker goes on with it. Needs the session's lock.
create function resume_from_1(p_session bigint, p_root uuid, p_from integer) returns void language plpgsql as $$
declare
    paused uuid[] := array(
        select t.id
        from task t
        where t.session = p_session and t.finished_at is null and t.waiting_for = 'budget' and t.number >= p_from
            and (p_root is null or t.root = p_root)
        order by t.number
        limit 101
    );
begin
    update task set not_before = now() where id = paused[101];
    perform settle_1(paused[:100]);
    perform admit_1(array[p_session]);
end $$;
select plan_by_index('resume_from_1');

-- raise: more budget for a task, and if it is a root for its tree. The raise holds for a running
-- task too, and for one that has not reached its budget. The answer is the task's status.
create function raise_1(p_session bigint, p_number integer, p_raise jsonb, p_actor jsonb) returns jsonb language plpgsql as $$
declare
    s session;
    t task;
    p record;
    before jsonb;
    after jsonb;
    marked integer;
begin
    perform lock_sessions_1(array[p_session]);
    select * into s from session where id = p_session;
    select * into t from task where session = p_session and number = p_number and collected_at is null;
    if s.id is null or t.id is null then
        perform refuse_unknown_task_1(p_session, p_number);
    elsif t.finished_at is not null then
        perform refuse('INVALID_ARGUMENT', format(
            'task_id: %s has ended (%s), and needs no budget; retry or continue it', task_name(t.number), t.state
        ));
    end if;
    select * into p from preflight_1(t.id, p_session, '');
    if t.parent is not null then
        select coalesce(x.input_tokens, t.input_tokens), coalesce(x.output_tokens, t.output_tokens),
            coalesce(x.cost_nanousd, t.cost_nanousd)
        into p.tree_input_tokens, p.tree_output_tokens, p.tree_cost_nanousd
        from (select) one left join slot x on x.task = t.id;
    end if;
    before := coalesce(t.config -> 'budget', '{}');
    after := raised_budget_1(before, p_raise, jsonb_build_object(
        'max_input_tokens', p.tree_input_tokens, 'max_output_tokens', p.tree_output_tokens, 'max_cost_nanousd', p.tree_cost_nanousd
    ), task_name(t.number), case
        when t.parent is null then ''
        else format('; the budget of its tree is that of %s', task_name((select r.number from task r where r.id = t.root)))
    end);
    if after <> before then
        update task set config = jsonb_set(config, '{budget}', after) where id = t.id;
        with numbered as (
            update session set next_event = next_event + 1 where id = p_session returning next_event - 1 as seq
        )
        insert into event (session, seq, task, kind, budget) select p_session, n.seq, t.id, 'raised', after from numbered n;
        perform audit_1(
            p_actor, s.tenant, 'task.raise', t.id::text,
            audited_task_1(t.id) || jsonb_build_object('budget', before), jsonb_build_object('budget', after)
        );
    end if;
    -- The first task that another raise has not come to yet: it may wake here, and its mark with
    -- it.
    select min(m.number) into marked
    from task m
    where m.session = p_session and m.finished_at is null and m.waiting_for = 'budget' and m.not_before is not null;
    if t.parent is null then
        perform resume_from_1(p_session, t.id, t.number);
    else
        perform settle_1(array[t.id]);
        perform admit_1(array[p_session]);
    end if;
    if marked is not null then
        perform resume_from_1(p_session, null, marked);
    end if;
    return (select to_jsonb(v) from task_status v where v.id = t.id);
end $$;
select plan_by_index('raise_1');

-- raise of a session: more budget for all of its tasks together. An archived session has tasks that
-- may still need it.
create function raise_session_1(p_tenant text, p_name text, p_raise jsonb, p_actor jsonb) returns bigint language plpgsql as $$
declare
    s session;
    before jsonb;
    after jsonb;
    running record;
begin
    perform commit_durably_1();
    select * into s from session where tenant = p_tenant and name = p_name for no key update;
    if not found then
        perform refuse('SESSION_NOT_FOUND', format('Session not found: %s', p_name));
    end if;
    select
        coalesce(sum(x.input_tokens - t.input_tokens), 0) as input_tokens,
        coalesce(sum(x.output_tokens - t.output_tokens), 0) as output_tokens,
        coalesce(sum(x.cost_nanousd - t.cost_nanousd), 0) as cost_nanousd
    into running
    from slot x
    join task t on t.id = x.task
    where x.session = s.id and x.n > 0;
    before := jsonb_strip_nulls(jsonb_build_object(
        'max_input_tokens', s.max_input_tokens, 'max_output_tokens', s.max_output_tokens, 'max_cost_nanousd', s.max_cost_nanousd
    ));
    after := raised_budget_1(before, p_raise, jsonb_build_object(
        'max_input_tokens', s.input_tokens + running.input_tokens, 'max_output_tokens', s.output_tokens + running.output_tokens,
        'max_cost_nanousd', s.cost_nanousd + running.cost_nanousd
    ), format('the session %s', s.name), '');
    if after <> before then
        update session
        set max_input_tokens = (after ->> 'max_input_tokens')::bigint,
            max_output_tokens = (after ->> 'max_output_tokens')::bigint,
            max_cost_nanousd = (after ->> 'max_cost_nanousd')::bigint
        where id = s.id;
        perform audit_1(
            p_actor, p_tenant, 'session.raise', s.name, jsonb_build_object('budget', before), jsonb_build_object('budget', after)
        );
    end if;
    perform resume_from_1(s.id, null, 0);
    return s.id;
end $$;
select plan_by_index('raise_session_1');
