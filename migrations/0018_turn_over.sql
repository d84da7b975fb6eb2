-- turn over: ends what a worker is done with, and claims for it what comes next, in one transaction: one commit and one
-- round trip less between two tasks of a slot. p_free is how many more than those it could run.
create function turn_over_1(p_worker uuid, p_ends jsonb, p_free integer)
returns table (
    what text, slot integer, task uuid, lease uuid, session bigint, number integer, attempt integer, answers integer,
    running_ms bigint, parent uuid, root uuid, depth smallint, agent text, config jsonb, assignment text,
    traceparent text, created_at timestamptz
) language plpgsql as $$
#variable_conflict use_column
declare
    unwritten record;
    room integer := p_free + jsonb_array_length(p_ends);
begin
    for unwritten in select * from end_1(p_ends, false) loop
        what := unwritten.what;
        task := unwritten.task;
        room := room - (what = 'busy')::integer;
        return next;
    end loop;
    -- This commits lazily, as a claim by itself does, only if nothing has been written: then nothing was ended.
    return query select 'claimed', c.* from claim_1(p_worker, room) c;
end $$;

select plan_by_index('turn_over_1');
