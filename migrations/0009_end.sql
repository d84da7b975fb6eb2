-- complete, fail, release, wait: how a worker ends attempts, many at a time. The answer names those whose lease was lost;
-- for them nothing was written. Ending the same attempt twice is one end: a worker that lost its connection before it
-- heard the answer asks again.
--
-- Tasks of one session end on many workers at once. With p_wait false, what another end is busy with is left for later and
-- named busy, unless there is nothing else to do: or ends of many would all wait for each other.
create function end_1(p_ends jsonb, p_wait boolean default true)
returns table (task uuid, what text) language plpgsql as $$
#variable_conflict use_column
declare
    sessions bigint[];
    free bigint[];
    ends attempt_end[];
    tasks uuid[];
    outcomes text[];
    ended uuid[];
    parked uuid[];
begin
    -- A peek, not a lock: sessions come first in the lock order.
    sessions := array(
        select distinct x.session
        from jsonb_to_recordset(p_ends) e (slot integer, task uuid, lease uuid)
        join slot x on x.n = e.slot and x.task = e.task and x.lease = e.lease
    );
    if not p_wait then
        free := array(select id from session where id = any(sessions) order by id for no key update skip locked);
        if cardinality(free) > 0 then
            sessions := free;
        end if;
    end if;
    perform lock_sessions_1(sessions);
    -- The fence: the newest version of the row, and no other end until ours commits.
    ends := array(
        select row(
            x, e.outcome, case e.outcome when 'released' then 'queued' else e.outcome end, e.waiting_for,
            now() + e.delay_s * interval '1 second', e.failure, e.error, e.result, e.summary,
            case when e.outcome = 'failed' and x.answers > 0
                then coalesce(e.partial_result, (select last_text_1(t.id, t.created_at) from task t where t.id = x.task))
                else e.partial_result end,
            case when x.answers > x.answers_at_claim then 0 end
        )::attempt_end
        from jsonb_to_recordset(p_ends) e (
            slot integer, task uuid, lease uuid, outcome text, waiting_for text, delay_s double precision,
            failure text, error text, result text, summary text, partial_result text
        )
        join slot x on x.n = e.slot and x.task = e.task and x.lease = e.lease
        where x.session = any(sessions)
        order by x.n
        for update of x
    );
    if cardinality(ends) < jsonb_array_length(p_ends) then
        return query
        select e.task, case
            when exists (
                select
                from slot x
                where x.n = e.slot and x.task = e.task and x.lease = e.lease and x.session <> all(sessions)
            ) then 'busy'
            else 'lost'
        end
        from jsonb_to_recordset(p_ends) e (slot integer, task uuid, lease uuid, outcome text)
        where not exists (
                select from unnest(ends) h cross join lateral (select (h.held).*) x
                where x.task = e.task and x.lease = e.lease
            )
            and not exists (
                select from attempt a where a.task = e.task and a.lease = e.lease and a.outcome = e.outcome
            );
    end if;
    if cardinality(ends) = 0 then
        return;
    end if;

    select
        array_agg((e.held).task order by e.state in ('completed', 'failed'), e.ordinality),
        array_agg(e.outcome order by e.state in ('completed', 'failed'), e.ordinality),
        coalesce(array_agg((e.held).task) filter (where e.state in ('completed', 'failed')), '{}'),
        coalesce(array_agg((e.held).task) filter (where e.state = 'waiting'), '{}')
    into tasks, outcomes, ended, parked
    from unnest(ends) with ordinality e;
    if cardinality(parked) > 0 then
        insert into awaited (task, on_task, kind)
        select e.task, c.id, 'child'
        from jsonb_to_recordset(p_ends) e (task uuid, lease uuid, children uuid[])
        join unnest(ends) h on (h.held).lease = e.lease and h.state = 'waiting'
        join task c on c.id = any(e.children) and c.parent = e.task;
    end if;
    perform end_attempts_1(ends);
    perform emit_1(tasks, outcomes);
    perform follow_up_1(sessions, ended, parked);
end $$;

select plan_by_index('end_1');
