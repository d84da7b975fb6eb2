-- complete, fail, release, wait: how a worker ends attempts, many at a time. The answer names those whose lease was lost;
-- for them nothing was written. Ending the same attempt twice is one end: a worker that lost its connection before it
-- heard the answer asks again.
create function end_1(p_ends jsonb) returns setof uuid language plpgsql as $$
declare
    sessions bigint[];
    held integer[];
    ends attempt_end[];
    ended uuid[];
    parked uuid[];
begin
    -- A peek, not a lock: sessions come first in the lock order.
    sessions := array(
        select distinct x.session
        from jsonb_to_recordset(p_ends) e (task uuid, lease uuid)
        join slot x on x.task = e.task and x.lease = e.lease
    );
    perform lock_sessions_1(sessions);
    -- The fence: the newest version of the row, and no other end until ours commits.
    held := array(
        select x.n
        from jsonb_to_recordset(p_ends) e (task uuid, lease uuid)
        join slot x on x.task = e.task and x.lease = e.lease
        order by x.n
        for update of x
    );
    ends := array(
        select row(
            x.n, e.outcome, case e.outcome when 'released' then 'queued' else e.outcome end, e.waiting_for,
            now() + e.delay_s * interval '1 second', e.failure, e.error, e.result, e.summary,
            case when e.outcome = 'failed' and x.turns_used > 0
                then coalesce(e.partial_result, last_text_1(t.id, t.created_at)) else e.partial_result end,
            case when x.turns_used > x.turns_at_claim then 0 end
        )::attempt_end
        from jsonb_to_recordset(p_ends) e (
            task uuid, lease uuid, outcome text, waiting_for text, delay_s double precision,
            failure text, error text, result text, summary text, partial_result text
        )
        join slot x on x.task = e.task and x.lease = e.lease and x.n = any(held)
        join task t on t.id = x.task
        order by x.n
    );
    ended := array(
        select x.task from unnest(ends) e join slot x on x.n = e.n where e.state in ('completed', 'failed')
    );
    parked := array(select x.task from unnest(ends) e join slot x on x.n = e.n where e.state = 'waiting');
    return query
    select e.task
    from jsonb_to_recordset(p_ends) e (task uuid, lease uuid, outcome text)
    where not exists (select from slot x where x.task = e.task and x.lease = e.lease and x.n = any(held))
        and not exists (
            select from attempt a where a.task = e.task and a.lease = e.lease and a.outcome = e.outcome
        );

    perform emit_1(array_agg(x.task order by x.n), array_agg(e.outcome order by x.n))
    from unnest(ends) e
    join slot x on x.n = e.n
    where e.state in ('queued', 'waiting');
    insert into awaited (task, on_task, kind)
    select x.task, c.id, 'child'
    from jsonb_to_recordset(p_ends) e (task uuid, lease uuid, outcome text, children uuid[])
    join slot x on x.task = e.task and x.lease = e.lease and x.n = any(held)
    join task c on c.id = any(e.children) and c.parent = e.task
    where e.outcome = 'waiting';
    perform end_attempts_1(ends);
    perform follow_up_1(sessions, ended, parked);
end $$;
