-- cancel: ends a task and everything below it. Workers that run one of them lose their leases in
-- the same transaction; the answer names those leases and the tasks that it ended. A task that has
-- ended stays as it is, but its unfinished descendants are cancelled all the same. The partial
-- result of a running task is its draft, if it has one of an answer that was never stored.
create function cancel_1(p_task uuid)
returns table (state text, cancelled boolean, partial_result text, leases uuid[], delivers boolean, ended uuid[]) language plpgsql as $$
#variable_conflict use_column
declare
    target task;
    tree uuid[];
    held integer[];
    running uuid[];
    fenced uuid[];
    drafts jsonb[];
begin
    select * into target from task where task.id = p_task;
    if not found then
        perform refuse('TASK_NOT_FOUND', 'Task not found');
    end if;
    perform lock_sessions_1(array[target.session]);
    tree := array(
        with recursive below as (
            select t.id, t.number, t.finished_at from task t where t.id = p_task
            union all
            select t.id, t.number, t.finished_at from task t join below on t.parent = below.id
        )
        select b.id from below b where b.finished_at is null order by b.number
    );
    -- This waits for a claim in flight. The next statement's new snapshot sees the slot that it
    -- filled.
    delete from queue where queue.session = target.session and queue.task = any(tree);
    held := array(select n from slot where slot.task = any(tree) order by n for update);
    select coalesce(array_agg(x.task order by x.n), '{}'), coalesce(array_agg(x.lease), '{}'),
        array_agg(jsonb_build_object('partial_result', d.text) order by x.n)
    into running, fenced, drafts
    from slot x
    left join draft d on d.lease = x.lease and d.answer = x.answers + 1
    where x.n = any(held);
    ended := running || array(select b.task from unnest(tree) with ordinality b (task, place) where b.task <> all(running) order by b.place);
    perform write_ends_1(null, ended, held, array_fill('cancelled'::text, array[cardinality(ended)]), null, drafts);
    perform free_slots_1(held);
    delete from draft where draft.lease = any(fenced);
    -- A reservation locks waiters in another order. One that it holds goes with the clean-up.
    delete from model_waiter
    where (model_waiter.task, model_waiter.model) in (
        select w.task, w.model from model_waiter w where w.task = any(tree) for update skip locked
    );
    perform settle_and_admit_1(array[target.session], tree, '{}');
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
        perform refuse_unknown_task_1(p_session, p_number);
    end if;
    return (select leases from cancel_1(target));
end $$;
select plan_by_index('cancel_child_1');

-- delete_session: cancels the unfinished tasks and deletes everything of the session in one
-- transaction. A transaction that waits for its lock then finds no session, or no lease. The answer
-- names the leases that it took away.
create function delete_session_1(p_session bigint) returns uuid[] language plpgsql as $$
declare
    unfinished uuid;
    fenced uuid[] := '{}';
begin
    perform commit_durably_1();
    perform from session where id = p_session for update;
    if not found then
        perform refuse('SESSION_NOT_FOUND', 'Session not found');
    end if;
    -- All slots at once and in order, as a change of the cap locks them. Without queue rows no
    -- claim fills another one.
    delete from queue where session = p_session;
    perform from slot where session = p_session order by n for update;
    for unfinished in select id from task where session = p_session and finished_at is null order by number loop
        fenced := fenced || (select leases from cancel_1(unfinished));
    end loop;
    delete from turn where task in (select id from task where session = p_session);
    delete from tool_result where task in (select id from task where session = p_session);
    delete from attempt where task in (select id from task where session = p_session);
    delete from awaited where task in (select id from task where session = p_session);
    delete from event where session = p_session;
    delete from webhook_delivery where session = p_session;
    delete from notification where session = p_session;
    delete from context_entry where session = p_session;
    delete from context_history where session = p_session;
    delete from context_snapshot where session = p_session;
    delete from agent where session = p_session;
    delete from task where session = p_session;
    delete from session where id = p_session;
    return fenced;
end $$;
select plan_by_index('delete_session_1');
