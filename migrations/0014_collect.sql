-- collect: hands the outcome over once. Of two at the same instant one wins; a retry with the key of the one that won gets
-- the same answer, so a lost reply loses no result.
create function collect_1(p_session bigint, p_number integer, p_key text, p_body bytea)
returns setof task_history language plpgsql as $$
declare
    answer jsonb;
    target task;
begin
    perform commit_durably_1();
    perform from session where id = p_session for no key update;
    if not found then
        perform refuse('SESSION_NOT_FOUND', 'Session not found');
    end if;
    answer := answered_1(p_session, 'collect', p_key, p_body);
    if answer is not null then
        return query select * from task_history where id = (answer ->> 'id')::uuid;
        return;
    end if;

    select * into target from task where session = p_session and number = p_number for no key update;
    if not found or target.collected_at is not null then
        perform refuse('TASK_NOT_FOUND', format('Task not found: %s', task_name(p_number)));
    elsif target.finished_at is null then
        perform refuse('TASK_NOT_READY', format('Task %s has not ended yet; check back later', task_name(p_number)));
    end if;
    update task set collected_at = now() where id = target.id;
    update notification set read_at = now() where session = p_session and task = target.id and read_at is null;
    perform remember_1(p_session, 'collect', p_key, p_body, jsonb_build_object('id', target.id));
    return query select * from task_history where id = target.id;
end $$;

select plan_by_index('collect_1');
