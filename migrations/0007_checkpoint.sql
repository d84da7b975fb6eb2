-- checkpoint and tool result. The lock of the session numbers their events; that of the slot is the fence: a look without it
-- would let a worker that was stopped and continued commit after its task had been taken over. Both renew the lease, and never
-- shorten it: now() is when the transaction began, and a renewal may have come between.

-- Stores turn p_number. Storing the same turn twice under one lease is one store: a worker that lost its connection
-- before it heard the answer asks again.
create function checkpoint_1(
    p_session bigint, p_slot integer, p_task uuid, p_lease uuid, p_number integer, p_turn jsonb
) returns void language plpgsql as $$
declare
    held slot;
    answer record;
    is_new boolean;
begin
    perform lock_sessions_1(array[p_session]);
    select * into held
    from slot
    where n = p_slot and session = p_session and task = p_task and lease = p_lease for update;
    if not found then
        perform lease_lost(p_task);
    end if;
    is_new := held.answers = p_number - 1;
    if not is_new and p_number not between held.answers_at_claim + 1 and held.answers then
        raise exception 'turn % of task % cannot be stored after turn %', p_number, p_task, held.answers;
    end if;
    select * into answer from jsonb_to_record(p_turn) t (
        kind text, message jsonb, text text, model text, input_tokens bigint, output_tokens bigint,
        cache_read_tokens bigint, cache_write_tokens bigint, cost_nanousd bigint, duration_ms bigint
    );
    update slot
    set answers = greatest(answers, p_number),
        turns_used = turns_used + (is_new and answer.kind = 'turn')::integer,
        input_tokens = input_tokens + answer.input_tokens * is_new::integer,
        output_tokens = output_tokens + answer.output_tokens * is_new::integer,
        cost_nanousd = cost_nanousd + answer.cost_nanousd * is_new::integer,
        active_at = now(),
        expires_at = greatest(expires_at, now() + (select lease from worker where id = slot.worker))
    where n = held.n;
    if is_new then
        insert into turn (
            task, number, attempt, kind, message, text, model, input_tokens, output_tokens, cache_read_tokens,
            cache_write_tokens, cost_nanousd, duration_ms
        )
        values (
            p_task, p_number, held.attempt, answer.kind, answer.message, answer.text, answer.model,
            answer.input_tokens, answer.output_tokens, answer.cache_read_tokens, answer.cache_write_tokens,
            answer.cost_nanousd, answer.duration_ms
        );
        perform note_1(held, 'turn', p_number, null, null);
    end if;
end $$;

create function tool_result_1(
    p_session bigint, p_slot integer, p_task uuid, p_lease uuid, p_turn integer, p_tool text, p_result jsonb
) returns void language plpgsql as $$
declare
    held slot;
begin
    perform lock_sessions_1(array[p_session]);
    update slot
    set active_at = now(), expires_at = greatest(expires_at, now() + (select lease from worker where id = slot.worker))
    where n = p_slot and session = p_session and task = p_task and lease = p_lease
    returning * into held;
    if not found then
        perform lease_lost(p_task);
    elsif p_turn not between 1 and held.answers then
        raise exception 'task % has no turn % to store a tool result for', p_task, p_turn;
    end if;
    -- A result that is there stays: the model has seen it, or will.
    insert into tool_result (task, turn, call, attempt, content, is_error, duration_ms)
    select p_task, p_turn, given.call, held.attempt, given.content, given.is_error, given.duration_ms
    from jsonb_to_record(p_result) given (call text, content text, is_error boolean, duration_ms bigint)
    where not exists (
        select
        from tool_result r
        join task t on t.id = r.task
        where r.task = p_task and r.turn = p_turn and r.call = given.call and r.at >= t.created_at - interval '1 day'
    );
    if found then
        perform note_1(held, 'tool', p_turn, p_tool, (p_result -> 'is_error')::boolean);
    end if;
end $$;

select plan_by_index('checkpoint_1');
select plan_by_index('tool_result_1');
