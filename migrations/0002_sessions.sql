-- Sessions, and the answers that idempotency keys return.

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
    on_budget budget_rule,
    input_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    cost_nanousd bigint not null default 0,
    metadata jsonb not null default '{}',
    created_at timestamptz not null default now(),
    archived_at timestamptz,
    model text,
    webhook jsonb,
    parent jsonb,
    permissions jsonb,
    unique (tenant, name)
)
-- Every spawn and every end updates the counters. Free space in the page makes these HOT updates.
with (fillfactor = 70);

-- Whether an MCP connection that named no session opened one with this name.
create function is_of_mcp_1(p_name text) returns boolean language sql immutable as $$
    select p_name ~ '^mcp-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
$$;
create index session_of_mcp on session (id) where is_of_mcp_1(name) and archived_at is null;

comment on table session is
    'What one orchestrator works in. Its row lock serialises every change of which of its tasks '
    'may run.';
comment on column session.name is
    'The session_id of the wire. The name of a deleted session can be used again.';
comment on column session.next_number is 'The number of the next task: t_01, t_02 ...';
comment on column session.next_event is
    'The number of the next event. It is taken under the row lock, so a reader never misses an '
    'event that commits late.';
comment on column session.max_active is
    'The window: at most this many of its tasks are in the queue or in a slot at a time.';
comment on column session.max_queued is
    'At most this many unfinished tasks, for spawns with "queue": true.';
comment on column session.on_budget is
    'What its tasks do that have reached a budget, if neither they nor their roots say it. Null: '
    'they fail.';
comment on column session.cost_nanousd is
    'The cost of its ended attempts, in billionths of a US dollar.';
comment on column session.model is
    'The orchestrator''s model, which agents without a model use. Null: the configured default.';
comment on column session.webhook is
    'Receives the ends of its tasks, but not of children: url, events, and disabled_at after the '
    'receiver answered 410.';
comment on column session.parent is
    'What agents may inherit from the orchestrator: its system_prompt, its tools by name, its '
    'skills with their texts.';
comment on column session.permissions is
    'Tool patterns that all tasks spawned from now on may (allow) and may not (deny) use, whatever '
    'their agents list.';

-- Answers the sessions that it locked: a session that was deleted meanwhile is not among them.
create function lock_sessions_1(p_sessions bigint[]) returns bigint[] language plpgsql as $$
begin
    perform commit_durably_1();
    return array(select id from session where id = any(p_sessions) order by id for no key update);
end $$;

-- Locks those of the sessions that no other transaction holds, and answers them. It never waits.
create function lock_free_sessions_1(p_sessions bigint[]) returns bigint[] language plpgsql as $$
begin
    perform commit_durably_1();
    return array(select id from session where id = any(p_sessions) order by id for no key update skip locked);
end $$;

-- As lock_sessions_1, but it waits for at most 50 ms, and answers none of the sessions if it did
-- not get them all.
create function lock_sessions_soon_1(p_sessions bigint[]) returns bigint[] language plpgsql set lock_timeout = '50ms' as $$
begin
    return lock_sessions_1(p_sessions);
exception when lock_not_available then
    return '{}';
end $$;

-- A deleted session moves from the table session to this one. So it is gone for every query and
-- every verb at once, and its name is free; its number is never used again. Workers delete its
-- other rows in batches (see delete_batch_1), and then this one.
create table deleted_session (
    id bigint primary key,
    tenant text not null,
    tasks integer not null,
    events bigint not null,
    tasks_deleted integer not null default 0 check (tasks_deleted <= tasks),
    events_deleted bigint not null default 0 check (events_deleted <= events),
    deleted_at timestamptz not null default now()
) with (fillfactor = 50);

comment on table deleted_session is
    'Deleted sessions whose tasks and events are not all deleted yet.';
comment on column deleted_session.tasks is 'How many tasks it had when it was deleted.';
comment on column deleted_session.events is 'How many events it had when it was deleted.';
comment on column deleted_session.tasks_deleted is
    'Its tasks with these numbers, from 1, are deleted with all that belongs to them.';
comment on column deleted_session.events_deleted is
    'Its events with these numbers, from 1, are deleted.';

-- There is no foreign key, which would delete all keys of a session at once: whoever inserts holds
-- the session's lock.
create table idempotency (
    session bigint not null,
    action text not null check (action in ('spawn', 'batch', 'continue', 'retry', 'collect')),
    key text not null check (char_length(key) between 1 and 300),
    body bytea not null,
    answer jsonb not null,
    created_at timestamptz not null default now(),
    primary key (session, action, key)
);
create index idempotency_age on idempotency (created_at);

comment on table idempotency is
    'Answers to requests with an idempotency key, kept for 24 hours. Only successes are stored.';
comment on column idempotency.key is
    'The caller''s key. A parent task''s keys are prefixed with its id.';
comment on column idempotency.body is 'A digest of the request without the key and without nulls.';

-- The stored answer for this key, if there is one. The same key with another request is refused.
-- Needs the session's lock, so that concurrent requests with one key see the first answer.
create function find_answer_1(p_session bigint, p_action text, p_key text, p_body bytea) returns jsonb language plpgsql as $$
declare
    given idempotency;
begin
    select * into given
    from idempotency
    where session = p_session and action = p_action and key = p_key and created_at > now() - interval '24 hours';
    if given.body <> p_body then
        perform refuse('IDEMPOTENCY_CONFLICT', 'This idempotency key was used with another request');
    end if;
    return given.answer;
end $$;

create function store_answer_1(p_session bigint, p_action text, p_key text, p_body bytea, p_answer jsonb)
returns void language plpgsql as $$
begin
    if p_key is not null then
        insert into idempotency (session, action, key, body, answer)
        values (p_session, p_action, p_key, p_body, p_answer)
        on conflict (session, action, key) do update
        set body = excluded.body, answer = excluded.answer, created_at = excluded.created_at;
    end if;
end $$;

-- Changes the fields of a session that p_change contains; null removes a value.
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
select plan_by_index('change_session_1');
