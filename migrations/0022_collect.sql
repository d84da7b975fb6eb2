-- collect: hands the outcome over once. Of two concurrent calls one wins; a repeated call with the
-- winner's key gets the same answer, so a lost reply loses no result.
create function collect_1(p_session bigint, p_number integer, p_key text, p_body bytea)
returns table (task jsonb, result text, summary text, partial_result text) language plpgsql as $$
#variable_conflict use_column
declare
    answer jsonb;
    target task;
begin
    perform commit_durably_1();
    perform from session where id = p_session for no key update;
    if not found then
        perform refuse('SESSION_NOT_FOUND', 'Session not found');
    end if;
    answer := find_answer_1(p_session, 'collect', p_key, p_body);
    if answer is not null then
        select * into target from task where id = (answer ->> 'id')::uuid;
        return query
        select to_jsonb(s), target.result, target.summary, target.partial_result from task_status s where s.id = target.id;
        return;
    end if;

    select * into target from task where session = p_session and number = p_number for no key update;
    if not found or target.collected_at is not null then
        perform refuse_unknown_task_1(p_session, p_number);
    elsif target.finished_at is null then
        perform refuse('TASK_NOT_READY', format('Task %s has not ended yet; check back later', task_name(p_number)));
    end if;
    update task set collected_at = now() where id = target.id;
    update notification set read_at = now() where session = p_session and task = target.id and read_at is null;
    perform store_answer_1(p_session, 'collect', p_key, p_body, jsonb_build_object('id', target.id));
    return query
    select to_jsonb(s), target.result, target.summary, target.partial_result from task_status s where s.id = target.id;
end $$;
select plan_by_index('collect_1');

-- collect of a child, by its parent. The collection and the result of the tool call are stored in
-- one transaction. A call whose result is stored changes nothing.
create function collect_child_1(
    p_session bigint, p_slot integer, p_task uuid, p_lease uuid, p_turn integer, p_number integer, p_result jsonb
) returns void language plpgsql as $$
begin
    perform check_lease_1(p_session, p_slot, p_task, p_lease);
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
        perform refuse_unknown_task_1(p_session, p_number, p_task);
    end if;
    perform tool_result_1(p_session, p_slot, p_task, p_lease, p_turn, 'subagent', p_result);
end $$;
select plan_by_index('collect_child_1');

-- A page of the full text of an ended task, collected or not: its result, or else its partial
-- result.
create function read_result_1(p_session bigint, p_number integer, p_offset integer, p_limit integer)
returns table (page text, chars integer) language plpgsql stable as $$
declare
    ended_at timestamptz;
    whole text;
begin
    select t.finished_at, coalesce(t.result, t.partial_result, '') into ended_at, whole
    from task t
    join session s on s.id = t.session
    where t.session = p_session and t.number = p_number;
    if not found then
        perform refuse_unknown_task_1(p_session, p_number);
    elsif ended_at is null then
        perform refuse('TASK_NOT_READY', format('Task %s has not ended yet; check back later', task_name(p_number)));
    end if;
    return query select substr(whole, p_offset + 1, p_limit), char_length(whole);
end $$;
select plan_by_index('read_result_1');
