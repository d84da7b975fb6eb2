-- The unfinished tasks of a tree: a task and everything below it, in the order of their numbers.
-- Needs the session's lock.
create function unfinished_tree_1(p_task uuid) returns uuid[] language plpgsql stable as $$
begin
    return array(
        with recursive below as (
            select t.id, t.number, t.finished_at from task t where t.id = p_task
            union all
            select t.id, t.number, t.finished_at from task t join below on t.parent = below.id
        )
        select b.id from below b where b.finished_at is null order by b.number
    );
end $$;
select plan_by_index('unfinished_tree_1');

-- Ends unfinished tasks of these sessions as cancelled, and answers the leases that it took away.
-- The partial result of a running task is its draft, if it has one of an answer that was never
-- stored. Needs the sessions' locks.
create function cancel_tasks_1(p_sessions bigint[], p_tasks uuid[]) returns uuid[] language plpgsql as $$
declare
    held integer[];
    running uuid[];
    fenced uuid[];
    drafts jsonb[];
    ended uuid[];
    -- The first task of each session that a raise has not come to yet.
    paused_sessions bigint[];
    paused_numbers integer[];
begin
    select array_agg(p.session), array_agg(p.number) into paused_sessions, paused_numbers
    from (
        select t.session, min(t.number) as number
        from task t
        where t.id = any(p_tasks) and t.waiting_for = 'budget' and t.not_before is not null
        group by t.session
    ) p;
    -- This waits for a claim in flight. The next statement's new snapshot sees the slot that it
    -- filled.
    delete from queue where queue.session = any(p_sessions) and queue.task = any(p_tasks);
    held := array(select n from slot where slot.task = any(p_tasks) order by n for update);
    select coalesce(array_agg(x.task order by x.n), '{}'), coalesce(array_agg(x.lease), '{}'),
        array_agg(jsonb_build_object('partial_result', d.text) order by x.n)
    into running, fenced, drafts
    from slot x
    left join draft d on d.lease = x.lease and d.answer = x.answers + 1
    where x.n = any(held);
    ended := running || array(select b.task from unnest(p_tasks) with ordinality b (task, place) where b.task <> all(running) order by b.place);
    perform write_ends_1(null, ended, held, array_fill('cancelled'::text, array[cardinality(ended)]), null, drafts);
    perform free_slots_1(held);
    delete from draft where draft.lease = any(fenced);
    -- A reservation locks waiters in another order. One that it holds goes with the clean-up.
    delete from model_waiter
    where (model_waiter.task, model_waiter.model) in (
        select w.task, w.model from model_waiter w where w.task = any(p_tasks) for update skip locked
    );
    perform settle_and_admit_1(p_sessions, p_tasks, '{}');
    -- The raise goes on behind these.
    perform resume_from_1(p.session, null, p.number)
    from unnest(paused_sessions, paused_numbers) p (session, number);
    return fenced;
end $$;
select plan_by_index('cancel_tasks_1');

-- cancel: ends a task and everything below it. Workers that run one of them lose their leases in
-- the same transaction; the answer names those leases and the tasks that it ended. A task that has
-- ended stays as it is, but its unfinished descendants are cancelled all the same.
create function cancel_1(p_task uuid)
returns table (state text, cancelled boolean, partial_result text, leases uuid[], delivers boolean, ended uuid[]) language plpgsql as $$
#variable_conflict use_column
declare
    target task;
    tree uuid[];
    fenced uuid[];
begin
    select * into target from task where task.id = p_task;
    if not found then
        perform refuse('TASK_NOT_FOUND', 'Task not found');
    end if;
    if lock_sessions_1(array[target.session]) = '{}' then
        perform refuse_unknown_task_1(target.session, target.number);
    end if;
    tree := unfinished_tree_1(p_task);
    fenced := cancel_tasks_1(array[target.session], tree);
    return query
    select t.state::text, p_task = any(tree), t.partial_result, fenced, has_deliveries_1(), tree from task t where t.id = p_task;
end $$;
select plan_by_index('cancel_1');

-- cancel by task number, for orchestrators. A collected task is not found.
create function cancel_by_number_1(p_session bigint, p_number integer)
returns table (cancelled boolean, partial_result text, leases uuid[], delivers boolean, ended uuid[], task jsonb) language plpgsql as $$
#variable_conflict use_column
declare
    target uuid;
begin
    select t.id into target
    from task t
    join session s on s.id = t.session
    where t.session = p_session and t.number = p_number and t.collected_at is null;
    if not found then
        perform refuse_unknown_task_1(p_session, p_number);
    end if;
    select c.cancelled, c.partial_result, c.leases, c.delivers, c.ended into cancelled, partial_result, leases, delivers, ended
    from cancel_1(target) c;
    task := (select to_jsonb(s) from task_status s where s.id = target);
    return next;
end $$;
select plan_by_index('cancel_by_number_1');

-- cancel of a child, by its parent. A collected child is not found.
create function cancel_child_1(p_session bigint, p_slot integer, p_task uuid, p_lease uuid, p_number integer)
returns uuid[] language plpgsql as $$
declare
    target uuid;
begin
    perform check_lease_1(p_session, p_slot, p_task, p_lease);
    select id into target
    from task
    where session = p_session and number = p_number and parent = p_task and collected_at is null;
    if not found then
        perform refuse_unknown_task_1(p_session, p_number, p_task);
    end if;
    return (select leases from cancel_1(target));
end $$;
select plan_by_index('cancel_child_1');

-- delete_session: moves the session to deleted_session, so that it is gone for everyone, and takes
-- the leases of its running tasks away; the answer names them. The rows that it touches are bounded
-- by the session's window and the cap. A transaction that waits for its lock then finds no session,
-- or no lease. Workers delete everything else.
create function delete_session_1(p_session bigint) returns uuid[] language plpgsql as $$
declare
    held integer[];
    running uuid[];
    fenced uuid[];
begin
    perform commit_durably_1();
    perform from session where id = p_session for update;
    if not found then
        perform refuse('SESSION_NOT_FOUND', 'Session not found');
    end if;
    -- This waits for a claim in flight, as in cancel_tasks_1. Without queue rows no other claim follows.
    delete from queue where session = p_session;
    held := array(select n from slot where session = p_session order by n for update);
    select coalesce(array_agg(x.task order by x.n), '{}'), coalesce(array_agg(x.lease), '{}') into running, fenced
    from slot x
    where x.n = any(held);
    perform write_ends_1(null, running, held, array_fill('cancelled'::text, array[cardinality(held)]), null, null);
    perform free_slots_1(held);
    delete from draft where draft.lease = any(fenced);
    insert into deleted_session (id, tenant, tasks, events)
    select id, tenant, next_number - 1, next_event - 1 from session where id = p_session;
    delete from session where id = p_session;
    return fenced;
end $$;
select plan_by_index('delete_session_1');

-- Deletes tasks of one session with all that belongs to them, except their events. The tasks have
-- ended, or never will (see count_cancelled_1).
create function delete_tasks_1(p_session bigint, p_tasks uuid[]) returns void language plpgsql as $$
declare
    -- Prunes partitions; a day of slack allows for a clock that was set back.
    oldest timestamptz := (select min(created_at) - interval '1 day' from task where id = any(p_tasks));
begin
    delete from turn where task = any(p_tasks) and at >= oldest;
    delete from tool_result where task = any(p_tasks) and at >= oldest;
    delete from attempt where task = any(p_tasks);
    delete from broken_call where task = any(p_tasks);
    delete from awaited where task = any(p_tasks);
    delete from notification where session = p_session and task = any(p_tasks);
    delete from webhook_delivery where task = any(p_tasks);
    delete from model_waiter where task = any(p_tasks);
    delete from retried where task = any(p_tasks);
    delete from task where id = any(p_tasks);
end $$;
select plan_by_index('delete_tasks_1');

-- Counts the unfinished ones of these tasks, which are about to be deleted, as cancelled, and
-- deletes their overlays.
create function count_cancelled_1(p_tenant text, p_tasks uuid[]) returns void language plpgsql as $$
declare
    overlays bigint[];
begin
    insert into usage_delta (tenant, agent, model, outcome, tasks, roots, waiting)
    select
        p_tenant, t.agent, coalesce(t.model, ''), 'cancelled', count(*), -count(*) filter (where t.parent is null),
        -count(*) filter (where t.state = 'waiting')
    from task t
    where t.id = any(p_tasks) and t.finished_at is null
    group by 2, 3;
    overlays := array(
        select distinct t.context from task t where t.id = any(p_tasks) and t.finished_at is null and t.context is not null
    );
    delete from context_entry where session = any(overlays);
    delete from context_history where session = any(overlays);
    delete from context_snapshot where session = any(overlays);
end $$;
select plan_by_index('count_cancelled_1');

-- Deletes the next tasks of a deleted session, in the order of their numbers: at most a thousand,
-- and fewer if they have many turns or overlays. It starts where the batch before it ended, so it
-- does not step over what is already deleted. Returns how many it deleted.
create function delete_next_tasks_1(d deleted_session) returns integer language plpgsql as $$
declare
    tasks uuid[];
    last integer;
begin
    select array_agg(w.id), max(w.number) into tasks, last
    from (
        select t.id, t.number, sum(t.weight) over (order by t.number) - t.weight as before
        from (
            select
                u.id, u.number, 1 + u.answers + case when u.context is not null and u.finished_at is null then 500 else 0 end as weight
            from task u
            where u.session = d.id and u.number > d.tasks_deleted
            order by u.number
            limit 1000
        ) t
    ) w
    where w.before < 2000;
    if tasks is null then
        return 0;
    end if;
    perform count_cancelled_1(d.tenant, tasks);
    perform delete_tasks_1(d.id, tasks);
    update deleted_session set tasks_deleted = last where id = d.id;
    return cardinality(tasks);
end $$;
select plan_by_index('delete_next_tasks_1');

-- Deletes rows of a session that belong to no task: at most p_limit of each table. Returns how many
-- it deleted.
create function delete_session_rows_1(p_session bigint, p_limit integer) returns bigint language plpgsql as $$
declare
    rows bigint;
begin
    with answers as (
        delete from idempotency
        where ctid = any(array(select ctid from idempotency where session = p_session limit p_limit)) returning 1
    ), agents as (
        delete from agent where ctid = any(array(select ctid from agent where session = p_session limit p_limit)) returning 1
    ), entries as (
        delete from context_entry
        where ctid = any(array(select ctid from context_entry where session = p_session limit p_limit)) returning 1
    ), history as (
        delete from context_history
        where ctid = any(array(select ctid from context_history where session = p_session limit p_limit)) returning 1
    ), warnings as (
        delete from budget_warning
        where ctid = any(array(select ctid from budget_warning where session = p_session limit p_limit)) returning 1
    ), snapshots as (
        delete from context_snapshot
        where ctid = any(array(select ctid from context_snapshot where session = p_session limit p_limit)) returning 1
    )
    select count(*) into rows
    from (
        table answers union all table agents union all table entries union all table history union all table warnings union all table snapshots
    ) deleted;
    return rows;
end $$;
select plan_by_index('delete_session_rows_1');

-- One batch of the deletion of a deleted session, the one that was deleted first. Any worker runs
-- it at any time; one at a time is enough, and others do not wait for it. A batch that is cut short
-- leaves no trace, and the next one starts where it did. Returns whether to run another one.
create function delete_batch_1() returns boolean language plpgsql as $$
declare
    d deleted_session;
    batch constant integer := 2000;
begin
    if not pg_try_advisory_xact_lock(hashtext('adjutant delete_batch')) then
        return false;
    end if;
    select * into d from deleted_session order by deleted_at, id limit 1 for update;
    if not found then
        return false;
    end if;
    -- What is yet to be sent comes first: senders step over it.
    delete from webhook_delivery
    where ctid = any(array(select ctid from webhook_delivery where session = d.id limit batch));
    if found then
        return true;
    elsif delete_next_tasks_1(d) > 0 then
        return true;
    elsif d.events_deleted < d.events then
        delete from event where session = d.id and seq > d.events_deleted and seq <= d.events_deleted + batch;
        update deleted_session set events_deleted = least(d.events, d.events_deleted + batch) where id = d.id;
        return true;
    elsif delete_session_rows_1(d.id, batch) = 0 then
        delete from deleted_session where id = d.id;
    end if;
    return true;
end $$;
select plan_by_index('delete_batch_1');
