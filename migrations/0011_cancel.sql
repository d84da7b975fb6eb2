-- cancel: the task and everything below it, at once. A worker that runs one of them is fenced off in the same
-- transaction; the answer names those leases, and the tasks that it ended. A task that has ended stays as it is, and the answer says what that is; but
-- what it left running below it is cancelled all the same. The partial result of a task that was running is its draft, if it has
-- one of an answer that was never stored.
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
    idle uuid[];
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
    -- This waits for a claim in flight; the next statement's fresh snapshot then sees the slot that it filled.
    delete from queue where queue.session = target.session and queue.task = any(tree);
    held := array(select n from slot where slot.task = any(tree) order by n for update);
    select coalesce(array_agg(slot.task), '{}'), coalesce(array_agg(slot.lease), '{}') into running, fenced
    from slot
    where n = any(held);
    drafts := array(
        select jsonb_build_object('partial_result', d.text)
        from slot x
        left join draft d on d.lease = x.lease and d.answer = x.answers + 1
        where x.n = any(held)
        order by x.n
    );
    perform end_attempts_1(null, held, array_fill('cancelled'::text, array[cardinality(held)]), null, drafts);
    perform free_1(held);
    delete from draft where draft.lease = any(fenced);
    idle := array(select b.task from unnest(tree) with ordinality b (task, place) where b.task <> all(running) order by b.place);
    perform conclude_1(idle, 'cancelled', null, null);
    perform emit_1(idle, array_fill('cancelled'::text, array[cardinality(idle)]));
    perform follow_up_1(array[target.session], tree, '{}');
    return query select t.state::text, p_task = any(tree), t.partial_result, fenced, delivers_1(), tree from task t where t.id = p_task;
end $$;

select plan_by_index('cancel_1');
