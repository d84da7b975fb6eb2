-- started: a claim takes no session's lock and writes no event, so a start is told later: by the worker, if the task still runs a
-- while after its claim, or else by the first event row of the attempt, which carries started_at and is shown as two. So a task
-- that ends at once costs no row and no commit more.
--
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

select plan_by_index('started_1');
