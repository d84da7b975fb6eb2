-- History: append-only. The three tables that grow fastest are partitioned by week of the
-- database's clock, so that old weeks can be dropped. They have no foreign keys, so that dropping a
-- week locks nothing else.

create table turn (
    task uuid not null,
    number integer not null check (number > 0),
    attempt integer not null check (attempt > 0),
    kind text not null default 'turn' check (kind in ('turn', 'ask_again', 'summary')),
    message jsonb not null,
    text text,
    model text,
    input_tokens bigint not null default 0 check (input_tokens >= 0),
    output_tokens bigint not null default 0 check (output_tokens >= 0),
    cache_read_tokens bigint not null default 0 check (cache_read_tokens >= 0),
    cache_write_tokens bigint not null default 0 check (cache_write_tokens >= 0),
    cost_nanousd bigint not null default 0 check (cost_nanousd >= 0),
    duration_ms bigint not null default 0 check (duration_ms >= 0),
    at timestamptz not null default now(),
    primary key (task, number, at)
) partition by range (at);
-- For reports over hours and days. An insert only reads a page of it.
create index turn_at on turn using brin (at) with (pages_per_range = 32, autosummarize = on);

comment on table turn is 'One model answer of a task, stored before the tools that it calls run.';
comment on column turn.kind is 'Why the model was called; only "turn" counts as a turn used.';
comment on column turn.message is 'The answer, in the one form that all model wires share.';
comment on column turn.cache_read_tokens is
    'The part of input_tokens that was read from the provider''s cache.';
comment on column turn.cache_write_tokens is
    'The part of input_tokens that was written to the provider''s cache.';
comment on column turn.text is
    'The text of the answer, if any: the partial result of a cancelled or failed task.';

create table tool_result (
    task uuid not null,
    turn integer not null check (turn > 0),
    call text not null,
    tool text,
    attempt integer not null check (attempt > 0),
    content text not null,
    is_error boolean not null,
    duration_ms bigint not null default 0 check (duration_ms >= 0),
    at timestamptz not null default now()
) partition by range (at);
create index tool_result_turn on tool_result (task, turn);
create index tool_result_at on tool_result using brin (at) with (pages_per_range = 32, autosummarize = on);

comment on table tool_result is
    'The result of a tool call. A call of a stored turn without a row here may have started.';
comment on column tool_result.call is
    'The call''s id in the turn, of any length. The slot''s lock ensures one result for each call.';

comment on column tool_result.tool is
    'The name of the tool, if the agent has it. Names that a model made up are not stored.';

create table event (
    session bigint not null,
    seq bigint not null,
    task uuid not null,
    kind event_kind not null,
    attempt integer,
    started_at timestamptz,
    turn integer,
    tool text,
    is_error boolean,
    detail text,
    at timestamptz not null default now(),
    primary key (session, seq, at)
) partition by range (at);

comment on table event is 'A session''s events in order, numbered 1, 2, 3 ... without a gap.';
comment on column event.attempt is
    'The attempt that the event belongs to; null if the task was not running.';
comment on column event.started_at is
    'In the first event of an attempt: when it was claimed. If that event is not "started", '
    'readers show a start before it.';
comment on column event.turn is
    'The number of the turn that was stored, or whose tool was called. See table turn.';
comment on column event.tool is
    'The name of the tool, if the agent has it. Names that a model made up are not stored.';
comment on column event.detail is 'Of "retrying": the model, its host, and what went wrong.';

create table attempt (
    task uuid not null,
    attempt integer not null,
    session bigint not null,
    worker uuid not null,
    lease uuid not null,
    outcome attempt_outcome not null,
    turns integer not null,
    claimed_at timestamptz not null,
    ended_at timestamptz not null,
    primary key (task, attempt),
    check (ended_at >= claimed_at)
);

comment on table attempt is
    'Which worker ran a task, when, and how the attempt ended. Written once, at its end.';
comment on column attempt.turns is 'The number of answers that it added.';

create table notification (
    session bigint not null,
    task uuid not null,
    state notified_state not null,
    created_at timestamptz not null default now(),
    read_at timestamptz,
    primary key (session, task)
);
-- A wait finds what is unread; what was read stays.
create index notification_unread on notification (session, created_at, task) where read_at is null;

comment on table notification is
    'Unread ends for the orchestrator, written in the transaction that ends the task. Cancelled '
    'tasks and children have none.';

create trigger turns_never_change before update on turn for each row execute function refuse_rewrite('once stored');
create trigger tool_results_never_change before update on tool_result
for each row execute function refuse_rewrite('once stored');
create trigger events_never_change before update on event for each row execute function refuse_rewrite('once stored');
create trigger attempts_never_change before update on attempt
for each row execute function refuse_rewrite('once stored');

-- Rows of a week that has no partition go to the default partition.
create table turn_default partition of turn default;
create table tool_result_default partition of tool_result default;
create table event_default partition of event default;

-- Creates partitions ahead of time. One table per call, so that no two are locked at once, and with
-- a short lock_timeout: ATTACH locks the default partition against readers too, and a lock that
-- waits for a long reader makes all others wait. A call that does not get the lock is repeated
-- later; there are weeks of partitions ahead. (CREATE TABLE .. PARTITION OF would also block every
-- writer.)
create function make_partitions_1(p_parent text, p_weeks_ahead integer) returns integer language plpgsql
set lock_timeout = '200ms' as $$
declare
    week timestamptz;
    part text;
    rows_in_default boolean;
    made integer := 0;
begin
    perform pg_advisory_xact_lock(hashtext('adjutant make_partitions'));
    for k in 0 .. p_weeks_ahead loop
        week := date_trunc('week', now(), 'UTC') + k * interval '168 hours';
        part := p_parent || to_char(week at time zone 'UTC', '_IYYY_"w"IW');
        continue when to_regclass(part) is not null;
        -- Rows of this week are in the default partition already: leave them there.
        execute format(
            'select exists (select from %I where at >= %L and at < %L)',
            p_parent || '_default', week, week + interval '168 hours'
        ) into rows_in_default;
        continue when rows_in_default;
        execute format('create table %I (like %I including defaults including constraints)', part, p_parent);
        execute format(
            'alter table %I attach partition %I for values from (%L) to (%L)',
            p_parent, part, week, week + interval '168 hours'
        );
        made := made + 1;
    end loop;
    return made;
end $$;

select make_partitions_1(parent, 5) from unnest(array['turn', 'tool_result', 'event']) parent;

-- The last text that a model gave in a task.
create function last_text_1(p_task uuid, p_created_at timestamptz) returns text language plpgsql stable as $$
begin
    return (
        select text
        from turn
        where task = p_task and at >= p_created_at - interval '1 day' and text is not null
        order by number desc
        limit 1
    );
end $$;

-- Rollups: what was spawned, how attempts ended, and what they used. The steps that spawn and end
-- only insert deltas, so that no two of them wait for one row. A fold adds the deltas to the sums,
-- and a reader adds both in one snapshot, so the sums are exact at any moment.
create table usage_delta (
    at timestamptz not null default now(),
    tenant text not null,
    agent text,
    model text,
    outcome text,
    failure text not null default '',
    tasks bigint not null default 0,
    attempts bigint not null default 0,
    turns bigint not null default 0,
    input_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    cost_nanousd bigint not null default 0,
    running_ms bigint not null default 0,
    queued_ms bigint not null default 0,
    sessions bigint not null default 0,
    roots bigint not null default 0,
    waiting bigint not null default 0
)
with (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0, vacuum_index_cleanup = on, vacuum_truncate = off
);
create index usage_delta_tenant on usage_delta (tenant);

comment on table usage_delta is
    'Changes of the tables usage_* and tenant_backlog that are not folded into them yet.';
comment on column usage_delta.outcome is
    'spawned, or how the attempts ended; null if only the backlog changed.';

create table usage_total (
    tenant text not null,
    agent text not null,
    model text not null,
    outcome text not null,
    failure text not null,
    tasks bigint not null,
    attempts bigint not null,
    turns bigint not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cost_nanousd bigint not null,
    running_ms bigint not null,
    queued_ms bigint not null,
    primary key (tenant, agent, model, outcome, failure)
) with (fillfactor = 70);

comment on table usage_total is
    'What each tenant has spawned and used so far. Deleting a session takes nothing away.';
comment on column usage_total.model is 'The model that the tasks were spawned with; empty: none.';
comment on column usage_total.outcome is
    'spawned (tasks only), or how attempts ended: completed, failed, cancelled, released, waiting, '
    'lost.';
comment on column usage_total.failure is
    'The kind of failure, if the task failed; a lost attempt fails its task if there is one.';
comment on column usage_total.tasks is 'Tasks that were spawned, or that ended in this way.';
comment on column usage_total.running_ms is 'Time in slots.';
comment on column usage_total.queued_ms is 'Time from the spawn to the first claim.';

create table usage_minute (minute timestamptz not null, like usage_total) with (fillfactor = 70);
alter table usage_minute add primary key (tenant, minute, agent, model, outcome, failure);
create index usage_minute_age on usage_minute (minute);
create table usage_hour (hour timestamptz not null, like usage_total) with (fillfactor = 70);
alter table usage_hour add primary key (tenant, hour, agent, model, outcome, failure);

comment on table usage_minute is
    'As usage_total, by the minute of the spawn or of the attempt''s end, for two days.';
comment on table usage_hour is 'As usage_minute, for the time before, by the hour.';

create table tenant_backlog (
    tenant text primary key,
    sessions bigint not null,
    unfinished bigint not null,
    roots bigint not null,
    waiting bigint not null
) with (fillfactor = 70);

comment on table tenant_backlog is 'What each tenant has now, without the deltas.';
comment on column tenant_backlog.sessions is 'Sessions that are not archived.';
comment on column tenant_backlog.unfinished is 'Tasks that have not ended.';
comment on column tenant_backlog.roots is 'Tasks without a parent that have not ended.';
comment on column tenant_backlog.waiting is 'Tasks in the state waiting.';

-- The backlog of a tenant, exact in the caller's snapshot. Running tasks are among the unfinished.
create function tenant_backlog_1(p_tenant text)
returns table (sessions bigint, unfinished bigint, roots bigint, waiting bigint) language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    select
        coalesce(sum(b.sessions), 0)::bigint, coalesce(sum(b.unfinished), 0)::bigint,
        coalesce(sum(b.roots), 0)::bigint, coalesce(sum(b.waiting), 0)::bigint
    from (
        select t.sessions, t.unfinished, t.roots, t.waiting from tenant_backlog t where t.tenant = p_tenant
        union all
        select d.sessions, case when d.outcome = 'spawned' then d.tasks else -d.tasks end, d.roots, d.waiting
        from usage_delta d
        where d.tenant = p_tenant
    ) b;
end $$;
select plan_by_index('tenant_backlog_1');
-- A plan that was made while there were many deltas is kept when there are few, and starting
-- parallel workers costs more than reading those.
alter function tenant_backlog_1 set max_parallel_workers_per_gather = 0;

-- Folds up to p_limit deltas into the sums, and returns how many there were. One fold at a time is
-- enough: others would wait for its rows.
create function fold_usage_1(p_limit integer) returns bigint language plpgsql as $$
declare
    folded bigint;
begin
    if not pg_try_advisory_xact_lock(hashtext('adjutant fold_usage')) then
        return 0;
    end if;
    with gone as materialized (
        delete from usage_delta
        where ctid = any(array(select d.ctid from usage_delta d limit p_limit for update skip locked))
        returning *
    ), by_minute as materialized (
        select
            date_trunc('minute', at) as minute, tenant, agent, model, outcome, failure,
            sum(tasks)::bigint as tasks, sum(attempts)::bigint as attempts, sum(turns)::bigint as turns,
            sum(input_tokens)::bigint as input_tokens, sum(output_tokens)::bigint as output_tokens,
            sum(cost_nanousd)::bigint as cost_nanousd, sum(running_ms)::bigint as running_ms,
            sum(queued_ms)::bigint as queued_ms
        from gone
        where outcome is not null
        group by 1, 2, 3, 4, 5, 6
    ), minutes as (
        insert into usage_minute as u select * from by_minute
        on conflict (tenant, minute, agent, model, outcome, failure) do update
        set tasks = u.tasks + excluded.tasks, attempts = u.attempts + excluded.attempts,
            turns = u.turns + excluded.turns, input_tokens = u.input_tokens + excluded.input_tokens,
            output_tokens = u.output_tokens + excluded.output_tokens, cost_nanousd = u.cost_nanousd + excluded.cost_nanousd,
            running_ms = u.running_ms + excluded.running_ms, queued_ms = u.queued_ms + excluded.queued_ms
    ), totals as (
        insert into usage_total as u
        select
            tenant, agent, model, outcome, failure, sum(tasks), sum(attempts), sum(turns), sum(input_tokens),
            sum(output_tokens), sum(cost_nanousd), sum(running_ms), sum(queued_ms)
        from by_minute
        group by 1, 2, 3, 4, 5
        on conflict (tenant, agent, model, outcome, failure) do update
        set tasks = u.tasks + excluded.tasks, attempts = u.attempts + excluded.attempts,
            turns = u.turns + excluded.turns, input_tokens = u.input_tokens + excluded.input_tokens,
            output_tokens = u.output_tokens + excluded.output_tokens, cost_nanousd = u.cost_nanousd + excluded.cost_nanousd,
            running_ms = u.running_ms + excluded.running_ms, queued_ms = u.queued_ms + excluded.queued_ms
    ), backlogs as (
        insert into tenant_backlog as b
        select
            tenant, sum(sessions), sum(case when outcome = 'spawned' then tasks else -tasks end), sum(roots), sum(waiting)
        from gone
        group by 1
        on conflict (tenant) do update
        set sessions = b.sessions + excluded.sessions, unfinished = b.unfinished + excluded.unfinished,
            roots = b.roots + excluded.roots, waiting = b.waiting + excluded.waiting
    )
    select count(*) into folded from gone;
    return folded;
end $$;

-- Folds up to p_limit rows of minutes that are older than two days into their hours.
create function fold_minutes_1(p_limit integer) returns bigint language plpgsql as $$
declare
    folded bigint;
begin
    with gone as materialized (
        delete from usage_minute
        where ctid = any(array(
            select m.ctid
            from usage_minute m
            where m.minute < date_trunc('hour', now() - interval '2 days', 'UTC')
            order by m.minute
            limit p_limit
            for update skip locked
        ))
        returning *
    ), hours as (
        insert into usage_hour as u
        select
            date_trunc('hour', minute, 'UTC'), tenant, agent, model, outcome, failure, sum(tasks), sum(attempts),
            sum(turns), sum(input_tokens), sum(output_tokens), sum(cost_nanousd), sum(running_ms), sum(queued_ms)
        from gone
        group by 1, 2, 3, 4, 5, 6
        order by 2, 1, 3, 4, 5, 6
        on conflict (tenant, hour, agent, model, outcome, failure) do update
        set tasks = u.tasks + excluded.tasks, attempts = u.attempts + excluded.attempts,
            turns = u.turns + excluded.turns, input_tokens = u.input_tokens + excluded.input_tokens,
            output_tokens = u.output_tokens + excluded.output_tokens, cost_nanousd = u.cost_nanousd + excluded.cost_nanousd,
            running_ms = u.running_ms + excluded.running_ms, queued_ms = u.queued_ms + excluded.queued_ms
    )
    select count(*) into folded from gone;
    return folded;
end $$;

-- Counts the sessions of tenants. Updates that do not name archived_at do not fire it.
create function count_session_1() returns trigger language plpgsql as $$
declare
    change bigint := 0;
begin
    if tg_op <> 'INSERT' and old.archived_at is null then
        change := change - 1;
    end if;
    if tg_op <> 'DELETE' and new.archived_at is null then
        change := change + 1;
    end if;
    if change <> 0 then
        insert into usage_delta (tenant, sessions) values (coalesce(new.tenant, old.tenant), change);
    end if;
    return null;
end $$;
create trigger sessions_are_counted after insert or delete or update of archived_at on session
for each row execute function count_session_1();
