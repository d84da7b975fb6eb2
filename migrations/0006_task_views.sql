-- Tasks as people and programs read them: views, status, search and statistics. Nothing here
-- writes.

-- Whether the worker that holds this lease may be lost: half of a lease of the default length has
-- passed without a renewal, or the database has just started. A task that runs as it should pays
-- this comparison and a look for failed tries for the question why it waits, and no more.
create function may_be_lost_1(p_expires_at timestamptz) returns boolean language sql stable as $$
    select p_expires_at < now() + interval '15 seconds' or pg_postmaster_start_time() > now() - interval '1 minute'
$$;

-- Why a task waits: why_of_1 (0030_why_waiting.sql) for one task. Readers of the views may not read
-- the tables that it decides from.
create function why_1(p_task uuid) returns table (code text, text text, until timestamptz)
language plpgsql stable security definer set search_path from current as $$
begin
    return query select w.code, w.text, w.until from why_of_1(array[p_task]) w;
end $$;

create view why_waiting as
select t.id as task, w.code, w.text, w.until
from task t
cross join lateral why_1(t.id) w
where t.finished_at is null;

comment on view why_waiting is
    'What holds back each unfinished task that does not run, or whose model call is tried again. A '
    'task has one reason, the most binding one.';
comment on column why_waiting.task is 'The id of the task.';
comment on column why_waiting.code is
    'retrying, lease, dependency, archived, budget, children, rate, circuit, gate, delay, no_worker, '
    'missing_model, missing_tools, cap, window, tenant, workers or next. docs/specification.md says '
    'what each means.';
comment on column why_waiting.text is 'The same as a sentence.';
comment on column why_waiting.until is 'Until when it waits for this at the longest, if known.';

create view task_history as
select
    t.id,
    s.tenant,
    s.name as session_id,
    t.session,
    task_name(t.number) as task_id,
    t.number,
    t.parent,
    t.root,
    t.depth,
    t.label,
    t.metadata,
    t.agent,
    t.agent_version,
    t.pool,
    t.priority,
    case when x.expires_at > now() then 'running' else t.state end as state,
    t.waiting_for,
    case when may_wait.answer then (select y.code from why_1(t.id) y) end as why_code,
    case when may_wait.answer then (select y.text from why_1(t.id) y) end as why_text,
    t.failure,
    t.error,
    t.assignment,
    t.result,
    t.summary,
    t.partial_result,
    coalesce(x.turns_used, t.turns_used) as turns_used,
    coalesce(x.answers, t.answers) as answers,
    coalesce(x.input_tokens, t.input_tokens) as input_tokens,
    coalesce(x.output_tokens, t.output_tokens) as output_tokens,
    coalesce(x.cost_nanousd, t.cost_nanousd) as cost_nanousd,
    (coalesce(x.cost_nanousd, t.cost_nanousd) / 1e9)::numeric(20, 9) as cost_usd,
    coalesce(x.attempt, t.attempt) as attempt,
    t.failures,
    t.on_worker_loss,
    case when x.expires_at > now() then x.worker end as worker,
    x.expires_at as lease_expires_at,
    t.not_before,
    t.created_at,
    coalesce(t.started_at, x.claimed_at) as started_at,
    coalesce(x.active_at, t.finished_at, t.created_at) as last_activity_at,
    t.finished_at,
    t.collected_at,
    t.traceparent,
    config_id(t.config, 'retry_of') as retry_of,
    config_id(t.config, 'continues') as continues,
    nullif(t.model, '') as model,
    case
        when jsonb_typeof(t.config -> 'timeout_s') = 'number' then (t.config ->> 'timeout_s')::double precision
    end as timeout_s
from task t
join session s on s.id = t.session
left join slot x on x.task = t.id and x.n > 0
cross join lateral (
    select t.finished_at is null and (
        x.expires_at is null or may_be_lost_1(x.expires_at)
        or exists (select from failed_call f where f.task = t.id and f.answers = x.answers)
    ) as answer
) may_wait;

comment on view task_history is
    'Every task. "running" is derived from the slot that holds it, so it cannot be stale: a task '
    'whose lease has ended is queued.';
comment on column task_history.id is 'Its id outside the session (UUIDv7: ordered by creation).';
comment on column task_history.tenant is 'The tenant that owns it.';
comment on column task_history.session_id is 'The session''s name on the wire.';
comment on column task_history.session is 'The id of the session''s row.';
comment on column task_history.task_id is 'Its name inside the session.';
comment on column task_history.number is 'The number in task_id.';
comment on column task_history.parent is 'The task that spawned it; null if an orchestrator did.';
comment on column task_history.root is 'The task without a parent at the top of its tree.';
comment on column task_history.depth is 'Its level in the tree: 1 without a parent.';
comment on column task_history.label is 'The caller''s name for it.';
comment on column task_history.metadata is 'JSON that the caller stored with it.';
comment on column task_history.agent is 'The name of its agent.';
comment on column task_history.agent_version is
    'The version of the agent that it was spawned with.';
comment on column task_history.pool is 'Only workers of this pool claim it.';
comment on column task_history.priority is 'Higher is sooner.';
comment on column task_history.state is 'queued, running, waiting, completed, failed or cancelled.';
comment on column task_history.waiting_for is
    'What a waiting task waits for: dependencies, all_children, any_child or budget.';
comment on column task_history.why_code is
    'What holds an unfinished task back, as a code. See why_waiting.';
comment on column task_history.why_text is 'The same as a sentence.';
comment on column task_history.failure is 'The kind of failure of a failed task.';
comment on column task_history.error is 'Why a failed task failed, in words.';
comment on column task_history.assignment is 'What the agent was asked to do.';
comment on column task_history.result is 'The result of a completed task.';
comment on column task_history.summary is 'The short form of the result, if the agent gave one.';
comment on column task_history.partial_result is 'The last text of a task that did not complete.';
comment on column task_history.turns_used is
    'Turns of its loop so far. Summaries and repeated requests for an answer do not count.';
comment on column task_history.answers is 'Model answers so far, of every kind.';
comment on column task_history.input_tokens is
    'Tokens of its prompts so far, as the provider counts them.';
comment on column task_history.output_tokens is
    'Tokens of its answers so far, as the provider counts them.';
comment on column task_history.cost_nanousd is 'Its cost so far, in billionths of a US dollar.';
comment on column task_history.cost_usd is 'Its cost so far, in US dollars.';
comment on column task_history.attempt is 'How often a worker has claimed it.';
comment on column task_history.failures is 'Workers lost in a row without progress.';
comment on column task_history.on_worker_loss is
    'What becomes of it when its worker is lost: resume or fail.';
comment on column task_history.worker is 'The worker that runs it now.';
comment on column task_history.lease_expires_at is
    'When the lease of its worker ends, unless it is renewed; null if no worker has one.';
comment on column task_history.not_before is
    'Until when it is delayed; null once that time has come.';
comment on column task_history.created_at is 'When it was spawned.';
comment on column task_history.started_at is 'When a worker first claimed it.';
comment on column task_history.last_activity_at is 'When something of it was last stored.';
comment on column task_history.finished_at is 'When it completed, failed or was cancelled.';
comment on column task_history.collected_at is 'When its outcome was collected.';
comment on column task_history.traceparent is 'The W3C trace that it belongs to.';
comment on column task_history.retry_of is 'The task that it repeats.';
comment on column task_history.continues is 'The task whose conversation it continues.';
comment on column task_history.model is 'The model it was spawned with, by its name in the config.';
comment on column task_history.timeout_s is
    'The longest that it may run, in seconds; null: no limit of its own.';

-- The columns of TaskView (crates/adjutant-agent/src/task_view.rs) that are read from the rows of a
-- task. Every answer about a task is made of them.
create view task_status as
select
    t.session, t.tenant, t.pool,
    t.id, t.number, t.parent, t.agent, t.label, t.state, t.failure, t.error, t.turns_used, t.answers,
    t.input_tokens, t.output_tokens, t.cost_nanousd, t.attempt, t.on_worker_loss, t.created_at,
    t.started_at, t.last_activity_at, t.finished_at, t.collected_at, t.lease_expires_at,
    case when t.state = 'queued' and t.not_before > now() then
        ceil(extract(epoch from t.not_before - now()) * 1000)::bigint
    end as due_in_ms,
    case when f.task is not null and t.state in ('queued', 'running') then retrying(f) end as retrying
from task_history t
left join failed_call f on f.task = t.id and f.answers = t.answers;

comment on view task_status is 'The status of tasks, without assignments and results.';
comment on column task_status.due_in_ms is
    'How long a queued task is still delayed, in milliseconds.';
comment on column task_status.retrying is
    'The failed tries of its model call, while it is tried again: text, model, host, tries, '
    'max_tries, status, error, since, next_try_at.';

create view task_view as
select
    s.*,
    case s.state
        when 'queued' then (select p.place from queue_positions_1(s.session, array[s.id]) p)
    end as queue_position,
    jsonb_build_object('result', h.result, 'summary', h.summary, 'timeout_s', h.timeout_s) as details
from task_status s
join task_history h on h.id = s.id;

comment on view task_view is 'The status of tasks, with their queue positions and results.';
comment on column task_view.queue_position is
    'The number of the same tenant''s tasks before a queued one, counted up to 1000.';
comment on column task_view.details is 'Result, summary and time limit: the columns that can be large.';

create view task_entry as
select s.*, h.session_id, h.agent_version, h.model, h.retry_of, h.continues
from task_status s
join task_history h on h.id = s.id;

comment on view task_entry is 'The status of tasks as lists of the history show it.';

-- The status of tasks of many sessions; the arrays are parallel. Queue positions are read once for
-- each tenant and pool.
create function status_1(p_sessions bigint[], p_numbers integer[])
returns table (place integer, task jsonb) language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    with requested as materialized (
        select e.place, t.*
        from unnest(p_sessions, p_numbers) with ordinality e (session, number, place)
        join task_status t on t.session = e.session and t.number = e.number
    ), ahead as materialized (
        select o.*, array(
            select b.task
            from queue b
            where b.pool = o.pool and b.tenant = o.tenant
            order by b.priority desc, b.entry
            limit 1000
        ) as tasks
        from (select distinct tenant, pool from requested where state = 'queued') o
    ), why as materialized (
        select w.*
        from why_of_1(array(
            -- Several callers may ask for the same task.
            select distinct r.id
            from requested r
            where r.finished_at is null
                and (r.lease_expires_at is null or may_be_lost_1(r.lease_expires_at) or r.retrying is not null)
        )) w
    )
    select p.place::integer, to_jsonb(p)
    from (
        select a.*, case a.state when 'queued' then coalesce(
            array_position(f.tasks, a.id) - 1,
            -- Behind a thousand others.
            (select 1000 from queue q where q.session = a.session and q.task = a.id),
            -- Outside the window of its session.
            (select q.place from queue_positions_1(a.session, array[a.id]) q)
        ) end as queue_position, (
            select jsonb_build_object('code', w.code, 'text', w.text, 'until', w.until) from why w where w.task = a.id
        ) as why
        from requested a
        left join ahead f on f.tenant = a.tenant and f.pool = a.pool
    ) p;
end $$;
select plan_by_index('status_1');

-- The unfinished tasks of a tenant that a search is about; null if the tenant has more than 5,000.
-- Along their ids, a search for them would read the history of all tenants. Here PostgreSQL goes
-- through the tenant's sessions, or through all unfinished tasks, whichever are fewer.
create function few_unfinished_1(p_tenant text, p_session text, p_after uuid) returns uuid[]
language plpgsql stable set plan_cache_mode = force_custom_plan set jit = off as $$
begin
    if (select b.unfinished from tenant_backlog_1(p_tenant) b) > 5000 then
        return null;
    end if;
    return array(
        select t.id
        from session s
        join task t on t.session = s.id and t.finished_at is null
        where s.tenant = p_tenant and (p_session is null or s.name = p_session) and (p_after is null or t.id < p_after)
    );
end $$;

-- One step of a search through a tenant's tasks, newest first: the ids of up to p_limit matching
-- tasks among the next p_reach that the indexes find. Agent, model and words have no index, which
-- every spawn would have to write, so a search for something rare takes several calls, each
-- bounded; the next one continues after `reached`. `reached` is null at the end. Besides the states
-- of a task, p_state may be `unfinished` or `unsuccessful` (failed or cancelled).
--
-- It is planned for its arguments: for a tenant with most of the tasks PostgreSQL
-- walks along the ids until the page is full, for one with few along its sessions.
create function tasks_1(
    p_tenant text, p_state text, p_failure text, p_agent text, p_session text, p_model text,
    p_since timestamptz, p_until timestamptz, p_q text, p_after uuid, p_limit bigint, p_reach bigint,
    out ids uuid[], out reached uuid
)
language plpgsql stable
set plan_cache_mode = force_custom_plan set jit = off set cursor_tuple_fraction = 1 as $$
declare
    running uuid[] := array(select x.task from slot x where x.expires_at > now());
    stored text := case when p_state = 'running' then 'queued' when p_state not in ('unfinished', 'unsuccessful') then p_state end;
    unfinished boolean := coalesce(p_state = 'unfinished' or stored in ('queued', 'waiting'), false);
    unsuccessful boolean := coalesce(p_state = 'unsuccessful', false);
    -- An id or a task_id finds its task only, not tasks that mention it.
    id_in_q uuid := case when p_q ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then p_q::uuid end;
    number_in_q integer := case when p_q ~ '^t_[0-9]{2,9}$' then substr(p_q, 3)::integer end;
    words text := case when id_in_q is null and number_in_q is null then lower(p_q) end;
    named uuid[];
    seen bigint := 0;
    next record;
begin
    ids := '{}';
    if id_in_q is not null then
        named := array[id_in_q];
    elsif number_in_q is not null then
        -- One index lookup per session. As a condition of the loop's query the planner would expect
        -- an early match, while low numbers belong to the oldest tasks.
        named := array(
            select t.id from session s join task t on t.session = s.id where s.tenant = p_tenant and t.number = number_in_q
        );
    elsif unfinished and p_state <> 'running' then
        named := few_unfinished_1(p_tenant, p_session, p_after);
    end if;
    for next in
        select
            t.id,
            (p_agent is null or t.agent = p_agent)
            and (p_model is null or coalesce(t.model = p_model, false))
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
            and (stored is null or t.state = stored)
            and (not unfinished or t.finished_at is null)
            and (not unsuccessful or t.state in ('failed', 'cancelled'))
            and (p_state is distinct from 'running' or t.id = any(running))
            and (p_state is distinct from 'queued' or t.id <> all(running))
            and (p_failure is null or (t.state = 'failed' and t.failure = p_failure))
            and (named is null or t.id = any(named))
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

-- What a tenant has spawned and used since p_since (null: ever), by agent, model and outcome, from
-- the rollups: by minutes, and by hours before the last two days. The attempts in slots are in it
-- as running.
create function stats_1(p_tenant text, p_since timestamptz)
returns table (
    agent text, model text, outcome text, failure text,
    tasks bigint, turns bigint, input_tokens bigint, output_tokens bigint, cost_nanousd bigint
) language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    select
        u.agent, u.model, u.outcome, u.failure, sum(u.tasks)::bigint, sum(u.turns)::bigint,
        sum(u.input_tokens)::bigint, sum(u.output_tokens)::bigint, sum(u.cost_nanousd)::bigint
    from (
        select t.agent, t.model, t.outcome, t.failure, t.tasks, t.turns, t.input_tokens, t.output_tokens, t.cost_nanousd
        from usage_total t
        where t.tenant = p_tenant and p_since is null
        union all
        select h.agent, h.model, h.outcome, h.failure, h.tasks, h.turns, h.input_tokens, h.output_tokens, h.cost_nanousd
        from usage_hour h
        where h.tenant = p_tenant and h.hour >= date_trunc('hour', p_since, 'UTC')
        union all
        select m.agent, m.model, m.outcome, m.failure, m.tasks, m.turns, m.input_tokens, m.output_tokens, m.cost_nanousd
        from usage_minute m
        where m.tenant = p_tenant and m.minute >= date_trunc('minute', p_since)
        union all
        select d.agent, d.model, d.outcome, d.failure, d.tasks, d.turns, d.input_tokens, d.output_tokens, d.cost_nanousd
        from usage_delta d
        where d.tenant = p_tenant and d.outcome is not null and (p_since is null or d.at >= date_trunc('minute', p_since))
        union all
        select
            t.agent, coalesce(t.model, ''), 'running', '', 1, x.turns_used - t.turns_used,
            x.input_tokens - t.input_tokens, x.output_tokens - t.output_tokens, x.cost_nanousd - t.cost_nanousd
        from slot x
        join session s on s.id = x.session
        join task t on t.id = x.task
        where s.tenant = p_tenant and (p_since is null or p_since <= now())
    ) u
    group by 1, 2, 3, 4;
end $$;
select plan_by_index('stats_1');

-- A tenant's backlog by state, the slots that it holds, which may be more than it has running
-- tasks, and the age of the oldest of its first 1000 tasks of each pool that may be claimed now.
create function backlog_1(p_tenant text)
returns table (queued bigint, running bigint, waiting bigint, held bigint, oldest_s double precision) language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    with recursive pools as (
        (select q.pool from queue q order by q.pool limit 1)
        union all
        select (select q.pool from queue q where q.pool > p.pool order by q.pool limit 1)
        from pools p
        where p.pool is not null
    ), oldest as (
        select min(t.created_at) as created_at
        from pools p
        cross join lateral (
            select q.task
            from queue q
            where q.pool = p.pool and q.tenant = p_tenant
            order by q.priority desc, q.entry
            limit 1000
        ) first
        join task t on t.id = first.task
    )
    select
        b.unfinished - b.waiting - slots.running, slots.running, b.waiting, slots.held,
        extract(epoch from now() - o.created_at)::double precision
    from tenant_backlog_1(p_tenant) b
    cross join (
        select count(*) filter (where x.expires_at > now()) as running, count(*) as held
        from slot x
        join session s on s.id = x.session
        where s.tenant = p_tenant
    ) slots
    cross join oldest o;
end $$;
select plan_by_index('backlog_1');
