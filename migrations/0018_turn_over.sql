-- turn over: ends what a worker is done with, and claims for it what comes next, in one transaction: one commit and one
-- round trip less between two tasks of a slot, which goes from the one to the other. p_free is how many more than those it
-- could run.
create function turn_over_1(
    p_worker uuid, p_free integer,
    p_slots integer[], p_tasks uuid[], p_leases uuid[], p_outcomes text[], p_results text[], p_details jsonb[]
)
returns table (
    what text, slot integer, task uuid, lease uuid, session bigint, number integer, attempt integer, answers integer,
    running_ms bigint, parent uuid, root uuid, depth smallint, agent text, config jsonb, assignment text,
    traceparent text, created_at timestamptz
) language plpgsql as $$
#variable_conflict use_column
declare
    unwritten record;
    room integer := p_free + cardinality(p_slots);
begin
    select * into unwritten from end_1(p_slots, p_tasks, p_leases, p_outcomes, p_results, p_details, false, true);
    foreach task in array coalesce(unwritten.lost, '{}') loop
        what := 'lost';
        return next;
    end loop;
    foreach task in array coalesce(unwritten.busy, '{}') loop
        what := 'busy';
        room := room - 1;
        return next;
    end loop;
    if unwritten.delivers then
        what := 'delivers';
        task := p_tasks[1];
        return next;
    end if;
    -- This commits lazily, as a claim by itself does, only if nothing has been written: then nothing was ended.
    return query select 'claimed', c.* from claim_1(p_worker, room, unwritten.kept) c;
end $$;

select plan_by_index('turn_over_1');
