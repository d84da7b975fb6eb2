-- cancel: the task and everything below it, at once. A worker that runs one of them is fenced off in the same
-- transaction; the answer names those leases. A task that has ended stays as it is, and the answer says what that is; but
-- what it left running below it is cancelled all the same.
create function cancel_1(p_task uuid)
returns table (state text, cancelled boolean, partial_result text, leases uuid[]) language plpgsql as $$
#variable_conflict use_column
declare
    target task;
    tree uuid[];
    fenced uuid[];
    ends attempt_end[];
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
    perform from slot where slot.task = any(tree) order by n for update;
    ends := array(
        select row(
            x, 'cancelled', 'cancelled', null, null, null, null, null, null,
            case when x.answers > 0 then last_text_1(t.id, t.created_at) end, null
        )::attempt_end
        from slot x
        join task t on t.id = x.task
        where x.task = any(tree)
        order by x.n
    );
    fenced := array(select (e.held).lease from unnest(ends) e);
    perform end_attempts_1(ends);
    perform conclude_1(tree, 'cancelled', null, null);
    perform emit_1(tree, array_fill('cancelled'::text, array[cardinality(tree)]));
    perform follow_up_1(array[target.session], tree, '{}');
    return query select t.state, p_task = any(tree), t.partial_result, fenced from task t where t.id = p_task;
end $$;

select plan_by_index('cancel_1');
