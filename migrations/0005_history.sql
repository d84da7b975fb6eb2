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
    attempt integer not null check (attempt > 0),
    content text not null,
    is_error boolean not null,
    duration_ms bigint not null default 0 check (duration_ms >= 0),
    at timestamptz not null default now()
) partition by range (at);
create index tool_result_turn on tool_result (task, turn);

comment on table tool_result is
    'The result of a tool call. A call of a stored turn without a row here may have started.';
comment on column tool_result.call is
    'The call''s id in the turn, of any length. The slot''s lock ensures one result for each call.';

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
