-- end: complete, fail, release and wait, many attempts at a time.

-- The attempts that were not ended: lost ones, and busy ones, whose session another transaction
-- holds. An attempt that an earlier call has ended in the same way is neither.
create function unwritten_ends_1(
    p_places integer[], p_sessions bigint[], p_slots integer[], p_tasks uuid[], p_leases uuid[], p_outcomes text[],
    out lost uuid[], out busy uuid[]
) language plpgsql as $$
#variable_conflict use_column
begin
    select
        array_agg(e.task) filter (where not e.is_held),
        array_agg(e.task) filter (where e.is_held)
    into lost, busy
    from (
        select e.task, exists (
            select
            from slot x
            where x.n = e.slot and x.task = e.task and x.lease = e.lease and x.session <> all(p_sessions)
        ) as is_held
        from unnest(p_slots, p_tasks, p_leases, p_outcomes) with ordinality e (slot, task, lease, outcome, place)
        where e.place <> all(p_places)
            and not exists (
                select from attempt a where a.task = e.task and a.lease = e.lease and a.outcome = e.outcome
            )
    ) e;
end $$;

-- Ends attempts of a worker. details.children is what a waiting task waits for. The answer names
-- the tasks whose lease was lost (nothing was written for them) and says whether deliveries were
-- written. Ending the same attempt twice has the effect of ending it once, so a worker that lost
-- its connection before the answer can repeat the call.
--
-- Tasks of one session end on many workers at once. With p_wait false, sessions that are locked by
-- others are skipped and their tasks named busy: otherwise large batches would all wait for each
-- other. If there is nothing else to do, it waits for a moment, but not for longer, because the
-- worker's next ends wait behind this call. With p_keep, slots that are still open are not freed
-- but kept, for the caller to fill.
create function end_1(
    p_slots integer[], p_tasks uuid[], p_leases uuid[], p_outcomes text[], p_results text[], p_details jsonb[],
    p_wait boolean, p_keep boolean default false,
    out lost uuid[], out busy uuid[], out delivers boolean, out kept integer[]
) language plpgsql as $$
#variable_conflict use_column
declare
    wanted bigint[];
    sessions bigint[];
    places integer[];
    freed integer[];
    ended uuid[] := p_tasks;
    parked uuid[] := '{}';
begin
    -- The slots are read without locks: sessions come first in the lock order.
    wanted := array(
        select x.session
        from unnest(p_slots, p_tasks, p_leases) e (slot, task, lease)
        join slot x on x.n = e.slot and x.task = e.task and x.lease = e.lease
    );
    if p_wait then
        sessions := lock_sessions_1(wanted);
    else
        sessions := lock_free_sessions_1(wanted);
        if sessions = '{}' and wanted <> '{}' then
            sessions := lock_sessions_soon_1(wanted);
        end if;
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
        select u.lost, u.busy into lost, busy
        from unwritten_ends_1(places, sessions, p_slots, p_tasks, p_leases, p_outcomes) u;
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
    perform write_ends_1(places, p_tasks, p_slots, p_outcomes, p_results, p_details);
    perform free_slots_1(freed);
    perform settle_and_admit_1(sessions, ended, parked);
    delivers := has_deliveries_1();
end $$;
select plan_by_index('end_1');

-- Ends attempts and claims the worker's next tasks in one transaction: one commit and one round
-- trip less between two tasks of a slot. p_free is how many more tasks than those the worker could
-- run.
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
    unwritten := end_1(p_slots, p_tasks, p_leases, p_outcomes, p_results, p_details, false, true);
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
