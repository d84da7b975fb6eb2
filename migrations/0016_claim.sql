-- What workers do to get and keep work: claim, renew, poll.

-- Locks the first queued tasks of each of these tenants, as many as the counts say, as far as they
-- are not locked, the worker can run them and the tenant's cap allows. p_taken are tasks that the
-- same claim has locked already, which SKIP LOCKED does not skip. The answer has the first task of
-- each, then the second of each: its end may have to be left, if other claims took the slots.
create function lock_queued_1(
    p_pool text, p_can integer[], p_tenants text[], p_counts integer[], p_kept integer[], p_taken uuid[],
    out tasks uuid[], out places tid[], out tenants text[]
) language plpgsql as $$
#variable_conflict use_column
declare
    counts integer[] := p_counts;
begin
    for i in 1..cardinality(counts) loop
        if counts[i] > 0 then
            counts[i] := within_cap_1(p_tenants[i], counts[i], p_kept);
        end if;
    end loop;
    -- The rows of one tenant come in order.
    if cardinality(p_tenants) = 1 then
        select coalesce(array_agg(first.task), '{}'), array_agg(first.ctid) into tasks, places
        from (
            select queue.task, queue.ctid
            from queue
            where pool = p_pool and tenant = p_tenants[1] and (needs is null or needs = any(p_can)) and task <> all(p_taken)
            order by priority desc, entry
            limit counts[1]
            for update skip locked
        ) first;
        tenants := array_fill(p_tenants[1], array[cardinality(tasks)]);
        return;
    end if;
    select
        coalesce(array_agg(r.task order by r.nth, r.place), '{}'), array_agg(r.at order by r.nth, r.place),
        coalesce(array_agg(r.tenant order by r.nth, r.place), '{}')
    into tasks, places, tenants
    from (
        select e.tenant, e.place, f.task, f.at, row_number() over (partition by e.place order by f.priority desc, f.entry) as nth
        from unnest(p_tenants, counts) with ordinality e (tenant, slots, place)
        cross join lateral (
            select queue.task, queue.ctid as at, priority, entry
            from queue
            where pool = p_pool and tenant = e.tenant and (needs is null or needs = any(p_can)) and task <> all(p_taken)
            order by priority desc, entry
            limit e.slots
            for update skip locked
        ) f
    ) r;
end $$;

-- Locks these first tasks of tenants without caps, as far as they are not locked. Their places were
-- read before, and other rows may be there by now.
create function lock_first_1(
    p_pool text, p_can integer[], p_tenants text[], p_places tid[],
    out tasks uuid[], out places tid[], out tenants text[]
) language plpgsql as $$
#variable_conflict use_column
begin
    select
        coalesce(array_agg(first.task order by first.place), '{}'), array_agg(first.at order by first.place),
        coalesce(array_agg(first.tenant order by first.place), '{}')
    into tasks, places, tenants
    from (
        select q.*, q.ctid as at, array_position(p_places, q.ctid) as place
        from queue q
        where q.ctid = any(p_places)
        -- OFFSET 0 keeps the other conditions out, for which a plan could read an index instead.
        offset 0
        for update skip locked
    ) first
    where pool = p_pool and tenant = p_tenants[first.place] and (needs is null or needs = any(p_can));
end $$;

-- Chooses queued tasks of several tenants for a claim, and locks their rows. p_known are the
-- tenants that hold slots, or did last, with their weights and the number of slots. newest is the
-- tenant behind which the next choice begins. Mostly as many tenants are due as tasks are wanted:
-- then each gives its first task.
create function choose_tasks_1(
    p_pool text, p_can integer[], p_want integer, p_after text, p_known text[], p_weights integer[], p_held integer[], p_kept integer[],
    out tasks uuid[], out places tid[], out tenants text[], out weights integer[], out newest text
) language plpgsql as $$
declare
    after text := coalesce(p_after, '');
    want integer := p_want;
    due record;
    is_first boolean := true;
    is_one_each boolean;
    counts integer[];
    taken record;
    done text[] := '{}';
    given integer;
    known integer;
begin
    tasks := '{}';
    while want > 0 loop
        due := due_tenants_1(p_pool, p_can, after, want, done, p_known, p_weights, p_held);
        exit when cardinality(due.tenants) = 0;
        is_one_each := due.is_one_each and is_first;
        is_first := false;
        if is_one_each then
            taken := lock_first_1(p_pool, p_can, due.tenants, due.places);
        else
            counts := case cardinality(due.tenants)
                when 1 then array[least(want, due.room[1])]
                else (share_out_1(due.weights, due.held, due.room, want)).counts
            end;
            taken := lock_queued_1(p_pool, p_can, due.tenants, counts, p_kept, tasks);
        end if;
        if cardinality(taken.tasks) = p_want and (is_one_each or cardinality(due.tenants) = 1) then
            tasks := taken.tasks;
            places := taken.places;
            tenants := taken.tenants;
            weights := array_fill(due.weights[1], array[p_want]);
            newest := tenants[p_want];
            return;
        end if;
        for i in 1..cardinality(due.tenants) loop
            given := cardinality(array_positions(taken.tenants, due.tenants[i]));
            known := coalesce(array_position(p_known, due.tenants[i]), cardinality(p_known) + 1);
            p_known[known] := due.tenants[i];
            p_weights[known] := due.weights[i];
            p_held[known] := due.held[i] + given;
            -- Behind a locked first task others may be free.
            if not is_one_each and given < counts[i] then
                done := done || due.tenants[i];
            end if;
            if given > 0 then
                newest := due.tenants[i];
            end if;
        end loop;
        tasks := tasks || taken.tasks;
        places := places || taken.places;
        tenants := tenants || taken.tenants;
        want := want - cardinality(taken.tasks);
        after := due.tenants[cardinality(due.tenants)];
    end loop;
    weights := array(
        select p_weights[array_position(p_known, e.tenant)]
        from unnest(tenants) with ordinality e (tenant, place)
        order by e.place
    );
end $$;

-- Chooses and locks the tasks of a claim, as many as there are free slots for. closing is the
-- number of tasks in closed slots. Most fleets have one tenant and one pool, which the two ends of
-- the index show: then no more is read.
create function choose_1(
    p_pool text, p_can integer[], p_want integer, p_kept integer[],
    out tasks uuid[], out places tid[], out tenants text[], out weights integer[], out newest text, out turn bigint, out closing integer
) language plpgsql as $$
declare
    ends record;
    used record;
    taken record;
    free integer;
    want integer;
begin
    tasks := '{}';
    closing := 0;
    select f.pool as first_pool, f.tenant as first_tenant, l.pool as last_pool, l.tenant as last_tenant into ends
    from (select q.pool, q.tenant from queue q order by q.pool, q.tenant limit 1) f
    cross join (select q.pool, q.tenant from queue q order by q.pool desc, q.tenant desc limit 1) l;
    if not found or p_pool not between ends.first_pool and ends.last_pool then
        return;
    end if;
    if ends.first_pool = ends.last_pool and ends.first_tenant = ends.last_tenant then
        -- Without a lock: a claim that finds no free slot leaves the queue alone.
        select
            count(*) filter (where x.task is null and x.open),
            count(*) filter (where not x.open and x.task is not null)
        into free, closing
        from slot x;
        want := least(p_want, cardinality(p_kept) + free - closing);
        if want > 0 then
            taken := lock_queued_1(p_pool, p_can, array[ends.first_tenant], array[want], p_kept, '{}');
            tasks := taken.tasks;
            places := taken.places;
            tenants := taken.tenants;
        end if;
        return;
    end if;
    select
        coalesce(sum(u.free), 0) as free, coalesce(sum(u.closing), 0) as closing,
        array_agg(u.tenant) filter (where u.tenant is not null) as known,
        array_agg(u.weight) filter (where u.tenant is not null) as weights,
        array_agg(u.held) filter (where u.tenant is not null) as held,
        (array_agg(u.tenant order by u.own_turn desc nulls last, u.turn desc nulls last))[1] as newest,
        coalesce(max(u.turn), 0) + 1 as turn
    into used
    from (
        select
            x.tenant, max(x.weight) as weight,
            count(*) filter (where x.task is null and x.open)::integer as free,
            count(*) filter (where not x.open and x.task is not null)::integer as closing,
            count(*) filter (where x.task is not null and x.n <> all(p_kept))::integer as held,
            max(x.turn) filter (where x.pool = p_pool) as own_turn,
            max(x.turn) as turn
        from slot x
        group by x.tenant
    ) u;
    closing := used.closing;
    turn := used.turn;
    free := cardinality(p_kept) + used.free - closing;
    want := least(p_want, free);
    if want > 0 and ends.first_pool <> ends.last_pool then
        want := pool_share_1(p_pool, want, free, p_kept);
    end if;
    if want > 0 then
        taken := choose_tasks_1(
            p_pool, p_can, want, used.newest, coalesce(used.known, '{}'), coalesce(used.weights, '{}'), coalesce(used.held, '{}'),
            p_kept
        );
        tasks := taken.tasks;
        places := taken.places;
        tenants := taken.tenants;
        weights := taken.weights;
        newest := taken.newest;
    end if;
end $$;

-- Claims as many tasks as there are free slots. Tenants share the slots by their weights, and the
-- tasks of one tenant are claimed in the order of the queue. It locks rows of slot and queue only
-- and skips locked ones, so it never waits; it writes no task. FOR UPDATE re-reads the newest
-- version of each row, so two claims never get one slot, and a slot that was closed meanwhile is
-- not taken.
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
    w record;
    closing integer;
    slots integer[] := p_kept;
    chosen record;
    tasks uuid[];
begin
    perform commit_lazily_1();
    select pool, can, lease into w from worker where id = p_worker and stopped_at is null;
    if not found then
        raise exception 'worker % is not registered, or has stopped', p_worker;
    end if;
    chosen := choose_1(w.pool, w.can, p_want, p_kept);
    tasks := chosen.tasks;
    closing := chosen.closing;
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
        delete from queue where ctid = any(chosen.places[:cardinality(tasks)])
    ), filled as (
        update slot x
        set task = t.id, lease = gen_random_uuid(), session = t.session, worker = p_worker, attempt = t.attempt + 1,
            claimed_at = now(), expires_at = now() + w.lease, active_at = now(),
            answers_at_claim = t.answers, answers = t.answers, turns_used = t.turns_used,
            input_tokens = t.input_tokens, output_tokens = t.output_tokens, cost_nanousd = t.cost_nanousd, broken_calls = 0,
            tenant = c.tenant, weight = coalesce(c.weight, 1), pool = w.pool,
            turn = case c.tenant when chosen.newest then chosen.turn else x.turn end
        from unnest(slots, tasks, chosen.tenants, chosen.weights) with ordinality c (n, task, tenant, weight, place)
        join task t on t.id = c.task
        where x.n = c.n
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
    delivers boolean, deletes boolean, is_outdated boolean, lacks_tools boolean,
    lost uuid[], stray_slots integer[], stray_tasks uuid[], stray_leases uuid[]
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
        exists (select from queue q where q.pool = w.pool and (q.needs is null or q.needs = any(w.can))),
        coalesce(first_to_expire < now(), false),
        coalesce(first_due <= now(), false),
        extract(epoch from least(first_to_expire, first_due, next_delivery) - now())::double precision,
        array(select peer.id from living_worker peer where peer.pool = w.pool),
        exists (select from living_worker other where other.pool <> w.pool),
        exists (select from webhook_delivery d where d.state = 'pending' and d.next_try_at <= now()),
        exists (select from deleted_session),
        w.can <> requirements_of_1(w),
        exists (select from requirement r where r.id <> all(w.can) and not r.tools <@ w.tools)
            or exists (select from tool_shortage s where s.pool = w.pool),
        array(select l from unnest(p_leases) l where not exists (select from slot x where x.lease = l)),
        array(select x.n from slot x where x.worker = p_worker and x.lease <> all(p_leases) order by x.n),
        array(select x.task from slot x where x.worker = p_worker and x.lease <> all(p_leases) order by x.n),
        array(select x.lease from slot x where x.worker = p_worker and x.lease <> all(p_leases) order by x.n);
end $$;
