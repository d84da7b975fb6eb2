-- delete_session: cancels what is unfinished, then removes everything of the session, in one transaction: who waits for its
-- lock meanwhile finds no session, or no lease. The answer names the leases whose workers have yet to notice.
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
