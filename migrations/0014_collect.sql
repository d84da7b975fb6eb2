-- collect: hands the outcome over once. Of two at the same instant one wins; a retry with the key of the one that won gets
-- the same answer, so a lost reply loses no result.
create function collect_1(p_session bigint, p_number integer, p_key text, p_body bytea)
returns setof task_history language plpgsql as $$
declare
    given idempotency;
    target task;
begin
    perform from session where id = p_session for no key update;
    if not found then
        perform refuse('SESSION_NOT_FOUND', 'Session not found');
    end if;
    select * into given
    from idempotency i
    where i.session = p_session and i.action = 'collect' and i.key = p_key
        and i.created_at > now() - interval '24 hours';
    if found then
        if given.body <> p_body then
            perform refuse('IDEMPOTENCY_CONFLICT', 'This idempotency key was used with another request');
        end if;
        return query select * from task_history where id = (given.answer ->> 'id')::uuid;
        return;
    end if;

    select * into target from task where session = p_session and number = p_number for no key update;
    if not found or target.collected_at is not null then
        perform refuse('TASK_NOT_FOUND', format('Task not found: %s', task_name(p_number)));
    elsif target.finished_at is null then
        perform refuse('TASK_NOT_READY', format('Task %s has not ended yet; check back later', task_name(p_number)));
    end if;
    update task set collected_at = now() where id = target.id;
    update notification set read_at = now() where task = target.id and read_at is null;
    if p_key is not null then
        insert into idempotency (session, action, key, body, answer)
        values (p_session, 'collect', p_key, p_body, jsonb_build_object('id', target.id))
        on conflict (session, action, key) do update
        set body = excluded.body, answer = excluded.answer, created_at = excluded.created_at;
    end if;
    return query select * from task_history where id = target.id;
end $$;
