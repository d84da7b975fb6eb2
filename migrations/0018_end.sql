-- end: complete, fail, release and wait, many attempts at a time.

-- Ends attempts: records the attempt, moves the slot's counters to the task and its session, and writes
-- the events. The caller frees the slots, or fills them again. One statement, because its parts do not
-- depend on each other's writes. The arrays are parallel, and p_places are the places in them that
-- count (null: all). Needs the sessions' locks and then the slots' locks, the fence.
--
-- Most attempts end with only a result. Everything else is in details: summary, failure, error,
-- partial_result, waiting_for, delay_s, and for a lost attempt failures, the new count.
create function end_attempts_1(
    p_places integer[], p_slots integer[], p_outcomes text[], p_results text[], p_details jsonb[]
) returns void language plpgsql as $$
declare
    to_deliver uuid[];
    ends text[];
begin
    with given as materialized (
        select
            x.n, x.task, x.session, x.worker, x.lease, x.attempt, x.claimed_at, x.answers_at_claim, x.answers, x.turns_used,
            x.input_tokens, x.output_tokens, x.cost_nanousd, x.announced, e.outcome, e.result, e.detail, e.place,
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
            -- now() is the start of the transaction, which may be before the claim.
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
        returning t.id, t.session, t.parent, g.outcome, t.webhook is not null as has_webhook
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
            -- Only answers cost something; a null id is not looked up. This sees the task as it was before.
            left join task t on t.id = case when g.answers > g.answers_at_claim then g.task end
            group by g.session
        ) c
        where s.id = c.session
        returning s.id, s.next_event - c.events as first, s.webhook is not null as has_webhook
    ), emitted as (
        insert into event (session, seq, task, kind, attempt, started_at)
        select
            g.session,
            s.first - 1 + row_number() over (partition by g.session order by g.state in ('completed', 'failed'), g.place),
            g.task,
            g.outcome,
            g.attempt,
            case when g.announced is distinct from g.lease then g.claimed_at end
        from given g
        join numbered s on s.id = g.session
    )
    -- Ends with a webhook; usually none.
    select array_agg(e.id), array_agg(e.outcome) into to_deliver, ends
    from ended e
    where e.outcome in ('completed', 'failed', 'cancelled')
        and (e.has_webhook or e.session = any(array(select s.id from numbered s where s.has_webhook)));
    if to_deliver is not null then
        perform create_deliveries_1(to_deliver, ends);
    end if;
end $$;

-- Ends attempts of a worker. details.children is what a waiting task waits for. The answer names the
-- tasks whose lease was lost (nothing was written for them) and says whether deliveries were written.
-- Ending the same attempt twice has the effect of ending it once, so a worker that lost its connection
-- before the answer can repeat the call.
--
-- Tasks of one session end on many workers at once. With p_wait false, sessions that are locked by
-- others are skipped and their tasks named busy, unless there is nothing else to do: otherwise large
-- batches would all wait for each other. With p_keep, slots that are still open are not freed but
-- kept, for the caller to fill.
create function end_1(
    p_slots integer[], p_tasks uuid[], p_leases uuid[], p_outcomes text[], p_results text[], p_details jsonb[],
    p_wait boolean, p_keep boolean default false,
    out lost uuid[], out busy uuid[], out delivers boolean, out kept integer[]
) language plpgsql as $$
#variable_conflict use_column
declare
    sessions bigint[] := '{}';
    places integer[];
    freed integer[];
    ended uuid[] := p_tasks;
    parked uuid[] := '{}';
begin
    -- The slots are read without locks: sessions come first in the lock order.
    if not p_wait then
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
    end if;
    if cardinality(sessions) > 0 then
        perform commit_durably_1();
    else
        sessions := lock_sessions_1(array(
            select x.session
            from unnest(p_slots, p_tasks, p_leases) e (slot, task, lease)
            join slot x on x.n = e.slot and x.task = e.task and x.lease = e.lease
        ));
    end if;
    -- The fence: the newest version of the row, and no other end until this one commits.
    select
        coalesce(array_agg(held.place), '{}'),
        array_agg(held.n) filter (where not held.is_kept),
        coalesce(array_agg(held.n) filter (where held.is_kept), '{}')
    into places, freed, kept
    from (
        select e.place, x.n, p_keep and x.open as is_kept
        from unnest(p_slots, p_tasks, p_leases) with ordinality e (slot, task, lease, place)
        join slot x on x.n = e.slot and x.task = e.task and x.lease = e.lease
        where x.session = any(sessions)
        order by x.n
        for update of x
    ) held;
    if cardinality(places) < cardinality(p_slots) then
        select
            array_agg(e.task) filter (where not e.is_held),
            array_agg(e.task) filter (where e.is_held)
        into lost, busy
        from (
            select e.task, exists (
                select
                from slot x
                where x.n = e.slot and x.task = e.task and x.lease = e.lease and x.session <> all(sessions)
            ) as is_held
            from unnest(p_slots, p_tasks, p_leases, p_outcomes) with ordinality e (slot, task, lease, outcome, place)
            where e.place <> all(places)
                and not exists (
                    select from attempt a where a.task = e.task and a.lease = e.lease and a.outcome = e.outcome
                )
        ) e;
        ended := array(select e.task from unnest(p_tasks) with ordinality e (task, place) where e.place = any(places));
    end if;
    if cardinality(places) = 0 then
        return;
    end if;
    if 'waiting' = any(p_outcomes) then
        parked := array(
            select e.task
            from unnest(p_tasks, p_outcomes) with ordinality e (task, outcome, place)
            where e.outcome = 'waiting' and e.place = any(places)
        );
        insert into awaited (task, on_task, kind)
        select e.task, c.id, 'child'
        from unnest(p_tasks, p_details) e (task, detail)
        cross join lateral jsonb_array_elements_text(e.detail -> 'children') child (id)
        join task c on c.id = child.id::uuid and c.parent = e.task
        where e.task = any(parked);
    end if;
    perform end_attempts_1(places, p_slots, p_outcomes, p_results, p_details);
    perform free_slots_1(freed);
    perform settle_and_admit_1(sessions, ended, parked);
    delivers := has_deliveries_1();
end $$;
select plan_by_index('end_1');

-- Ends attempts and claims the worker's next tasks in one transaction: one commit and one round trip
-- less between two tasks of a slot. p_free is how many more tasks than those the worker could run.
create function end_and_claim_1(
    p_worker uuid, p_free integer,
    p_slots integer[], p_tasks uuid[], p_leases uuid[], p_outcomes text[], p_results text[], p_details jsonb[]
)
returns table (
    what text, slot integer, task uuid, lease uuid, session bigint, number integer, attempt integer, answers integer,
    running_ms bigint, parent uuid, root uuid, depth smallint, agent text, config jsonb, assignment text,
    traceparent text, created_at timestamptz
) language plpgsql as $$
#variable_conflict use_column
declare
    unwritten record;
    room integer := p_free + cardinality(p_slots);
begin
    select * into unwritten from end_1(p_slots, p_tasks, p_leases, p_outcomes, p_results, p_details, false, true);
    foreach task in array coalesce(unwritten.lost, '{}') loop
        what := 'lost';
        return next;
    end loop;
    foreach task in array coalesce(unwritten.busy, '{}') loop
        what := 'busy';
        room := room - 1;
        return next;
    end loop;
    if unwritten.delivers then
        what := 'delivers';
        task := p_tasks[1];
        return next;
    end if;
    -- This commits lazily, as a claim does, only if nothing was written: then nothing was ended.
    return query select 'claimed', c.* from claim_1(p_worker, room, unwritten.kept) c;
end $$;
select plan_by_index('end_and_claim_1');
