-- What a task's agent does with its children, under the lease of the task. The session's lock is enough of a fence here: whoever
-- takes a lease away has it. So no slot is locked before those of children, which come in their order.
create function hold_lease_1(p_session bigint, p_slot integer, p_task uuid, p_lease uuid) returns void language plpgsql as $$
begin
    perform lock_sessions_1(array[p_session]);
    perform from slot where n = p_slot and session = p_session and task = p_task and lease = p_lease;
    if not found then
        perform lease_lost(p_task);
    end if;
end $$;

-- spawn, of children by the turn and the call that asks for them: asking again finds those that there are. One without a
-- configuration takes a copy of what its agent is now. A child is as urgent as its parent, unless it says otherwise.
create function delegate_children_1(
    p_session bigint, p_slot integer, p_task uuid, p_lease uuid, p_call text, p_tasks jsonb, p_operator jsonb, p_notices text[]
)
returns table (id uuid, number integer, state text, queue_position integer) language plpgsql as $$
#variable_conflict use_column
declare
    above task;
    tasks jsonb;
    unknown text;
begin
    perform hold_lease_1(p_session, p_slot, p_task, p_lease);
    return query
    select t.id, t.number, t.state::text, null::integer from task t where t.parent = p_task and t.call = p_call order by t.number;
    if found then
        return;
    end if;
    select * into above from task where task.id = p_task;
    select
        jsonb_agg(t.body || jsonb_build_object(
            'call', p_call,
            'priority', coalesce(nullif((t.body ->> 'priority')::smallint, 0), above.priority)
        ) || case when t.body -> 'config' = '{}' then jsonb_build_object(
            'agent_version', a.version,
            'on_worker_loss', a.definition -> 'on_worker_loss',
            'config', spec_at_spawn_1(a.definition -> 'spec', t.body, s.model, p_operator)
        ) else '{}' end order by t.place),
        min(t.body ->> 'agent') filter (where t.body -> 'config' = '{}' and a.version is null)
    into tasks, unknown
    from session s
    cross join jsonb_array_elements(p_tasks) with ordinality t (body, place)
    left join lateral agent_1(s.id, t.body ->> 'agent') a on true
    where s.id = p_session;
    if unknown is not null then
        perform refuse('AGENT_NOT_FOUND', format('Agent not found: %s', unknown));
    end if;
    return query select * from spawn_1(p_session, tasks, null, null, p_task, p_lease, p_slot, p_notices);
end $$;

-- cancel, of a child and all below it. One that was collected is gone for its parent.
create function cancel_child_1(p_session bigint, p_slot integer, p_task uuid, p_lease uuid, p_number integer)
returns uuid[] language plpgsql as $$
declare
    target uuid;
begin
    perform hold_lease_1(p_session, p_slot, p_task, p_lease);
    select id into target
    from task
    where session = p_session and number = p_number and parent = p_task and collected_at is null;
    if not found then
        perform no_task_1(p_session, p_number);
    end if;
    return (select leases from cancel_1(target));
end $$;

-- collect, of a child: that it was handed over and the call's result are stored together, so that no outcome is lost between
-- them. A call whose result is stored is not made again.
create function collect_child_1(
    p_session bigint, p_slot integer, p_task uuid, p_lease uuid, p_turn integer, p_number integer, p_result jsonb
) returns void language plpgsql as $$
begin
    perform hold_lease_1(p_session, p_slot, p_task, p_lease);
    perform
    from tool_result r
    join task t on t.id = r.task
    where r.task = p_task and r.turn = p_turn and r.call = p_result ->> 'call' and r.at >= t.created_at - interval '1 day';
    if found then
        return;
    end if;
    update task
    set collected_at = now()
    where session = p_session and number = p_number and parent = p_task and finished_at is not null and collected_at is null;
    if not found then
        perform no_task_1(p_session, p_number);
    end if;
    perform tool_result_1(p_session, p_slot, p_task, p_lease, p_turn, 'subagent', p_result);
end $$;

select plan_by_index('hold_lease_1');
select plan_by_index('delegate_children_1');
select plan_by_index('cancel_child_1');
select plan_by_index('collect_child_1');
