-- What happened: append-only. The three that grow fastest are partitioned by week of the database's clock, so that old
-- weeks can go at once; they have no foreign keys, so that dropping a week locks nothing else.

-- As in 0001: words that are written often are domains.
create domain event_kind as text check (value in (
    'spawned', 'started', 'turn', 'tool', 'waiting', 'resumed', 'released', 'lost', 'completed', 'failed', 'cancelled'
));
create domain attempt_outcome as text check (value in ('completed', 'failed', 'cancelled', 'released', 'waiting', 'lost'));
create domain notified_state as text check (value in ('completed', 'failed'));

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

comment on table turn is 'One model answer of a task, stored before the tools it asks for run.';
comment on column turn.kind is 'What the model was called for; only "turn" counts as a turn used.';
comment on column turn.message is 'The answer, in the one form that all wires share.';
comment on column turn.cache_read_tokens is 'The part of input_tokens that came from the provider''s cache.';
comment on column turn.cache_write_tokens is 'The part of input_tokens that was written to the provider''s cache.';
comment on column turn.text is 'Its text, if it has any: what a cancelled or failed task can still show.';

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

comment on table tool_result is 'What a tool call gave. A call of a stored turn without a row here may have started.';
comment on column tool_result.call is
    'The call''s id in the turn, as long as the model made it. One result each: the slot''s lock sees to it.';

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

comment on table event is 'A session''s history in order, numbered 1, 2, 3 ... without a gap.';
comment on column event.attempt is 'The attempt that it is of; null for what happens to a task that does not run.';
comment on column event.started_at is
    'When the attempt was claimed, in its first event. Where that is not "started", a start is shown before it.';
comment on column event.turn is 'The number of the turn that was stored, or whose tool was called. The rest is in turn.';
comment on column event.tool is 'The name of the tool, if the agent has it: a name that a model made up is its text.';

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

comment on table attempt is 'Who ran what, when, and how it ended: written once, at its end.';
comment on column attempt.turns is 'How many answers it added.';

create table notification (
    session bigint not null,
    task uuid not null,
    state notified_state not null,
    created_at timestamptz not null default now(),
    read_at timestamptz,
    primary key (session, task)
);

comment on table notification is
    'News for the orchestrator, written in the transaction that ends the task. A cancelled task leaves none, nor does a child.';

create trigger turns_never_change before update on turn for each row execute function refuse_rewrite('once stored');
create trigger tool_results_never_change before update on tool_result
for each row execute function refuse_rewrite('once stored');
create trigger events_never_change before update on event for each row execute function refuse_rewrite('once stored');
create trigger attempts_never_change before update on attempt
for each row execute function refuse_rewrite('once stored');

-- Nothing is ever lost for want of a partition: what no week takes goes here.
create table turn_default partition of turn default;
create table tool_result_default partition of tool_result default;
create table event_default partition of event default;

-- One table a call, so that no two are locked at once, and never waiting for long: beside a default partition, ATTACH
-- locks the default against readers too, and who waits for a long reader makes all others wait. Whoever does not get
-- the lock comes again; there are weeks ahead. (CREATE TABLE .. PARTITION OF would lock out every writer besides.)
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
        -- A week whose rows are in the default partition already stays there.
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
