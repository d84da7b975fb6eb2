-- Ends of attempts and of tasks: the one statement that writes them.

-- The text that a task leaves which ends without a result: the given one, or else its last
-- answer's. STABLE and without SET clauses, so that PostgreSQL inlines it.
create function partial_result_1(p_state text, p_detail jsonb, p_answers integer, p_task uuid, p_created_at timestamptz)
returns text language sql stable as $$
    select case
        when p_state in ('failed', 'cancelled') and p_answers > 0 and p_detail ->> 'partial_result' is null
            then last_text_1(p_task, p_created_at)
        else p_detail ->> 'partial_result'
    end
$$;

-- The ends to be written, each with the attempt in its slot, if a slot holds the task. STABLE and
-- without SET clauses, so that PostgreSQL inlines it.
create function given_ends_1(
    p_places integer[], p_tasks uuid[], p_slots integer[], p_outcomes text[], p_results text[], p_details jsonb[]
)
returns table (
    task uuid, session bigint, outcome text, state text, result text, detail jsonb, place bigint,
    lease uuid, worker uuid, attempt integer, claimed_at timestamptz, announced uuid,
    answers_at_claim integer, answers integer, turns_used integer,
    input_tokens bigint, output_tokens bigint, cost_nanousd bigint,
    new_turns bigint, new_input_tokens bigint, new_output_tokens bigint, new_cost_nanousd bigint, was_waiting boolean, ran_ms bigint
) language sql stable as $$
    select
        e.task, coalesce(x.session, t.session), e.outcome,
        case
            when e.outcome = 'released' or e.outcome = 'lost' and e.detail ->> 'failure' is null then 'queued'
            when e.outcome = 'lost' then 'failed'
            else e.outcome
        end,
        e.result, e.detail, e.place,
        x.lease, x.worker, x.attempt, x.claimed_at, x.announced,
        x.answers_at_claim, x.answers, x.turns_used,
        x.input_tokens, x.output_tokens, x.cost_nanousd,
        (x.turns_used - t.turns_used)::bigint,
        x.input_tokens - t.input_tokens, x.output_tokens - t.output_tokens, x.cost_nanousd - t.cost_nanousd,
        x.n is null and t.state = 'waiting', greatest(0, date_part('epoch', now() - x.claimed_at) * 1000)::bigint
    from unnest(p_tasks, p_slots, p_outcomes, p_results, p_details)
        with ordinality e (task, slot, outcome, result, detail, place)
    left join slot x on x.n = e.slot
    -- Only model calls cost something. A null id is not looked up.
    left join task t on t.id = case when x.n is null or x.answers > x.answers_at_claim or x.broken_calls > 0 then e.task end
    where p_places is null or e.place = any(p_places)
$$;

-- Ends attempts (of tasks in slots) and tasks that no slot holds (their slot is null; the caller
-- has removed them from the queue). It records the attempts, moves the slots' counters to tasks and
-- sessions, and writes events, notifications and webhook deliveries. The caller frees the slots, or
-- fills them again, and settles. One statement, because its parts do not depend on each other's
-- writes. Needs the sessions' locks and then the slots' locks, the fence.
--
-- The arrays are parallel, and p_places are the places in them that count (null: all). Most
-- attempts end with only a result. Everything else is in details: summary, failure, error,
-- partial_result, waiting_for, delay_s, and for a lost attempt failures, the new count. The loss of
-- an attempt that ends its task is two events.
--
-- now() is the start of the transaction, which may be before the claim; and the clock may have been
-- set back since the task was created or started. So finished_at is the latest of these times.
create function write_ends_1(
    p_places integer[], p_tasks uuid[], p_slots integer[], p_outcomes text[], p_results text[], p_details jsonb[]
) returns void language plpgsql as $$
declare
    to_deliver uuid[]; ends text[];
begin
    with given as materialized (
        select * from given_ends_1(p_places, p_tasks, p_slots, p_outcomes, p_results, p_details)
    ), recorded as (
        insert into attempt (task, attempt, session, worker, lease, outcome, turns, claimed_at, ended_at)
        select
            g.task, g.attempt, g.session, g.worker, g.lease, g.outcome, g.answers - g.answers_at_claim, g.claimed_at,
            greatest(now(), g.claimed_at)
        from given g where g.lease is not null
    ), ended as (
        update task t
        set state = g.state, waiting_for = g.detail ->> 'waiting_for',
            not_before = now() + (g.detail ->> 'delay_s')::double precision * interval '1 second',
            failure = g.detail ->> 'failure', error = g.detail ->> 'error', result = g.result, summary = g.detail ->> 'summary',
            partial_result = partial_result_1(g.state, g.detail, coalesce(g.answers, t.answers), t.id, t.created_at),
            finished_at = case when g.state not in ('queued', 'waiting') then greatest(now(), t.created_at, t.started_at, g.claimed_at) end,
            attempt = coalesce(g.attempt, t.attempt),
            failures = coalesce((g.detail ->> 'failures')::smallint, case when g.answers > g.answers_at_claim then 0 else t.failures end),
            started_at = coalesce(t.started_at, g.claimed_at),
            answers = coalesce(g.answers, t.answers), turns_used = coalesce(g.turns_used, t.turns_used),
            input_tokens = coalesce(g.input_tokens, t.input_tokens), output_tokens = coalesce(g.output_tokens, t.output_tokens),
            cost_nanousd = coalesce(g.cost_nanousd, t.cost_nanousd),
            running_ms = t.running_ms + coalesce(g.ran_ms, 0)
        from given g
        where t.id = g.task
        returning
            t.id, t.session, t.parent, t.state::text as state, t.webhook is not null as has_webhook,
            t.agent, coalesce(t.model, '') as model, coalesce(t.failure::text, '') as failure, t.finished_at,
            case g.attempt when 1 then greatest(0, date_part('epoch', t.started_at - t.created_at) * 1000)::bigint end as queued_ms,
            g.outcome, g.lease, g.ran_ms, g.was_waiting, g.new_turns, g.new_input_tokens, g.new_output_tokens, g.new_cost_nanousd
    ), notified as (
        insert into notification (task, session, state)
        select e.id, e.session, e.state from ended e where e.parent is null and e.state in ('completed', 'failed')
    ), numbered as (
        update session s
        set next_event = s.next_event + c.events, input_tokens = s.input_tokens + c.input_tokens,
            output_tokens = s.output_tokens + c.output_tokens, cost_nanousd = s.cost_nanousd + c.cost_nanousd
        from (
            select
                g.session, count(*) + count(*) filter (where g.outcome = 'lost' and g.state = 'failed') as events,
                coalesce(sum(g.new_input_tokens), 0) as input_tokens,
                coalesce(sum(g.new_output_tokens), 0) as output_tokens,
                coalesce(sum(g.new_cost_nanousd), 0) as cost_nanousd
            from given g group by g.session
        ) c
        where s.id = c.session
        returning s.id, s.tenant, s.next_event - c.events as first, s.webhook is not null as has_webhook
    ), counted as (
        insert into usage_delta (tenant, agent, model, outcome, failure, tasks, roots, waiting, attempts,
            turns, input_tokens, output_tokens, cost_nanousd, running_ms, queued_ms)
        select
            s.tenant, e.agent, e.model, e.outcome, e.failure, count(e.finished_at), -count(e.finished_at) filter (where e.parent is null),
            count(*) filter (where e.state = 'waiting') - count(*) filter (where e.was_waiting), count(e.lease),
            coalesce(sum(e.new_turns), 0), coalesce(sum(e.new_input_tokens), 0), coalesce(sum(e.new_output_tokens), 0),
            coalesce(sum(e.new_cost_nanousd), 0), coalesce(sum(e.ran_ms), 0), coalesce(sum(e.queued_ms), 0)
        from ended e join numbered s on s.id = e.session group by 1, 2, 3, 4, 5
    ), emitted as (
        insert into event (session, seq, task, kind, attempt, started_at, budget)
        select
            g.session, s.first - 1 + row_number() over (partition by g.session order by k.kind in ('completed', 'failed'), g.place),
            g.task, case when g.detail ? 'budget' then 'paused' else k.kind end, g.attempt,
            case when k.kind = g.outcome and g.announced is distinct from g.lease then g.claimed_at end, g.detail -> 'budget'
        from given g join numbered s on s.id = g.session
        cross join lateral (select g.outcome union all select 'failed' where g.outcome = 'lost' and g.state = 'failed') k (kind)
    )
    select array_agg(e.id), array_agg(e.state) into to_deliver, ends
    from ended e
    where e.state not in ('queued', 'waiting')
        and (e.has_webhook or e.session = any(array(select s.id from numbered s where s.has_webhook)));
    if to_deliver is not null then
        perform create_deliveries_1(to_deliver, ends);
    end if;
end $$;
