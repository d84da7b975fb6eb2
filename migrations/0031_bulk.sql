-- Cancels and retries of all tasks that match a filter. A request handles one batch: it searches
-- for tasks (tasks_1), and gives what it found to these functions, which look at the rows again,
-- because the tasks may have changed since.

-- Whether a task that was found in a state is in it still. p_expires_at is the end of its lease, if
-- a slot holds it. Without a state every unfinished task is meant.
create function is_still_1(t task, p_expires_at timestamptz, p_state text) returns boolean language sql stable as $$
    select t.finished_at is null and case p_state
        when 'running' then coalesce(p_expires_at > now(), false)
        when 'queued' then t.state = 'queued' and coalesce(p_expires_at <= now(), true)
        when 'waiting' then t.state = 'waiting'
        else true
    end
$$;

-- cancel_many: cancels the first of these tasks of a tenant that are still in a state, each with
-- everything below it, until p_most tasks are to be ended. `handled` is how many of p_tasks that
-- were, `cancelled` how many of them it cancelled; the others have ended or are in another state.
create function cancel_many_1(p_tenant text, p_tasks uuid[], p_state text, p_most integer)
returns table (handled integer, cancelled integer, ended uuid[], leases uuid[], sessions bigint[], delivers boolean) language plpgsql as $$
#variable_conflict use_column
declare
    target uuid;
    tree uuid[] := '{}';
    fits uuid[];
begin
    sessions := lock_sessions_1(array(
        select distinct t.session
        from task t
        join session s on s.id = t.session
        where t.id = any(p_tasks) and s.tenant = p_tenant
    ));
    -- This waits for claims in flight, and keeps later ones away. The next statement's new snapshot
    -- sees the slots that they filled.
    perform from queue q where q.session = any(sessions) and q.task = any(p_tasks) for update;
    fits := array(
        select t.id
        from task t
        left join slot x on x.task = t.id and x.n > 0
        where t.id = any(p_tasks) and t.session = any(sessions) and is_still_1(t, x.expires_at, p_state)
    );
    handled := 0;
    cancelled := 0;
    foreach target in array p_tasks loop
        exit when cardinality(tree) >= p_most;
        handled := handled + 1;
        if target = any(fits) then
            cancelled := cancelled + 1;
            -- A task may be below another one that matches.
            tree := tree || array(select b from unnest(unfinished_tree_1(target)) b where b <> all(tree));
        end if;
    end loop;
    -- A child has a greater number than its parent.
    ended := array(select t.id from task t where t.id = any(tree) order by t.session, t.number);
    if cardinality(ended) > 0 then
        sessions := array(select distinct t.session from task t where t.id = any(ended));
        leases := cancel_tasks_1(sessions, ended);
    end if;
    delivers := has_deliveries_1();
    return next;
end $$;
select plan_by_index('cancel_many_1');
-- Tasks are joined with slots, which have no index on their tasks.
alter function cancel_many_1 set enable_hashjoin = on;

-- Why tasks of a tenant cannot be retried with others: those that are missing in the answer can. A
-- retry may be refused for more than this, because of a full session for example.
create function not_retried_1(p_tenant text, p_tasks uuid[]) returns table (task uuid, reason text) language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    select e.id, case
        when t.id is null or s.tenant is distinct from p_tenant then 'gone'
        when t.state not in ('failed', 'cancelled') then 'not_ended'
        when t.parent is not null then 'child'
        when r.task is not null then 'already_retried'
        else 'session_archived'
    end
    from unnest(p_tasks) e (id)
    left join task t on t.id = e.id
    left join session s on s.id = t.session
    left join retried r on r.task = t.id
    where t.id is null or s.tenant is distinct from p_tenant or t.state not in ('failed', 'cancelled')
        or t.parent is not null or r.task is not null or s.archived_at is not null;
end $$;
select plan_by_index('not_retried_1');

-- Records a retry of a task, in the transaction of its spawn, which holds the session's lock. With
-- p_once a second retry fails, by the primary key, and is rolled back with its spawn: so of two
-- requests that retry all tasks of a filter only one retries each task.
create function record_retry_1(p_task uuid, p_retry uuid, p_once boolean) returns boolean language plpgsql as $$
begin
    if p_once then
        insert into retried (task, as_task) values (p_task, p_retry);
    else
        insert into retried (task, as_task) values (p_task, p_retry) on conflict do nothing;
    end if;
    return true;
end $$;
