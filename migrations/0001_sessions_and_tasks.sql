-- What lasts: sessions, their tasks, and what tasks wait for. The hot tables are in 0002, the history in 0003.

create table session (
    id bigint generated always as identity primary key,
    tenant text not null,
    name text not null,
    next_number integer not null default 1,
    next_event bigint not null default 1,
    max_active integer not null default 5,
    max_queued integer not null default 1000,
    max_input_tokens bigint,
    max_output_tokens bigint,
    max_cost_nanousd bigint,
    input_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    cost_nanousd bigint not null default 0,
    metadata jsonb not null default '{}',
    created_at timestamptz not null default now(),
    archived_at timestamptz,
    unique (tenant, name)
)
-- Its counters change with every spawn and every end; room in the page keeps those updates out of the indexes.
with (fillfactor = 70);

comment on table session is
    'What one orchestrator works in. Its row lock orders everything that changes which of its tasks may run.';
comment on column session.name is 'The session_id of the wire; a deleted one may be made again.';
comment on column session.next_number is 'The number the next task gets: t_01, t_02 ...';
comment on column session.next_event is
    'The number the next event gets. Taken under the row lock, so that a reader never misses a late commit.';
comment on column session.max_active is
    'The window: at most this many of its tasks are in the queue or in a slot at a time.';
comment on column session.max_queued is 'At most this many unfinished tasks, for spawns that accept to wait.';
comment on column session.cost_nanousd is 'What its ended attempts cost, in billionths of a US dollar.';

-- The words that a column may have are domains: PostgreSQL reads the text of a table's CHECK anew for every statement that
-- writes, and that of a domain's once per connection.
create domain task_state as text check (value in ('queued', 'waiting', 'completed', 'failed', 'cancelled'));
create domain awaited_kind as text check (value in ('dependencies', 'all_children', 'any_child'));
create domain failure_kind as text check (value in (
    'max_turns', 'timeout', 'budget', 'model', 'tool', 'empty_result', 'lost', 'dependency', 'internal'
));
create domain loss_rule as text check (value in ('resume', 'fail'));

-- It has no foreign key: whoever inserts has the session's lock. What single values may be is known before they are sent, and
-- only what the values of one task say together is checked here, in few words: PostgreSQL reads them with every statement.
create table task (
    id uuid primary key,
    session bigint not null,
    number integer not null,
    parent uuid,
    root uuid not null,
    depth smallint not null,
    label text,
    metadata jsonb not null default '{}',
    agent text not null,
    agent_version integer not null default 1,
    config jsonb not null default '{}',
    assignment text not null,
    pool text not null default 'default',
    priority smallint not null default 0,
    not_before timestamptz,
    on_worker_loss loss_rule not null default 'resume',
    max_failures smallint not null default 3,
    traceparent text,
    call text,
    state task_state not null,
    waiting_for awaited_kind,
    failure failure_kind,
    result text,
    summary text,
    error text,
    partial_result text,
    answers integer not null default 0,
    turns_used integer not null default 0,
    input_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    cost_nanousd bigint not null default 0,
    running_ms bigint not null default 0,
    attempt integer not null default 0,
    failures smallint not null default 0,
    created_at timestamptz not null default now(),
    started_at timestamptz,
    finished_at timestamptz,
    collected_at timestamptz,
    unique (session, number),
    constraint a_root_is_its_own check ((parent is null) = (root = id) and (parent is null) = (depth = 0)),
    constraint finished_exactly_when_terminal check ((finished_at is null) = (state in ('queued', 'waiting'))),
    constraint ends_after_it_started check (finished_at >= greatest(created_at, started_at)),
    constraint waits_for_something_exactly_when_waiting check ((waiting_for is not null) = (state = 'waiting')),
    constraint fails_for_a_reason check ((failure is not null) = (state = 'failed')),
    constraint says_why_it_failed check ((error is not null) = (failure is not null)),
    constraint has_a_result_exactly_when_completed check ((result is not null) = (state = 'completed')),
    constraint summarises_only_a_result check (summary is null or result is not null),
    constraint is_partial_only_without_a_result
        check (partial_result is null or finished_at is not null and result is null),
    constraint collected_only_when_terminal check (collected_at is null or finished_at is not null),
    constraint started_exactly_when_attempted check ((started_at is not null) = (attempt > 0)),
    constraint failures_are_attempts check (failures between 0 and least(attempt, max_failures)),
    constraint delayed_only_before_it_ends check (not_before is null or finished_at is null)
)
-- A task with an assignment and a result of 1 KB each stays as it is: to compress it would be a tenth of what its end costs.
with (toast_tuple_target = 4080);

comment on table task is
    'One delegated piece of work: one durable row, written at spawn, wait and the end of an attempt; never by a claim.';
comment on column task.number is 'Its name inside the session: 7 is t_07.';
comment on column task.root is 'The task without a parent at the top of its tree.';
comment on column task.config is
    'The agent''s configuration as it was at the spawn; with retry_of or continues, the id of the task that this one comes from: a retry does the same again, who continues another begins with its conversation. The worker that claims it finds it here, so that all others cost nothing more.';
comment on column task.not_before is
    'Set while the task is delayed, and only then: it becomes null when the time has come, whether there is room or not. Of a task that waits for children: when it stops waiting, whatever they do.';
comment on column task.state is
    '"running" is not stored: a task is running while a slot holds it, so a dead worker cannot leave it behind. See task_history.';
comment on column task.call is
    'Of a child that its parent''s agent asked for: the turn and the call that did, so that asking again finds it.';
comment on column task.partial_result is 'The last text of a task that did not complete.';
comment on column task.answers is 'Model answers stored: its turns, and what was asked besides (one more try, a summary).';
comment on column task.running_ms is 'Time in slots, summed over ended attempts; what a time-out bounds.';
comment on column task.attempt is 'The number of its last ended attempt; it only grows. Whoever has one goes to the front of the queue.';
comment on column task.failures is 'Attempts in a row that lost their worker without adding a turn.';

-- What is admitted next, in order: those that have run before, then by number.
create index task_next on task (session, (attempt = 0), number) where state = 'queued' and not_before is null;
create index task_unfinished on task (session, number) include (parent) where finished_at is null;
create index task_children on task (parent) where parent is not null;
create index task_delayed on task (not_before) where not_before is not null and finished_at is null;

create function refuse_rewrite() returns trigger language plpgsql as $$
begin
    raise exception '% % never changes', tg_table_name, tg_argv[0];
end $$;

create function refuse_rewrite_of_the_ended() returns trigger language plpgsql as $$
begin
    if (to_jsonb(old) - 'collected_at') is distinct from (to_jsonb(new) - 'collected_at') then
        raise exception 'task that has ended never changes';
    end if;
    return null;
end $$;

-- The when clause costs little on the way to the end; after it, only collected_at may change. AFTER, because a BEFORE
-- trigger locks each row first, whatever its when clause says.
create trigger terminal_tasks_never_change after update on task for each row
when (old.finished_at is not null)
execute function refuse_rewrite_of_the_ended();

create table awaited (
    task uuid not null,
    on_task uuid not null,
    kind text not null check (kind in ('dependency', 'child')),
    primary key (task, on_task),
    check (task <> on_task)
);
create index awaited_by on awaited (on_task);

comment on table awaited is
    'What a task waits for. A dependency must complete; a child only has to end. Child rows go when the parent wakes.';

create table idempotency (
    session bigint not null references session on delete cascade,
    action text not null check (action in ('spawn', 'batch', 'continue', 'retry', 'collect')),
    key text not null check (char_length(key) between 1 and 300),
    body bytea not null,
    answer jsonb not null,
    created_at timestamptz not null default now(),
    primary key (session, action, key)
);
create index idempotency_age on idempotency (created_at);

comment on table idempotency is 'Answers already given, kept 24 hours. Only successes are stored.';
comment on column idempotency.key is 'The caller''s key; a task that spawns children has its own keys, behind its id.';
comment on column idempotency.body is 'A digest of the request without the key and without nulls.';
