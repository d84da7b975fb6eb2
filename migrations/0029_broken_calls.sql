-- broken_call: counts a model call that has no stored answer. The provider may charge for it.

-- Counts a call of an attempt: of one that still has its lease, or of one that somebody else ended
-- (a cancel, a sweep, a deletion) while its worker was calling. Each call counts once. The outcome
-- of a task that has ended stays as it is: only its use grows. Nothing is counted, and the answer
-- is false, if the session is deleted or the attempt is unknown.
create function broken_call_1(p_session bigint, p_slot integer, p_task uuid, p_lease uuid, p_call jsonb)
returns boolean language plpgsql as $$
declare
    of_attempt integer;
    is_late boolean := false;
    call broken_call;
begin
    if lock_sessions_1(array[p_session]) = '{}' then
        return false;
    end if;
    select attempt into of_attempt
    from slot
    where n = p_slot and session = p_session and task = p_task and lease = p_lease for update;
    if not found then
        is_late := true;
        select a.attempt into of_attempt
        from attempt a
        where a.task = p_task and a.session = p_session and a.lease = p_lease and a.outcome in ('cancelled', 'lost');
        if not found then
            return false;
        end if;
        -- This waits for a claim in flight, as in cancel_tasks_1: it may have read the task's
        -- counters.
        perform from queue where session = p_session and task = p_task for update;
    end if;
    call := jsonb_populate_record(null::broken_call, p_call);
    -- The answer was stored after all, although its worker did not learn it.
    if call.reason = 'unstored' and exists (
        select from turn u where u.task = p_task and u.number = call.answer and u.attempt = of_attempt
    ) then
        return true;
    end if;
    insert into broken_call (
        task, attempt, number, answer, model, reason, input_tokens, output_tokens, cost_nanousd, usage_estimated, duration_ms
    )
    values (
        p_task, of_attempt, call.number, call.answer, call.model, call.reason, call.input_tokens, call.output_tokens,
        call.cost_nanousd, call.usage_estimated, call.duration_ms
    )
    on conflict do nothing;
    if not found then
        return true;
    end if;
    -- A late call is counted for the task below, so that the slot of a later attempt must have it
    -- too: what that attempt has used is the difference.
    update slot
    set input_tokens = input_tokens + call.input_tokens, output_tokens = output_tokens + call.output_tokens,
        cost_nanousd = cost_nanousd + call.cost_nanousd, broken_calls = broken_calls + (not is_late)::integer
    where task = p_task;
    if is_late then
        perform count_late_call_1(p_session, p_task, p_lease, call);
    end if;
    return true;
end $$;
select plan_by_index('broken_call_1');

-- Adds a call to the sums that the end of its attempt has left: those of the task, the session and
-- the rollups.
create function count_late_call_1(p_session bigint, p_task uuid, p_lease uuid, p_call broken_call)
returns void language plpgsql as $$
begin
    update task
    set input_tokens = input_tokens + p_call.input_tokens, output_tokens = output_tokens + p_call.output_tokens,
        cost_nanousd = cost_nanousd + p_call.cost_nanousd
    where id = p_task;
    update session
    set input_tokens = input_tokens + p_call.input_tokens, output_tokens = output_tokens + p_call.output_tokens,
        cost_nanousd = cost_nanousd + p_call.cost_nanousd
    where id = p_session;
    insert into usage_delta (tenant, agent, model, outcome, input_tokens, output_tokens, cost_nanousd)
    select s.tenant, t.agent, coalesce(t.model, ''), a.outcome, p_call.input_tokens, p_call.output_tokens, p_call.cost_nanousd
    from attempt a
    join task t on t.id = a.task
    join session s on s.id = t.session
    where a.task = p_task and a.lease = p_lease;
end $$;
select plan_by_index('count_late_call_1');
