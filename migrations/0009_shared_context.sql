-- Shared context: the key-value store through which the agents of a session share findings.
-- session_context_1 (for the orchestrator) and task_context_1 (for tasks) both call context_1.
-- Every write holds the session's lock, so that the total stays below its limit and an archived
-- session does not change. Reads take no lock.
--
-- A task may be spawned with a snapshot: a copy of the shared context, its overlay. Everything it
-- does with shared_context it does with the copy; others do not see its writes, and it does not see
-- theirs. An overlay is a context with a negative id in place of a session's, so that every action
-- works on it, with the same limits. task.context is that id.

create table context_entry (
    session bigint not null,
    key text not null check (key ~ '^[a-z0-9_]{1,64}$'),
    value text not null,
    tokens integer not null generated always as (greatest(1, char_length(value) / 4)) stored check (tokens <= 100000),
    written_by text not null,
    written_at timestamptz not null,
    version integer not null check (version > 0),
    primary key (session, key)
) with (fillfactor = 70);

comment on table context_entry is
    'The current entries of shared contexts. The last write of a key wins.';
comment on column context_entry.session is 'A session, or (negative) the overlay of a task.';
comment on column context_entry.tokens is 'The estimate that all limits count.';
comment on column context_entry.written_by is
    'orchestrator, or subagent:{agent}:{task_id}. Derived from how the call arrived, never from '
    'its arguments.';
comment on column context_entry.version is
    'Grows by one with every write of the key. A deleted key starts at 1 again.';

create table context_history (
    id bigint generated always as identity primary key,
    session bigint not null,
    key text not null,
    value text,
    tokens integer generated always as (greatest(1, char_length(value) / 4)) stored,
    written_by text not null,
    written_at timestamptz not null,
    version integer not null
);
create index context_history_key on context_history (session, key, id);
-- For the end of the history of keys that are gone.
create index context_history_deleted on context_history (written_at) where value is null;
create trigger context_history_never_changes before update on context_history
for each row execute function refuse_rewrite('once stored');

comment on table context_history is
    'Writes and deletes of shared contexts, in order: the newest of each key. A key that was '
    'deleted 30 days ago has none.';
comment on column context_history.session is
    'A session, or (negative) the overlay of a task, whose history begins with the snapshot.';
comment on column context_history.value is
    'Null: the key was deleted, and version is its last version.';

create table context_snapshot (
    session bigint not null,
    label text not null,
    version integer not null,
    entries jsonb not null,
    total_size_tokens integer not null,
    taken_by text not null,
    taken_at timestamptz not null,
    primary key (session, label)
);

comment on table context_snapshot is
    'A copy of a whole shared context, under a label. Taking it again replaces it.';
comment on column context_snapshot.session is 'A session, or (negative) the overlay of a task.';
comment on column context_snapshot.entries is
    'The entries in the form in which read_batch returns them.';

create sequence context_overlay as bigint increment by -1 maxvalue -1 start with -1;

create function context_entry_json_1(e context_entry) returns jsonb language plpgsql stable as $$
begin
    return jsonb_build_object(
        'key', e.key, 'value', e.value, 'written_by', e.written_by, 'written_at', format_utc_1(e.written_at),
        'version', e.version, 'value_size_tokens', e.tokens
    );
end $$;

create function context_total_1(p_session bigint) returns integer language plpgsql stable as $$
begin
    return (select coalesce(sum(tokens), 0) from context_entry where session = p_session);
end $$;

create function context_list_keys_1(p_session bigint) returns jsonb language plpgsql stable as $$
begin
    return (
        select jsonb_build_object(
            'keys', coalesce(jsonb_agg(context_entry_json_1(e) - 'value' order by e.key), '[]'),
            'total_size_tokens', coalesce(sum(e.tokens), 0)
        )
        from context_entry e
        where e.session = p_session
    );
end $$;

create function context_read_1(p_session bigint, p_key text) returns jsonb language plpgsql stable as $$
declare
    entry context_entry;
begin
    select * into entry from context_entry where session = p_session and key = p_key;
    if not found then
        perform refuse('KEY_NOT_FOUND', format('Key not found: %s', p_key));
    end if;
    return context_entry_json_1(entry);
end $$;

create function context_read_batch_1(p_session bigint, p_keys text[]) returns jsonb language plpgsql stable as $$
begin
    return (
        select jsonb_build_object(
            'entries', coalesce(jsonb_agg(context_entry_json_1(e) order by k.place) filter (where e.key is not null), '[]'),
            'missing', coalesce(jsonb_agg(k.key order by k.place) filter (where e.key is null), '[]')
        )
        from (select key, min(place) as place from unnest(p_keys) with ordinality u (key, place) group by key) k
        left join context_entry e on e.session = p_session and e.key = k.key
    );
end $$;

-- Reads one row more than it shows, to find out whether there are more. Shows values of 100,000
-- tokens together at most, but at least one. kept_from_version says that older versions are no
-- longer kept.
create function context_read_history_1(p_session bigint, p_key text, p_limit bigint) returns jsonb language plpgsql stable as $$
declare
    answer jsonb;
begin
    select jsonb_build_object(
        'key', p_key,
        'history', jsonb_agg(
            jsonb_build_object('version', h.version, 'written_by', h.written_by, 'written_at', format_utc_1(h.written_at))
            || case when h.value is null then '{"deleted": true}'
                else jsonb_build_object('value', h.value, 'value_size_tokens', h.tokens) end
            order by h.id desc
        ) filter (where h.is_shown),
        'more', not bool_and(h.is_shown)
    ) || coalesce((
        select jsonb_build_object('kept_from_version', oldest.version)
        from (select version from context_history where session = p_session and key = p_key order by id limit 1) oldest
        where oldest.version > 1
    ), '{}')
    into answer
    from (
        select newest.*, place = 1 or place <= p_limit and sum(tokens) over (order by id desc) <= 100000 as is_shown
        from (
            select *, row_number() over (order by id desc) as place
            from context_history
            where session = p_session and key = p_key
            order by id desc
            limit p_limit + 1
        ) newest
    ) h;
    if answer -> 'history' = 'null' then
        perform refuse('KEY_NOT_FOUND', format('Key not found: %s', p_key));
    end if;
    return answer;
end $$;

create function context_read_snapshot_1(p_session bigint, p_label text) returns jsonb language plpgsql stable as $$
declare
    snapshot context_snapshot;
begin
    select * into snapshot from context_snapshot where session = p_session and label = p_label;
    if not found then
        perform refuse('KEY_NOT_FOUND', format('Snapshot not found: %s', p_label));
    end if;
    return jsonb_build_object(
        'label', snapshot.label, 'version', snapshot.version, 'taken_by', snapshot.taken_by,
        'taken_at', format_utc_1(snapshot.taken_at), 'total_size_tokens', snapshot.total_size_tokens, 'entries', snapshot.entries
    );
end $$;

-- Keeps the newest p_keep changes of a key, or all of them if that is null. A write adds one, so
-- few are deleted at a time, also when p_keep was reduced.
create function context_forget_1(p_session bigint, p_key text, p_keep integer) returns void language plpgsql as $$
begin
    delete from context_history
    where id = any(array(
        select id
        from context_history
        where session = p_session and key = p_key
        order by id desc
        offset p_keep
        limit case when p_keep is null then 0 else 10 end
    ));
end $$;
select plan_by_index('context_forget_1');

-- Deletes the history of keys that were deleted so long ago, up to 1000 changes; returns how many.
-- The change that deleted the key is the last to go, so that a later call finds the rest.
create function forget_deleted_keys_1(p_age interval) returns bigint language plpgsql as $$
declare
    doomed bigint[];
    gone bigint;
begin
    doomed := array(
        select older.id
        from (
            select h.session, h.key, h.id
            from context_history h
            where h.value is null and h.written_at < now() - p_age
            order by h.written_at
            limit 100
        ) deletion
        cross join lateral (
            select o.id
            from context_history o
            where o.session = deletion.session and o.key = deletion.key and o.id <= deletion.id
            order by o.id
            limit 1000
        ) older
        limit 1000
    );
    delete from context_history
    where id in (select id from context_history where id = any(doomed) for update skip locked);
    get diagnostics gone = row_count;
    return gone;
end $$;
select plan_by_index('forget_deleted_keys_1');

-- The total is computed after the write, when it no longer contains the old value; a refusal rolls
-- the write back. The time is clock_timestamp(): now() is the start of the transaction, which may
-- be before that of an earlier version that held the lock.
create function context_write_1(p_session bigint, p_by text, p_call jsonb) returns jsonb language plpgsql as $$
declare
    value_limit integer := p_call ->> 'max_value_tokens';
    store_limit integer := p_call ->> 'max_store_tokens';
    entry context_entry;
    total integer;
begin
    insert into context_entry as e (session, key, value, written_by, written_at, version)
    values (p_session, p_call ->> 'key', p_call ->> 'value', p_by, clock_timestamp(), 1)
    on conflict (session, key) do update
    set value = excluded.value, written_by = excluded.written_by, written_at = excluded.written_at, version = e.version + 1
    returning * into entry;
    insert into context_history (session, key, value, written_by, written_at, version)
    values (p_session, entry.key, entry.value, p_by, entry.written_at, entry.version);
    perform context_forget_1(p_session, entry.key, (p_call ->> 'keep')::integer);
    total := context_total_1(p_session);
    if total > store_limit then
        perform refuse('STORE_FULL', format(
            'The shared context would have %s tokens and may have %s (limits.max_store_tokens); delete what is no longer needed',
            total, store_limit
        ));
    end if;
    return jsonb_build_object(
        'key', entry.key, 'version', entry.version, 'written_by', entry.written_by, 'written_at', format_utc_1(entry.written_at)
    ) || case when entry.tokens * 5 >= value_limit * 4 then jsonb_build_object(
        'warning', format('The value has %s tokens; the limit is %s', entry.tokens, value_limit)
    ) else '{}' end;
end $$;

create function context_delete_1(p_session bigint, p_by text, p_key text, p_keep integer) returns jsonb language plpgsql as $$
declare
    previous integer;
begin
    delete from context_entry where session = p_session and key = p_key returning version into previous;
    if not found then
        perform refuse('KEY_NOT_FOUND', format('Key not found: %s', p_key));
    end if;
    insert into context_history (session, key, written_by, written_at, version)
    values (p_session, p_key, p_by, clock_timestamp(), previous);
    perform context_forget_1(p_session, p_key, p_keep);
    return jsonb_build_object('deleted', p_key, 'previous_version', previous);
end $$;

create function context_snapshot_1(p_session bigint, p_by text, p_label text) returns jsonb language plpgsql as $$
declare
    snapshot context_snapshot;
begin
    insert into context_snapshot as s (session, label, version, entries, total_size_tokens, taken_by, taken_at)
    select
        p_session, p_label, 1, coalesce(jsonb_agg(context_entry_json_1(e) order by e.key), '[]'), coalesce(sum(e.tokens), 0),
        p_by, clock_timestamp()
    from context_entry e
    where e.session = p_session
    on conflict (session, label) do update
    set version = s.version + 1, entries = excluded.entries, total_size_tokens = excluded.total_size_tokens,
        taken_by = excluded.taken_by, taken_at = excluded.taken_at
    returning * into snapshot;
    if (select count(*) from context_snapshot where session = p_session) > 100 then
        perform refuse('STORE_FULL', 'The session has 100 snapshots, which is all it may have; take one of them again');
    end if;
    return jsonb_build_object(
        'label', snapshot.label, 'version', snapshot.version, 'taken_by', snapshot.taken_by,
        'taken_at', format_utc_1(snapshot.taken_at), 'total_size_tokens', snapshot.total_size_tokens,
        'key_count', jsonb_array_length(snapshot.entries)
    );
end $$;

-- Performs a call and returns the answer as the caller sees it. The arguments have been checked.
-- "keep" in the call is how many changes of a key stay in its history; "max_value_tokens" and
-- "max_store_tokens" are the limits of the caller's process.
-- p_context is the session, or the overlay of one of its tasks.
create function context_1(p_session bigint, p_context bigint, p_by text, p_call jsonb) returns jsonb language plpgsql as $$
declare
    action text := p_call ->> 'action';
    key text := p_call ->> 'key';
    label text := p_call ->> 'label';
    keep integer := p_call ->> 'keep';
    s session;
begin
    if action in ('write', 'delete', 'snapshot') then
        perform commit_durably_1();
        select * into s from session where id = p_session for no key update;
    else
        select * into s from session where id = p_session;
    end if;
    if not found then
        perform refuse('SESSION_NOT_FOUND', 'Session not found');
    elsif action in ('write', 'delete', 'snapshot') and s.archived_at is not null then
        perform refuse('SESSION_ARCHIVED', format('Session %s is archived: its shared context can only be read', s.name));
    end if;
    return case action
        when 'list_keys' then context_list_keys_1(p_context)
        when 'read' then context_read_1(p_context, key)
        when 'write' then context_write_1(p_context, p_by, p_call)
        when 'delete' then context_delete_1(p_context, p_by, key, keep)
        when 'read_batch' then context_read_batch_1(
            p_context, array(select jsonb_array_elements_text(p_call -> 'keys'))
        )
        when 'read_history' then context_read_history_1(p_context, key, (p_call ->> 'limit')::bigint)
        when 'snapshot' then context_snapshot_1(p_context, p_by, label)
        when 'read_snapshot' then context_read_snapshot_1(p_context, label)
    end;
end $$;
select plan_by_index('context_1');

-- A call of the orchestrator. session_id is for the log.
create function session_context_1(p_session bigint, p_call jsonb)
returns table (answer jsonb, session_id text) language plpgsql as $$
begin
    answer := context_1(p_session, p_session, 'orchestrator', p_call);
    session_id := (select name from session where id = p_session);
    return next;
end $$;
select plan_by_index('session_context_1');

-- A call of a task. The change and the call's result are stored in one transaction, so that a write
-- happens exactly once. A call whose result is stored returns that result. A refusal is a result
-- too: the task continues with it. The session is locked before the slot, as the lock order
-- demands. session_id and written_by are for the log, and null for a repeated call.
create function task_context_1(
    p_session bigint, p_slot integer, p_task uuid, p_lease uuid, p_turn integer, p_call_id text, p_call jsonb
) returns table (content text, is_error boolean, duration_ms bigint, session_id text, written_by text) language plpgsql as $$
#variable_conflict use_column
declare
    began timestamptz := clock_timestamp();
    held slot;
    caller task;
    answer jsonb;
    code text;
    why text;
begin
    perform lock_sessions_1(array[p_session]);
    update slot
    set active_at = now(), expires_at = renewed_until_1(expires_at, worker)
    where n = p_slot and task = p_task and lease = p_lease and session = p_session
    returning * into held;
    if not found then
        perform lease_lost(p_task);
    elsif p_turn not between 1 and held.answers then
        raise exception 'task % has no turn % to store a tool result for', p_task, p_turn;
    end if;
    select * into caller from task where id = p_task;
    return query
    select r.content, r.is_error, r.duration_ms, null, null
    from tool_result r
    where r.task = p_task and r.turn = p_turn and r.call = p_call_id and r.at >= caller.created_at - interval '1 day';
    if found then
        return;
    end if;

    is_error := false;
    written_by := format('subagent:%s:%s', caller.agent, task_name(caller.number));
    begin
        answer := context_1(p_session, coalesce(caller.context, p_session), written_by, p_call);
    exception when sqlstate 'AJ001' then
        get stacked diagnostics code = pg_exception_detail, why = message_text;
        answer := jsonb_build_object('error', code, 'message', why);
        is_error := true;
    end;
    session_id := (select name from session where id = p_session);
    content := answer;
    duration_ms := extract(epoch from clock_timestamp() - began) * 1000;
    insert into tool_result (task, turn, call, tool, attempt, content, is_error, duration_ms)
    values (p_task, p_turn, p_call_id, 'shared_context', held.attempt, content, is_error, duration_ms);
    perform record_event_1(held, 'tool', p_turn, 'shared_context', is_error);
    return next;
end $$;
select plan_by_index('task_context_1');

-- Creates overlays that are copies of a context. Needs the session's lock.
create function copy_context_1(p_context bigint, p_overlays bigint[]) returns void language plpgsql as $$
begin
    insert into context_entry (session, key, value, written_by, written_at, version)
    select o.id, e.key, e.value, e.written_by, e.written_at, e.version
    from unnest(p_overlays) o (id)
    cross join context_entry e
    where e.session = p_context;
    insert into context_history (session, key, value, written_by, written_at, version)
    select e.session, e.key, e.value, e.written_by, e.written_at, e.version
    from context_entry e
    where e.session = any(p_overlays);
    insert into context_snapshot (session, label, version, entries, total_size_tokens, taken_by, taken_at)
    select o.id, c.label, c.version, c.entries, c.total_size_tokens, c.taken_by, c.taken_at
    from unnest(p_overlays) o (id)
    cross join context_snapshot c
    where c.session = p_context;
end $$;
select plan_by_index('copy_context_1');

-- Deletes an overlay in the transaction that ends the last task that works on it. Every end holds
-- the session's lock, so two concurrent ends see each other.
create function delete_overlay_1() returns trigger language plpgsql as $$
begin
    perform from task where context = new.context and finished_at is null;
    if not found then
        delete from context_entry where session = new.context;
        delete from context_history where session = new.context;
        delete from context_snapshot where session = new.context;
    end if;
    return null;
end $$;
select plan_by_index('delete_overlay_1');

create trigger overlays_end_with_their_tasks after update on task for each row
when (new.context is not null and old.finished_at is null and new.finished_at is not null)
execute function delete_overlay_1();
