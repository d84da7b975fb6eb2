-- complete, fail, release, wait: how a worker ends attempts, many at a time. The arrays are parallel; end_attempts_1 says
-- what is in details, and children is what a waiting task waits for. The answer names those whose lease was lost; for them
-- nothing was written, and whether there are webhooks to be told. Ending the same attempt twice is one end: a worker that lost
-- its connection before it heard the answer asks again.
--
-- Tasks of one session end on many workers at once. With p_wait false, what another end is busy with is left for later and
-- named busy, unless there is nothing else to do: or ends of many would all wait for each other. With p_keep, the slots that
-- are still open are not freed but kept, for the caller to fill again.
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
    -- Peeks, not locks, at the slots: sessions come first in the lock order.
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
    -- The fence: the newest version of the row, and no other end until ours commits.
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
    perform free_1(freed);
    perform follow_up_1(sessions, ended, parked);
    delivers := delivers_1();
end $$;

select plan_by_index('end_1');
