-- The end of sessions that MCP connections opened for themselves.

-- Ends sessions that MCP connections opened for themselves ("mcp-" and a UUID): one that is empty
-- after a day is deleted, and one in which nothing has happened for 30 days is archived. Examines
-- up to 1000 sessions after this id, and returns the last of them; null if there are no more.
create function end_mcp_sessions_1(p_after bigint) returns bigint language plpgsql as $$
declare
    examined bigint[];
    old bigint[];
begin
    examined := array(
        select id
        from session
        where id > p_after and is_of_mcp_1(name) and archived_at is null
        order by id
        limit 1000
    );
    -- Locked first: whoever adds a task, an agent or an entry holds this lock.
    old := array(
        select id
        from session
        where id = any(examined) and created_at < now() - interval '1 day'
        order by id
        for update skip locked
    );
    delete from session s
    where s.id = any(old) and s.next_number = 1
        and not exists (select from agent a where a.session = s.id)
        and not exists (select from context_history h where h.session = s.id)
        and not exists (select from context_snapshot c where c.session = s.id);
    update session s
    set archived_at = now()
    where s.id = any(old) and s.created_at < now() - interval '30 days' and s.next_number > 1
        and not exists (select from task t where t.session = s.id and t.finished_at is null)
        and not exists (select from event e where e.session = s.id and e.at > now() - interval '30 days')
        and not exists (
            select from context_entry c where c.session = s.id and c.written_at > now() - interval '30 days'
        );
    return examined[1000];
end $$;
select plan_by_index('end_mcp_sessions_1');
