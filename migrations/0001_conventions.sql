-- What every later file relies on: word lists, errors, planning, durability and the checks that
-- keep stored rows from changing. README.md in this directory is the map.

-- Word lists are domains. PostgreSQL re-reads the text of a table's CHECK for every statement that
-- writes the table, and that of a domain once per connection.
create domain task_state as text check (value in ('queued', 'waiting', 'completed', 'failed', 'cancelled'));
create domain awaited_kind as text check (value in ('dependencies', 'all_children', 'any_child', 'budget'));
create domain failure_kind as text check (value in (
    'max_turns', 'timeout', 'budget', 'model', 'tool', 'empty_result', 'lost', 'dependency', 'internal'
));
create domain loss_rule as text check (value in ('resume', 'fail'));
create domain event_kind as text check (value in (
    'spawned', 'started', 'turn', 'tool', 'retrying', 'waiting', 'resumed', 'released', 'lost', 'completed', 'failed',
    'cancelled', 'paused', 'raised', 'budget_warning'
));
create domain gate_reason as text check (value in ('rate_limit', 'circuit', 'outage'));
create domain attempt_outcome as text check (value in ('completed', 'failed', 'cancelled', 'released', 'waiting', 'lost'));
create domain notified_state as text check (value in ('completed', 'failed'));
create domain budget_rule as text check (value in ('fail', 'pause'));
create domain delivery_state as text check (value in ('pending', 'delivered', 'failed'));

-- AJ001: the request is refused. The detail is the specification's error code, the message is for
-- the caller.
create function refuse(code text, message text) returns void language plpgsql as $$
begin
    raise exception using errcode = 'AJ001', message = message, detail = code;
end $$;

-- AJ002: the caller's lease is gone, and with it the right to write.
create function lease_lost(task uuid) returns void language plpgsql as $$
begin
    raise exception using errcode = 'AJ002', message = format('the lease on task %s is lost', task);
end $$;

-- Every verb, and every step inside it, is planned once per connection and by index. The hot tables
-- change their size by the second, so statistics do not describe them, and a plan made while a
-- table was empty must still work when it is full. A plain index scan also marks the dead entries
-- it meets, so that the next scan skips them; a bitmap scan does not.
--
-- A step that joins all slots with other tables says `n > 0`, which is true of every slot: so it
-- reads them by their key. A scan of the table would count as so expensive that PostgreSQL would
-- see no difference between plans of the rest, and may read all tasks.
create function plan_by_index(verb regproc) returns void language plpgsql as $$
begin
    execute format(
        'alter function %s set plan_cache_mode = force_generic_plan set jit = off
         set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off',
        verb::regprocedure
    );
end $$;

-- For claims, renewals and drafts only: the commit does not wait for the disk. A crash of the
-- server can lose a claim (its task is then still in the queue, and the worker's lease is unknown)
-- or a renewal (the lease then ends earlier). Neither was promised to a caller. The setting ends
-- with the transaction. In a transaction that has already written something it is not set, and a
-- later durable step resets it: see commit_durably_1.
create function commit_lazily_1() returns void language plpgsql as $$
begin
    if current_setting('synchronous_commit') <> 'off' and pg_current_xact_id_if_assigned() is null then
        perform
            set_config('adjutant.synchronous_commit', current_setting('synchronous_commit'), true),
            set_config('synchronous_commit', 'off', true);
    end if;
end $$;

create function commit_durably_1() returns void language plpgsql as $$
begin
    if current_setting('adjutant.synchronous_commit', true) <> '' then
        perform set_config('synchronous_commit', current_setting('adjutant.synchronous_commit'), true);
    end if;
end $$;

create function refuse_rewrite() returns trigger language plpgsql as $$
begin
    raise exception '% % never changes', tg_table_name, tg_argv[0];
end $$;

-- A task that has ended never changes, except that it is collected, and that a model call which its
-- end has broken off is added to its use.
create function refuse_rewrite_of_the_ended() returns trigger language plpgsql as $$
declare
    mutable constant text[] := '{collected_at, input_tokens, output_tokens, cost_nanousd}';
begin
    if (to_jsonb(old) - mutable) is distinct from (to_jsonb(new) - mutable)
        or least(
            new.input_tokens - old.input_tokens, new.output_tokens - old.output_tokens, new.cost_nanousd - old.cost_nanousd
        ) < 0
    then
        raise exception 'task that has ended never changes';
    end if;
    return null;
end $$;

-- Task 7 is t_07 on the wire.
create function task_name(number integer) returns text language sql immutable as $$
    select 't_' || case when number < 10 then '0' else '' end || number
$$;

-- An id stored in a configuration. A configuration is free-form JSON: text that is no id gives
-- null.
create function config_id(config jsonb, field text) returns uuid language sql immutable as $$
    select substring(config ->> field from '^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$')::uuid
$$;

-- The smallest id that a task created at this time can have. Callers generate the ids by their own
-- clocks, so queries leave an hour of slack.
create function first_id(at timestamptz) returns uuid language sql immutable as $$
    select (
        lpad(to_hex(least(greatest(floor(extract(epoch from at) * 1000), 0), 281474976710655)::bigint), 12, '0')
        || repeat('0', 20)
    )::uuid
$$;

-- A UUIDv7: ids sort by the time at which they were created.
create function ordered_uuid() returns uuid language sql volatile as $$
    select encode(
        set_bit(set_bit(
            overlay(
                uuid_send(gen_random_uuid())
                placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                from 1 for 6
            ), 52, 1
        ), 53, 1), 'hex'
    )::uuid
$$;

create function format_utc_1(p_at timestamptz) returns text language plpgsql stable as $$
begin
    return to_char(p_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
end $$;
