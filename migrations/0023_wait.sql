-- wait: one check of a client that waits for tasks to end. The client checks after every notice of
-- its session.

-- Takes the oldest unread notifications, a hundred at most: the next wait gets the others. The
-- session's lock gives each notification to one of many waiting clients, and keeps the lock order.
create function take_notifications_1(p_session bigint) returns uuid[] language plpgsql as $$
declare
    taken uuid[];
begin
    if not exists (select from notification where session = p_session and read_at is null) then
        return '{}';
    end if;
    perform lock_sessions_1(array[p_session]);
    with read as (
        update notification n
        set read_at = now()
        where n.session = p_session and n.task = any(array(
            select u.task from notification u
            where u.session = p_session and u.read_at is null
            order by u.created_at, u.task
            limit 100
        ))
        returning n.task
    )
    select coalesce(array_agg(r.task), '{}') into taken from read r;
    return taken;
end $$;

-- As take_notifications_1, for these tasks only (null: for all).
create function take_notifications_of_1(p_session bigint, p_numbers integer[]) returns uuid[] language plpgsql as $$
declare
    taken uuid[];
begin
    if p_numbers is null then
        return take_notifications_1(p_session);
    end if;
    perform lock_sessions_1(array[p_session]);
    with read as (
        update notification n
        set read_at = now()
        where n.session = p_session and n.read_at is null and n.task = any(array(
            select t.id from task t where t.session = p_session and t.number = any(p_numbers)
        ))
        returning n.task
    )
    select coalesce(array_agg(r.task), '{}') into taken from read r;
    return taken;
end $$;
select plan_by_index('take_notifications_of_1');

-- Marks the notifications of these tasks as read.
create function mark_read_1(p_session bigint, p_numbers integer[]) returns void language plpgsql as $$
begin
    perform lock_sessions_1(array[p_session]);
    update notification n
    set read_at = now()
    where n.session = p_session and n.read_at is null and n.task = any(array(
        select t.id from task t where t.session = p_session and t.number = any(p_numbers)
    ));
end $$;

-- With p_numbers, waits for those tasks. Without, for the session's active ones (p_active, as the
-- first check found them) and its unread notifications, which become read when they are returned. A
-- cancelled task has no notification, so it is found among p_active. If the condition is not met,
-- no task is returned, unless this is the last check.
create function wait_1(p_session bigint, p_numbers integer[], p_active integer[], p_all boolean, p_last boolean)
returns table (met boolean, active integer[], tasks jsonb) language plpgsql as $$
#variable_conflict use_column
declare
    missing integer;
    unfinished integer[];
    ended uuid[];
    taken uuid[] := '{}';
begin
    perform from session where id = p_session;
    if not found then
        perform refuse('SESSION_NOT_FOUND', 'Session not found');
    end if;
    if p_numbers is not null then
        select min(n) into missing
        from unnest(p_numbers) n
        where not exists (select from task t where t.session = p_session and t.number = n and t.collected_at is null);
        if missing is not null then
            perform refuse_unknown_task_1(p_session, missing);
        end if;
        ended := array(
            select t.id from task t
            where t.session = p_session and t.number = any(p_numbers) and t.finished_at is not null
        );
        met := cardinality(ended) >= case when p_all then cardinality(p_numbers) else 1 end;
    else
        -- The unfinished first: a task that ends after this statement is found by the next.
        unfinished := array(
            select t.number from task t
            where t.session = p_session and t.finished_at is null and t.parent is null
            order by t.number
        );
        active := coalesce(p_active, unfinished);
        ended := array(
            select t.id from task t
            where t.session = p_session and t.number = any(p_active) and t.state = 'cancelled' and t.collected_at is null
        );
        met := cardinality(unfinished) = 0 or case
            when p_all then not unfinished && active
            else cardinality(ended) > 0
                or exists (select from notification n where n.session = p_session and n.read_at is null)
        end;
        if met or p_last then
            taken := take_notifications_1(p_session);
            ended := ended || taken;
            -- Another client took the notifications, and there is more to wait for.
            if not p_all and cardinality(ended) = 0 and cardinality(unfinished) > 0 then
                met := false;
            end if;
        end if;
    end if;
    if met or p_last then
        tasks := (select jsonb_agg(to_jsonb(p) order by p.finished_at, p.number) from task_status p where p.id = any(ended));
    end if;
    tasks := coalesce(tasks, '[]');
    return next;
end $$;
select plan_by_index('wait_1');

-- Waits for notifications of these tasks (null: of all that an orchestrator of the session
-- spawned). Returns the tasks that have ended with an unread notification, in order, and those that
-- were cancelled since the first check (p_active), which have no notification. Returned
-- notifications become read. If there is none, no task is returned, unless nothing is left to wait
-- for or this is the last check.
create function wait_for_notifications_1(p_session bigint, p_numbers integer[], p_active integer[], p_last boolean)
returns table (met boolean, active integer[], tasks jsonb) language plpgsql as $$
#variable_conflict use_column
declare
    missing integer;
    unfinished integer[];
    cancelled uuid[];
    taken uuid[] := '{}';
begin
    perform from session where id = p_session;
    if not found then
        perform refuse('SESSION_NOT_FOUND', 'Session not found');
    end if;
    select min(n) into missing
    from unnest(p_numbers) n
    where not exists (select from task t where t.session = p_session and t.number = n);
    if missing is not null then
        perform refuse_unknown_task_1(p_session, missing);
    end if;
    -- The unfinished first: a task that ends after this statement is found by the next.
    unfinished := array(
        select t.number from task t
        where t.session = p_session and t.finished_at is null
            and case when p_numbers is null then t.parent is null else t.number = any(p_numbers) end
        order by t.number
    );
    active := coalesce(p_active, unfinished);
    cancelled := array(
        select t.id from task t where t.session = p_session and t.number = any(p_active) and t.state = 'cancelled'
    );
    met := cardinality(unfinished) = 0 or cardinality(cancelled) > 0 or exists (
        select from notification n
        join task t on t.id = n.task
        where n.session = p_session and n.read_at is null and (p_numbers is null or t.number = any(p_numbers))
    );
    if met or p_last then
        taken := take_notifications_of_1(p_session, p_numbers);
        if cardinality(taken) = 0 and cardinality(cancelled) = 0 and cardinality(unfinished) > 0 then
            -- Another client took the notifications, and there is more to wait for.
            met := false;
        end if;
    end if;
    tasks := coalesce((
        select jsonb_agg(to_jsonb(r) #- '{details, result}' order by r.finished_at, r.number)
        from task_view r
        where r.id = any(taken || cancelled) and (met or p_last)
    ), '[]');
    return next;
end $$;
select plan_by_index('wait_for_notifications_1');
