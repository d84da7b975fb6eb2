-- sweep: takes the tasks of dead workers back. Only a worker that has itself renewed twice in a row
-- may sweep: after an outage of the database every lease looks expired. A lost attempt counts as a
-- failure unless it added a turn. A task that has used up its failures, or whose agent must not be
-- resumed, ends.
create function sweep_1(p_worker uuid, p_grace interval) returns table (task uuid, ended boolean) language plpgsql as $$
#variable_conflict use_column
declare
    candidates uuid[];
    held integer[];
    sessions bigint[];
    details jsonb[];
    swept uuid[];
    failed uuid[];
begin
    perform from worker
    where id = p_worker and stopped_at is null and renewals >= 2 and renewed_at >= now() - lease;
    if not found then
        return;
    end if;
    -- One sweep at a time is enough; others would only wait for its sessions.
    if not pg_try_advisory_xact_lock(hashtext('adjutant sweep')) then
        return;
    end if;
    select array_agg(x.lease), array_agg(distinct x.session)
    into candidates, sessions
    from slot x
    where x.expires_at < now() - p_grace;
    if candidates is null then
        return;
    end if;
    -- The leases of a session that another transaction holds are left for the next sweep.
    sessions := lock_free_sessions_1(sessions);
    -- A lease may have been renewed since it was read.
    held := array(
        select x.n
        from slot x
        where x.lease = any(candidates) and x.expires_at < now() - p_grace and x.session = any(sessions)
        order by x.n
        for update
    );
    select
        coalesce(array_agg(t.id order by x.n), '{}'),
        array_agg(jsonb_build_object(
            'failures', count.failures,
            'failure', case when over.ended then 'lost' end,
            'error', case
                when over.ended and t.on_worker_loss = 'fail' then 'The worker was lost, and the agent is not to be resumed'
                when over.ended then format('The worker was lost %s times in a row without progress', count.failures)
            end
        ) order by x.n)
    into swept, details
    from slot x
    join task t on t.id = x.task
    cross join lateral (
        select case when x.answers > x.answers_at_claim then 0 else t.failures + 1 end::smallint as failures
    ) count
    cross join lateral (
        select t.on_worker_loss = 'fail' or count.failures >= t.max_failures as ended
    ) over
    where x.n = any(held);
    perform write_ends_1(null, swept, held, array_fill('lost'::text, array[cardinality(held)]), null, details);
    perform free_slots_1(held);
    failed := array(select t.id from task t where t.id = any(swept) and t.state = 'failed' order by t.id);
    perform settle_and_admit_1(sessions, failed, '{}');
    return query select t.id, t.finished_at is not null from task t where t.id = any(swept) order by t.id;
end $$;
select plan_by_index('sweep_1');
