-- renew: all leases of a worker in one statement. It skips rows that are locked (by the worker's own checkpoint, which
-- renews too, by an end, by a change of the cap), and says for each lease what became of it: renewed, lost, or still held
-- but not renewed this time.
create function renew_1(p_worker uuid, p_leases uuid[]) returns table (lease uuid, what text) language plpgsql as $$
#variable_conflict use_column
declare
    w worker;
    renewed uuid[];
begin
    perform commit_lazily_1();
    update worker
    set renewals = case when renewed_at >= now() - worker.lease then renewals + 1 else 1 end, renewed_at = now()
    where id = p_worker
    returning * into w;
    if not found then
        raise exception 'worker % is not registered', p_worker;
    end if;
    with extended as (
        update slot
        set expires_at = greatest(expires_at, now() + w.lease)
        where n in (
            select n
            from slot
            where worker = p_worker and slot.lease = any(p_leases)
            order by n
            for update skip locked
        )
        returning slot.lease
    )
    select array_agg(extended.lease) into renewed from extended;
    return query
    select l, case
        when l = any(renewed) then 'renewed'
        when exists (select from slot x where x.lease = l) then 'held'
        else 'lost'
    end
    from unnest(p_leases) l;
end $$;

select plan_by_index('renew_1');
