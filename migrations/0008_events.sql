-- Events that are not ends or spawns. The session's lock numbers them without a gap.

-- Writes "resumed" events of tasks, in the given order. Needs the sessions' locks.
create function record_resumed_1(p_tasks uuid[]) returns void language plpgsql as $$
begin
    with given as (
        select t.session, t.id, row_number() over (partition by t.session order by e.place) as k
        from unnest(p_tasks) with ordinality e (task, place)
        join task t on t.id = e.task
    ), numbered as (
        update session s
        set next_event = s.next_event + c.events
        from (select session, count(*) as events from given group by session) c
        where s.id = c.session
        returning s.id, s.tenant, s.next_event - c.events as first
    ), counted as (
        insert into usage_delta (tenant, waiting)
        select n.tenant, -count(*) from given g join numbered n on n.id = g.session group by n.tenant
    )
    insert into event (session, seq, task, kind)
    select given.session, numbered.first + given.k - 1, given.id, 'resumed'
    from given
    join numbered on numbered.id = given.session;
end $$;

-- Writes the next event of a running task. The first one of an attempt records its start too: a
-- second call needs the slot as the first one left it. Needs the session's lock and the slot's.
create function record_event_1(
    held slot, p_kind text, p_turn integer, p_tool text, p_is_error boolean, p_detail text default null,
    p_budget jsonb default null
) returns void language plpgsql as $$
begin
    with numbered as (
        update session set next_event = next_event + 1 where id = held.session returning next_event - 1 as seq
    )
    insert into event (session, seq, task, kind, attempt, started_at, turn, tool, is_error, detail, budget)
    select
        held.session, numbered.seq, held.task, p_kind, held.attempt,
        case when held.announced is distinct from held.lease then held.claimed_at end, p_turn, p_tool, p_is_error, p_detail,
        p_budget
    from numbered;
    if held.announced is distinct from held.lease then
        update slot set announced = lease where n = held.n;
    end if;
end $$;

-- Writes "started" events. A claim takes no session lock and writes no event, so starts are
-- recorded later: by this function, if the attempt still runs a while after its claim, or else by
-- the first event of the attempt, whose started_at readers show as an event of its own. So a task
-- that ends at once costs no additional row or commit.
--
-- The answer names the leases whose starts are recorded. It never waits: sessions and slots that
-- are locked are skipped and tried again later. It is durable, as all events are: an event number
-- that a reader has seen is never used again.
create function record_starts_1(p_slots integer[], p_tasks uuid[], p_leases uuid[]) returns uuid[] language plpgsql as $$
declare
    sessions bigint[];
    held integer[];
    recorded uuid[];
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
    select coalesce(array_agg(x.lease), '{}') into recorded from slot x where x.n = any(held);
    return recorded;
end $$;
select plan_by_index('record_starts_1');
