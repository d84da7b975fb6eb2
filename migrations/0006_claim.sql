-- claim: as many tasks as there are free slots, in the order of the queue. It locks rows of slot and queue only, skips
-- what others have locked, and so never waits; it writes no task. FOR UPDATE re-reads the newest version of each row,
-- so two claims never get one slot, and a slot that was closed meanwhile is not taken.
--
-- After a shrink, tasks may still run in closed slots. Each of them keeps one open slot empty, or the fleet would run
-- more than the cap: a claim locks that many free slots besides those it fills.
--
-- p_kept are open slots whose tasks have just ended, locked by the caller: they are filled first, and those that are not are
-- freed.
create function claim_1(p_worker uuid, p_want integer, p_kept integer[] default '{}')
returns table (
    slot integer, task uuid, lease uuid, session bigint, number integer, attempt integer, answers integer, running_ms bigint,
    parent uuid, root uuid, depth smallint, agent text, config jsonb, assignment text, traceparent text,
    created_at timestamptz
) language plpgsql as $$
#variable_conflict use_column
declare
    free integer;
    closing integer;
    slots integer[] := p_kept;
    tasks uuid[];
    places tid[];
begin
    perform commit_lazily_1();
    -- A peek: who finds no free slots leaves the queue alone.
    select
        count(*) filter (where slot.task is null and open),
        count(*) filter (where not open and slot.task is not null)
    into free, closing
    from slot;
    select coalesce(array_agg(first.task), '{}'), array_agg(first.ctid) into tasks, places
    from (
        select queue.task, queue.ctid
        from queue
        where pool = (select worker.pool from worker where id = p_worker and stopped_at is null)
        order by priority desc, entry
        limit least(p_want, cardinality(p_kept) + free)
        for update skip locked
    ) first;
    if cardinality(tasks) = 0 and not exists (select from worker where id = p_worker and stopped_at is null) then
        raise exception 'worker % is not registered, or has stopped', p_worker;
    end if;
    -- Only as many slots as there is work: a claim that locks more hides them from the others.
    if cardinality(tasks) > 0 and cardinality(tasks) + closing > cardinality(p_kept) then
        slots := p_kept || array(
            select n
            from slot
            where slot.task is null and open
            order by n
            limit cardinality(tasks) + closing - cardinality(p_kept)
            for update skip locked
        );
        -- Counted again now that locks are held: a shrink takes them all, so it has committed or it waits for us.
        select count(*) into closing from slot where not open and slot.task is not null;
    end if;
    slots := slots[closing + 1:closing + cardinality(tasks)];
    -- Others were faster with some of the slots: what is left over stays in the queue.
    tasks := tasks[:cardinality(slots)];
    if closing > 0 or cardinality(tasks) < cardinality(p_kept) then
        perform free_1(array(select kept.n from unnest(p_kept) kept (n) where kept.n <> all(slots)));
    end if;
    if cardinality(tasks) = 0 then
        return;
    end if;
    return query
    -- They are locked, so they stay where they are.
    with gone as (
        delete from queue where ctid = any(places[:cardinality(tasks)])
    ), filled as (
        update slot x
        set task = t.id, lease = gen_random_uuid(), session = t.session, worker = p_worker, attempt = t.attempt + 1,
            claimed_at = now(), expires_at = now() + w.lease, active_at = now(),
            answers_at_claim = t.answers, answers = t.answers, turns_used = t.turns_used,
            input_tokens = t.input_tokens, output_tokens = t.output_tokens, cost_nanousd = t.cost_nanousd
        from unnest(slots, tasks) with ordinality c (n, task, place)
        join task t on t.id = c.task
        cross join worker w
        where x.n = c.n and w.id = p_worker
        returning
            c.place, x.n, t.id, x.lease, t.session, t.number, x.attempt, t.answers, t.running_ms,
            t.parent, t.root, t.depth, t.agent, t.config, t.assignment, t.traceparent, t.created_at
    )
    select
        f.n, f.id, f.lease, f.session, f.number, f.attempt, f.answers, f.running_ms,
        f.parent, f.root, f.depth, f.agent, f.config, f.assignment, f.traceparent, f.created_at
    from filled f
    order by f.place;
end $$;

select plan_by_index('claim_1');
