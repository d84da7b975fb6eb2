-- Waking and admission: which tasks enter the queue, and when.

-- Admits tasks to the queue, as many as each session's window has room for. Spawned, woken,
-- released and swept tasks all enter here. Tasks in p_left have ended, though their slots may not
-- be free yet. Needs the sessions' locks.
create function admit_1(p_sessions bigint[], p_left uuid[] default '{}') returns void language plpgsql as $$
begin
    insert into queue (task, session, tenant, pool, priority, needs, entry)
    select
        next.id, next.session, next.tenant, next.pool, next.priority, next.needs,
        nextval('queue_entry') - case when next.attempt > 0 then 1::bigint << 62 else 0 end
    from (
        select outside.*, s.tenant
        from unnest(p_sessions) given (id)
        join session s on s.id = given.id
        -- One snapshot for both tables: a claim may move rows from one to the other at any time.
        left join (
            select x.session, array_agg(x.task) as tasks
            from slot x
            where x.session = any(p_sessions) and x.task <> all(p_left) and x.n > 0
            group by x.session
        ) running on running.session = s.id
        cross join lateral (
            select array(select q.task from queue q where q.session = s.id) || coalesce(running.tasks, '{}') as tasks
            offset 0
        ) hot
        cross join lateral (
            select t.id, t.session, t.pool, t.priority, t.needs, t.attempt, t.number
            from task t
            where t.session = s.id and t.state = 'queued' and t.not_before is null and t.id <> all(hot.tasks)
            order by (t.attempt = 0), t.number
            limit greatest(0, s.max_active - cardinality(hot.tasks))
        ) outside
        order by outside.session, (outside.attempt = 0), outside.number
        -- OFFSET 0 keeps the sort before nextval.
        offset 0
    ) next;
end $$;

-- Re-examines waiting tasks after a change: tasks with a broken dependency fail, and their
-- dependants with them; tasks with nothing left to wait for wake. It decides from the rows, never
-- from which end came last: of two concurrent ends each may assume that the other is still to come.
-- Needs the sessions' locks.
create function settle_1(p_waiting uuid[]) returns void language plpgsql as $$
declare
    waiting uuid[] := p_waiting;
    doomed uuid[];
    reasons jsonb[];
    woken uuid[];
begin
    while cardinality(waiting) > 0 loop
        select
            coalesce(array_agg(t.id order by t.number), '{}'),
            array_agg(jsonb_build_object(
                'failure', 'dependency', 'error', format('Dependency %s %s', task_name(broken.number), broken.state)
            ) order by t.number)
        into doomed, reasons
        from task t
        cross join lateral (
            select d.number, d.state
            from awaited a
            join task d on d.id = a.on_task
            where a.task = t.id and a.kind = 'dependency' and d.state in ('failed', 'cancelled')
            order by d.number
            limit 1
        ) broken
        where t.id = any(waiting) and t.state = 'waiting' and t.waiting_for = 'dependencies';

        with woke as (
            update task t
            set state = 'queued', waiting_for = null,
                -- A delay outlasts dependencies. The time limit of a wait ends with the wait.
                not_before = case t.waiting_for when 'dependencies' then t.not_before end
            where t.id = any(waiting) and t.id <> all(doomed) and t.state = 'waiting'
                and case t.waiting_for
                    when 'dependencies' then not exists (
                        select from awaited a join task d on d.id = a.on_task
                        where a.task = t.id and a.kind = 'dependency' and d.state <> 'completed'
                    )
                    when 'all_children' then not exists (
                        select from awaited a join task c on c.id = a.on_task
                        where a.task = t.id and a.kind = 'child' and c.finished_at is null
                    )
                    when 'any_child' then not exists (
                        select from awaited a where a.task = t.id and a.kind = 'child'
                    ) or exists (
                        select from awaited a join task c on c.id = a.on_task
                        where a.task = t.id and a.kind = 'child' and c.finished_at is not null
                    )
                    when 'budget' then used_up_budget_1(t.id) is null
                end
            returning t.id, t.number
        )
        select coalesce(array_agg(id order by number), '{}') into woken from woke;
        if cardinality(woken) > 0 then
            delete from awaited where task = any(woken) and kind = 'child';
            perform record_resumed_1(woken);
        end if;
        exit when cardinality(doomed) = 0;
        perform write_ends_1(null, doomed, null, array_fill('failed'::text, array[cardinality(doomed)]), null, reasons);
        waiting := array(select distinct task from awaited where on_task = any(doomed));
    end loop;
end $$;

-- After tasks have ended or begun to wait: settles the tasks that waited for them and those that
-- have begun to wait, then admits the sessions' next tasks. Needs the sessions' locks.
create function settle_and_admit_1(p_sessions bigint[], p_ended uuid[], p_parked uuid[]) returns void language plpgsql as $$
begin
    perform settle_1(array(select distinct task from awaited where on_task = any(p_ended)) || p_parked);
    perform admit_1(p_sessions, p_ended);
end $$;

-- Ends delays and timed waits for children whose time has come. The tasks enter the queue when
-- their session has room. It never waits: the tasks of a session that another transaction holds
-- stay due. Tasks of deleted sessions only lose their delay: they never run.
create function admit_due_1(p_limit integer) returns integer language plpgsql as $$
declare
    due uuid[];
    sessions bigint[];
    busy bigint[] := '{}';
    woken uuid[];
begin
    loop
        select array_agg(t.id), array_agg(distinct t.session)
        into due, sessions
        from (
            select id, session
            from task
            where not_before <= now() and finished_at is null and session <> all(busy)
            order by not_before
            limit p_limit
        ) t;
        if due is null then
            return 0;
        end if;
        perform undelay_deleted_1(due);
        busy := busy || sessions;
        sessions := lock_free_sessions_1(sessions);
        -- Others may be due behind the tasks of sessions that are busy.
        exit when cardinality(sessions) > 0;
    end loop;
    with woke as (
        update task
        set state = 'queued', waiting_for = null, not_before = null
        where id = any(due) and session = any(sessions) and not_before <= now() and waiting_for in ('all_children', 'any_child')
        returning id, session, number
    )
    select array_agg(id order by session, number) into woken from woke;
    if woken is not null then
        delete from awaited where task = any(woken) and kind = 'child';
        perform record_resumed_1(woken);
    end if;
    update task
    set not_before = null
    where id = any(due) and session = any(sessions) and not_before <= now() and finished_at is null;
    perform resume_from_1(t.session, null, t.number)
    from task t
    where t.id = any(due) and t.session = any(sessions) and t.waiting_for = 'budget';
    perform admit_1(sessions);
    return cardinality(due);
end $$;
select plan_by_index('admit_due_1');

-- Takes the delays from tasks whose session is deleted, so that they are not due again and again.
create function undelay_deleted_1(p_tasks uuid[]) returns void language plpgsql as $$
begin
    update task
    set not_before = null
    where id in (
        select t.id
        from task t
        where t.id = any(p_tasks) and not exists (select from session s where s.id = t.session)
        for update skip locked
    );
end $$;
select plan_by_index('undelay_deleted_1');
