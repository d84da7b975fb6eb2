-- checkpoint, tool result, draft: what a worker stores while a task runs. Checkpoints and tool
-- results take the session's lock, which numbers their events, and then the slot's, the fence: a
-- read without the lock would let a worker that was suspended and resumed commit after its task had
-- been taken over. Both renew the lease, and never shorten it: now() is the start of the
-- transaction, and a renewal may have committed since.

-- Stores turn p_number. Storing the same turn twice under one lease has the effect of storing it
-- once, so a worker that lost its connection before the answer can repeat the call.
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
        expires_at = renewed_until_1(expires_at, worker)
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
        perform record_event_1(held, 'turn', p_number, null, null);
    end if;
end $$;
select plan_by_index('checkpoint_1');

create function tool_result_1(
    p_session bigint, p_slot integer, p_task uuid, p_lease uuid, p_turn integer, p_tool text, p_result jsonb
) returns void language plpgsql as $$
declare
    held slot;
begin
    perform lock_sessions_1(array[p_session]);
    update slot
    set active_at = now(), expires_at = renewed_until_1(expires_at, worker)
    where n = p_slot and session = p_session and task = p_task and lease = p_lease
    returning * into held;
    if not found then
        perform lease_lost(p_task);
    elsif p_turn not between 1 and held.answers then
        raise exception 'task % has no turn % to store a tool result for', p_task, p_turn;
    end if;
    -- A stored result stays: the model has seen it, or will.
    insert into tool_result (task, turn, call, tool, attempt, content, is_error, duration_ms)
    select p_task, p_turn, given.call, p_tool, held.attempt, given.content, given.is_error, given.duration_ms
    from jsonb_to_record(p_result) given (call text, content text, is_error boolean, duration_ms bigint)
    where not exists (
        select
        from tool_result r
        join task t on t.id = r.task
        where r.task = p_task and r.turn = p_turn and r.call = given.call and r.at >= t.created_at - interval '1 day'
    );
    if found then
        perform record_event_1(held, 'tool', p_turn, p_tool, (p_result -> 'is_error')::boolean);
    end if;
end $$;
select plan_by_index('tool_result_1');

-- checkpoint, and the preflight for the next model call, in one round trip. VOLATILE, so that the
-- preflight sees what the checkpoint has written; in one plain statement it would not.
create function checkpoint_and_preflight_1(
    p_slot integer, p_task uuid, p_lease uuid, p_number integer, p_turn jsonb, p_session bigint, p_model text
)
returns table (
    closed_ms bigint, is_circuit boolean,
    session_budget jsonb, session_input_tokens bigint, session_output_tokens bigint, session_cost_nanousd bigint,
    tree_budget jsonb, tree_input_tokens bigint, tree_output_tokens bigint, tree_cost_nanousd bigint
) language plpgsql as $$
begin
    perform checkpoint_1(p_session, p_slot, p_task, p_lease, p_number, p_turn);
    return query select * from preflight_1(p_task, p_session, p_model);
end $$;

-- Drafts: the text so far of model answers that are not stored yet, so that a task that is
-- cancelled during an answer keeps it. Workers save them now and then during long calls. A crash
-- may lose them, so the table is unlogged.
create unlogged table draft (
    lease uuid primary key,
    task uuid not null,
    answer integer not null check (answer > 0),
    text text not null
) with (fillfactor = 50);

comment on table draft is
    'The text so far of model answers that are not stored yet; seconds old. Only long calls have '
    'one.';
comment on column draft.lease is
    'The attempt that receives the answer. A draft never counts for a later attempt.';
comment on column draft.answer is
    'The number of the answer that this is the beginning of. Once that answer is stored, the draft '
    'is obsolete.';

-- Saves all drafts of a worker in one call, and deletes those of p_gone. The slot's lock is the
-- fence, as for every write of a worker; a locked slot is about to store the answer or to end.
create function save_drafts_1(
    p_slots integer[], p_tasks uuid[], p_leases uuid[], p_answers integer[], p_texts text[], p_gone uuid[]
) returns void language plpgsql as $$
#variable_conflict use_column
declare
    held uuid[];
begin
    perform commit_lazily_1();
    delete from draft where lease = any(p_gone);
    held := array(
        select x.lease
        from unnest(p_slots, p_tasks, p_leases) e (slot, task, lease)
        join slot x on x.n = e.slot and x.task = e.task and x.lease = e.lease
        order by x.n
        for update of x skip locked
    );
    insert into draft (lease, task, answer, text)
    select e.lease, e.task, e.answer, e.text
    from unnest(p_tasks, p_leases, p_answers, p_texts) e (task, lease, answer, text)
    where e.lease = any(held)
    on conflict (lease) do update
    set answer = excluded.answer, text = excluded.text
    where (draft.answer, draft.text) <> (excluded.answer, excluded.text);
end $$;
select plan_by_index('save_drafts_1');

-- Deletes the drafts of workers that died.
create function delete_stale_drafts_1() returns void language plpgsql as $$
begin
    perform commit_lazily_1();
    delete from draft
    where lease in (
        select d.lease
        from draft d
        where not exists (select from slot x where x.lease = d.lease)
        for update of d skip locked
    );
end $$;
