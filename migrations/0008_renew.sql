-- renew: all leases of a worker in one statement. It skips rows that are locked (whoever holds the lock is this worker's
-- own checkpoint, which renews, or an end), and answers which leases are gone.
create function renew_1(p_worker uuid, p_leases uuid[]) returns setof uuid language plpgsql as $$
declare
    w worker;
begin
    update worker
    set renewals = case when renewed_at >= now() - lease then renewals + 1 else 1 end, renewed_at = now()
    where id = p_worker
    returning * into w;
    if not found then
        raise exception 'worker % is not registered', p_worker;
    end if;
    update slot
    set expires_at = greatest(expires_at, now() + w.lease)
    where n in (
        select n from slot where worker = p_worker and lease = any(p_leases) order by n for update skip locked
    );
    return query
    select l
    from unnest(p_leases) l
    where not exists (select from slot where lease = l);
end $$;
