-- What workers do to get and keep work: claim, renew, poll.

-- Claims as many tasks as there are free slots, in the order of the queue. It locks rows of slot
-- and queue only and skips locked ones, so it never waits; it writes no task. FOR UPDATE re-reads
-- the newest version of each row, so two claims never get one slot, and a slot that was closed
-- meanwhile is not taken.
--
-- After the cap shrank, tasks may still run in closed slots. Each of them keeps one open slot
-- empty, or the fleet would run more than the cap: a claim locks that many free slots besides those
-- it fills.
--
-- p_kept are open slots whose tasks have just ended, locked by the caller: they are filled first,
-- and the rest of them is freed.
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
    -- Without a lock: a claim that finds no free slot leaves the queue alone.
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
    -- Only as many slots as there are tasks: a claim that locks more hides them from others.
    if cardinality(tasks) > 0 and cardinality(tasks) + closing > cardinality(p_kept) then
        slots := p_kept || array(
            select n
            from slot
            where slot.task is null and open
            order by n
            limit cardinality(tasks) + closing - cardinality(p_kept)
            for update skip locked
        );
        -- Counted again under the locks: a change of the cap takes them all, so it has committed,
        -- or it waits for this transaction.
        select count(*) into closing from slot where not open and slot.task is not null;
    end if;
    slots := slots[closing + 1:closing + cardinality(tasks)];
    -- Other claims may have taken some of the slots: the tasks left over stay in the queue.
    tasks := tasks[:cardinality(slots)];
    if closing > 0 or cardinality(tasks) < cardinality(p_kept) then
        perform free_slots_1(array(select kept.n from unnest(p_kept) kept (n) where kept.n <> all(slots)));
    end if;
    if cardinality(tasks) = 0 then
        return;
    end if;
    return query
    -- The rows are locked, so their ctids do not change.
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

-- Renews all leases of a worker. It skips locked rows (the worker's own checkpoint, which renews
-- too, an end, a change of the cap) and returns for each lease: renewed, lost, or held (but not
-- renewed).
create function renew_1(p_worker uuid, p_leases uuid[]) returns table (lease uuid, what text) language plpgsql as $$
#variable_conflict use_column
declare
    renewed uuid[];
begin
    perform commit_lazily_1();
    update worker
    set renewals = case when renewed_at >= now() - worker.lease then renewals + 1 else 1 end, renewed_at = now()
    where id = p_worker;
    if not found then
        raise exception 'worker % is not registered', p_worker;
    end if;
    with extended as (
        update slot
        set expires_at = renewed_until_1(expires_at, worker)
        where n in (
            select n
            from slot
            where worker = p_worker and slot.lease = any(p_leases)
            order by n
            for update skip locked
        )
        returning slot.lease
    )
    select array_agg(extended.lease) into renewed from extended;
    return query
    select l, case
        when l = any(renewed) then 'renewed'
        when exists (select from slot x where x.lease = l) then 'held'
        else 'lost'
    end
    from unnest(p_leases) l;
end $$;
select plan_by_index('renew_1');

-- A worker's poll, read-only: one query every few seconds that finds everything whose notice was
-- lost.
create function poll_1(p_worker uuid, p_leases uuid[], p_grace interval)
returns table (
    queued boolean, expired boolean, due boolean, next_s double precision, peers uuid[], other_pools boolean,
    delivers boolean, deletes boolean, lost uuid[], stray_slots integer[], stray_tasks uuid[], stray_leases uuid[]
) language plpgsql stable as $$
#variable_conflict use_column
declare
    w worker;
    -- Of other workers' leases; this worker renews its own.
    first_to_expire timestamptz;
    first_due timestamptz;
    next_delivery timestamptz;
begin
    select * into w from worker where id = p_worker;
    if not found then
        raise exception 'worker % is not registered', p_worker;
    end if;
    select min(x.expires_at) + p_grace into first_to_expire
    from slot x
    where x.worker <> p_worker;
    select min(t.not_before) into first_due
    from task t
    where t.not_before is not null and t.finished_at is null;
    -- Deliveries that are due are reported below; they need no further poll.
    select min(d.next_try_at) into next_delivery
    from webhook_delivery d
    where d.state = 'pending' and d.next_try_at > now();
    return query
    select
        exists (select from queue q where q.pool = w.pool),
        coalesce(first_to_expire < now(), false),
        coalesce(first_due <= now(), false),
        extract(epoch from least(first_to_expire, first_due, next_delivery) - now())::double precision,
        array(select peer.id from living_worker peer where peer.pool = w.pool),
        exists (select from living_worker other where other.pool <> w.pool),
        exists (select from webhook_delivery d where d.state = 'pending' and d.next_try_at <= now()),
        exists (select from deleted_session),
        array(select l from unnest(p_leases) l where not exists (select from slot x where x.lease = l)),
        array(select x.n from slot x where x.worker = p_worker and x.lease <> all(p_leases) order by x.n),
        array(select x.task from slot x where x.worker = p_worker and x.lease <> all(p_leases) order by x.n),
        array(select x.lease from slot x where x.worker = p_worker and x.lease <> all(p_leases) order by x.n);
end $$;
