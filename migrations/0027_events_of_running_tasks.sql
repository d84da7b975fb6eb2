-- Events of tasks while they run: started, turn, tool. They are numbered like all others, under the session's lock; so what
-- stores a turn or a tool result now takes that lock before the slot's, and writes its event with it.
--
-- A claim takes no session's lock and writes no event, so a start is told later: by the worker, if the task still runs a
-- while after its claim (started_1), or else by the first event row of the attempt, which carries started_at and is shown as
-- two. So a task that ends at once costs no row and no commit more.

alter domain event_kind drop constraint event_kind_check;
-- Not valid: what is stored has passed the shorter list.
alter domain event_kind add constraint event_kind_check check (value in (
    'spawned', 'started', 'turn', 'tool', 'waiting', 'resumed', 'released', 'lost', 'completed', 'failed', 'cancelled'
)) not valid;

alter table event
    add column attempt integer,
    add column started_at timestamptz,
    add column turn integer,
    add column tool text,
    add column is_error boolean;

comment on column event.attempt is 'The attempt that it is of; null for what happens to a task that does not run.';
comment on column event.started_at is
    'When the attempt was claimed, in its first event. Where that is not "started", a start is shown before it.';
comment on column event.turn is 'The number of the turn that was stored, or whose tool was called. The rest is in turn.';
comment on column event.tool is 'The name of the tool, if the agent has it: a name that a model made up is its text.';

alter table slot add column announced uuid;
comment on column slot.announced is 'The lease whose start is among the events. Another than that of the slot says nothing of it.';

-- The next event of a task that runs. Needs the session's lock and the slot's.
create function note_1(held slot, p_kind text, p_turn integer, p_tool text, p_is_error boolean)
returns void language plpgsql as $$
begin
    with numbered as (
        update session set next_event = next_event + 1 where id = held.session returning next_event - 1 as seq
    )
    insert into event (session, seq, task, kind, attempt, started_at, turn, tool, is_error)
    select
        held.session, numbered.seq, held.task, p_kind, held.attempt,
        case when held.announced is distinct from held.lease then held.claimed_at end, p_turn, p_tool, p_is_error
    from numbered;
    if held.announced is distinct from held.lease then
        update slot set announced = lease where n = held.n;
    end if;
end $$;

-- As checkpoint_1, with its event.
create function checkpoint_2(
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

-- As tool_result_1, with its event.
create function tool_result_2(
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

-- As task_context_1, with its event.
create function task_context_2(
    p_session bigint, p_slot integer, p_task uuid, p_lease uuid, p_turn integer, p_call_id text, p_call jsonb
) returns table (content text, is_error boolean, duration_ms bigint, session_id text, written_by text) language plpgsql as $$
#variable_conflict use_column
declare
    began timestamptz := clock_timestamp();
    held slot;
    asking task;
    answer jsonb;
    code text;
    why text;
begin
    perform lock_sessions_1(array[p_session]);
    update slot
    set active_at = now(), expires_at = greatest(expires_at, now() + (select lease from worker where id = slot.worker))
    where n = p_slot and task = p_task and lease = p_lease and session = p_session
    returning * into held;
    if not found then
        perform lease_lost(p_task);
    elsif p_turn not between 1 and held.answers then
        raise exception 'task % has no turn % to store a tool result for', p_task, p_turn;
    end if;
    select * into asking from task where id = p_task;
    return query
    select r.content, r.is_error, r.duration_ms, null, null
    from tool_result r
    where r.task = p_task and r.turn = p_turn and r.call = p_call_id and r.at >= asking.created_at - interval '1 day';
    if found then
        return;
    end if;

    is_error := false;
    written_by := format('subagent:%s:%s', asking.agent, task_name(asking.number));
    begin
        answer := context_1(p_session, written_by, p_call);
    exception when sqlstate 'AJ001' then
        get stacked diagnostics code = pg_exception_detail, why = message_text;
        answer := jsonb_build_object('error', code, 'message', why);
        is_error := true;
    end;
    session_id := (select name from session where id = p_session);
    content := answer;
    duration_ms := extract(epoch from clock_timestamp() - began) * 1000;
    insert into tool_result (task, turn, call, attempt, content, is_error, duration_ms)
    values (p_task, p_turn, p_call_id, held.attempt, content, is_error, duration_ms);
    perform note_1(held, 'tool', p_turn, 'shared_context', is_error);
    return next;
end $$;

-- Tells of attempts that have begun, many at a time; the answer names the leases that were told of. It never waits: what
-- others are busy with is left for a next time, or is told by their event. It is durable, as all events are: a number that a
-- reader has seen is never given again.
create function started_1(p_slots integer[], p_tasks uuid[], p_leases uuid[]) returns uuid[] language plpgsql as $$
declare
    sessions bigint[];
    held integer[];
    told uuid[];
begin
    perform commit_durably_1();
    sessions := array(
        select s.id
        from session s
        where s.id = any(array(
            select x.session
            from unnest(p_slots, p_tasks, p_leases) e (slot, task, lease)
            join slot x on x.n = e.slot and x.task = e.task and x.lease = e.lease
        ))
        order by s.id
        for no key update skip locked
    );
    -- The fence, as in end_1.
    held := array(
        select x.n
        from unnest(p_slots, p_tasks, p_leases) e (slot, task, lease)
        join slot x on x.n = e.slot and x.task = e.task and x.lease = e.lease
        where x.session = any(sessions)
        order by x.n
        for update of x skip locked
    );
    with given as materialized (
        select x.*, row_number() over (partition by x.session order by x.claimed_at, x.n) as k
        from slot x
        where x.n = any(held) and x.announced is distinct from x.lease
    ), marked as (
        update slot x set announced = x.lease from given g where x.n = g.n
    ), numbered as (
        update session s
        set next_event = s.next_event + c.events
        from (select session, count(*) as events from given group by session) c
        where s.id = c.session
        returning s.id, s.next_event - c.events as first
    )
    insert into event (session, seq, task, kind, attempt, started_at)
    select g.session, s.first + g.k - 1, g.task, 'started', g.attempt, g.claimed_at
    from given g
    join numbered s on s.id = g.session;
    select coalesce(array_agg(x.lease), '{}') into told from slot x where x.n = any(held);
    return told;
end $$;

-- As before, with attempt and start in its events. In place: its callers are the verbs of this release and of the one before,
-- and both are to tell the same.
create or replace function end_attempts_1(
    p_places integer[], p_slots integer[], p_outcomes text[], p_results text[], p_details jsonb[]
) returns void language plpgsql as $$
begin
    with given as materialized (
        select
            x.*, e.outcome, e.result, e.detail, e.place,
            case
                when e.outcome = 'released' then 'queued'
                when e.outcome = 'lost' and e.detail ->> 'failure' is null then 'queued'
                when e.outcome = 'lost' then 'failed'
                else e.outcome
            end as state
        from unnest(p_slots, p_outcomes, p_results, p_details) with ordinality e (slot, outcome, result, detail, place)
        join slot x on x.n = e.slot
        where p_places is null or e.place = any(p_places)
    ), recorded as (
        insert into attempt (task, attempt, session, worker, lease, outcome, turns, claimed_at, ended_at)
        select
            g.task, g.attempt, g.session, g.worker, g.lease, g.outcome, g.answers - g.answers_at_claim, g.claimed_at,
            greatest(now(), g.claimed_at)
        from given g
    ), freed as (
        update slot x
        set task = null, lease = null, session = null, worker = null, attempt = null,
            claimed_at = null, expires_at = null, active_at = null,
            answers_at_claim = null, answers = null, turns_used = null,
            input_tokens = null, output_tokens = null, cost_nanousd = null
        from given g
        where x.n = g.n
    ), ended as (
        update task t
        set state = g.state,
            waiting_for = g.detail ->> 'waiting_for',
            not_before = now() + (g.detail ->> 'delay_s')::double precision * interval '1 second',
            failure = g.detail ->> 'failure',
            error = g.detail ->> 'error',
            result = g.result,
            summary = g.detail ->> 'summary',
            partial_result = case
                when g.state in ('failed', 'cancelled') and g.answers > 0
                then coalesce(g.detail ->> 'partial_result', last_text_1(t.id, t.created_at))
                else g.detail ->> 'partial_result'
            end,
            -- We may have waited for a lock while the task was claimed: now() is when the transaction began.
            finished_at = case
                when g.state in ('completed', 'failed', 'cancelled') then greatest(now(), t.created_at, g.claimed_at)
            end,
            attempt = g.attempt,
            failures = coalesce(
                (g.detail ->> 'failures')::smallint, case when g.answers > g.answers_at_claim then 0 else t.failures end
            ),
            started_at = coalesce(t.started_at, g.claimed_at),
            answers = g.answers,
            turns_used = g.turns_used,
            input_tokens = g.input_tokens,
            output_tokens = g.output_tokens,
            cost_nanousd = g.cost_nanousd,
            running_ms = t.running_ms + greatest(0, extract(epoch from now() - g.claimed_at) * 1000)::bigint
        from given g
        where t.id = g.task
        returning t.id, t.session, t.parent, g.outcome
    ), notified as (
        insert into notification (task, session, state)
        select e.id, e.session, e.outcome
        from ended e
        where e.parent is null and e.outcome in ('completed', 'failed')
    ), numbered as (
        update session s
        set next_event = s.next_event + c.events,
            input_tokens = s.input_tokens + c.input_tokens,
            output_tokens = s.output_tokens + c.output_tokens,
            cost_nanousd = s.cost_nanousd + c.cost_nanousd
        from (
            select
                g.session,
                count(*) as events,
                coalesce(sum(g.input_tokens - t.input_tokens), 0) as input_tokens,
                coalesce(sum(g.output_tokens - t.output_tokens), 0) as output_tokens,
                coalesce(sum(g.cost_nanousd - t.cost_nanousd), 0) as cost_nanousd
            from given g
            -- Only answers cost something, and a null is looked up nowhere. This still sees what the task had before.
            left join task t on t.id = case when g.answers > g.answers_at_claim then g.task end
            group by g.session
        ) c
        where s.id = c.session
        returning s.id, s.next_event - c.events as first
    )
    insert into event (session, seq, task, kind, attempt, started_at)
    select
        g.session,
        s.first - 1 + row_number() over (partition by g.session order by g.state in ('completed', 'failed'), g.place),
        g.task,
        g.outcome,
        g.attempt,
        case when g.announced is distinct from g.lease then g.claimed_at end
    from given g
    join numbered s on s.id = g.session;
end $$;

select plan_by_index('checkpoint_2');
select plan_by_index('tool_result_2');
select plan_by_index('task_context_2');
select plan_by_index('started_1');
