-- look: what a worker's poll asks, all in one, writing nothing. It is the truth behind the notices: whatever was not said,
-- or was said and not heard, is found here. So an idle worker costs one short query every few seconds.

-- The living are few; the rows of all that ever ran are not.
create index worker_living on worker (pool) where stopped_at is null;

create function look_1(p_worker uuid, p_leases uuid[], p_grace interval)
returns table (
    queued boolean, expired boolean, due boolean, next_s double precision, peers uuid[], other_pools boolean,
    delivers boolean, lost uuid[], stray_slots integer[], stray_tasks uuid[], stray_leases uuid[]
) language plpgsql stable as $$
#variable_conflict use_column
declare
    w worker;
    -- Other workers' leases: one's own are renewed meanwhile.
    first_to_expire timestamptz;
    first_due timestamptz;
    next_delivery timestamptz;
begin
    select * into w from worker where id = p_worker;
    if not found then
        raise exception 'worker % is not registered', p_worker;
    end if;
    select min(x.expires_at) + p_grace into first_to_expire
    from slot x
    where x.worker <> p_worker;
    select min(t.not_before) into first_due
    from task t
    where t.not_before is not null and t.finished_at is null;
    -- What is due is told at once; whoever could not take it yet need not look for it again and again.
    select min(d.next_try_at) into next_delivery
    from webhook_delivery d
    where d.state = 'pending' and d.next_try_at > now();
    return query
    select
        exists (select from queue q where q.pool = w.pool),
        coalesce(first_to_expire < now(), false),
        coalesce(first_due <= now(), false),
        extract(epoch from least(first_to_expire, first_due, next_delivery) - now())::double precision,
        array(
            select peer.id
            from worker peer
            where peer.pool = w.pool and peer.stopped_at is null and peer.renewed_at > now() - 2 * peer.lease
        ),
        exists (
            select
            from worker other
            where other.pool <> w.pool and other.stopped_at is null and other.renewed_at > now() - 2 * other.lease
        ),
        exists (select from webhook_delivery d where d.state = 'pending' and d.next_try_at <= now()),
        array(select l from unnest(p_leases) l where not exists (select from slot x where x.lease = l)),
        array(select x.n from slot x where x.worker = p_worker and x.lease <> all(p_leases) order by x.n),
        array(select x.task from slot x where x.worker = p_worker and x.lease <> all(p_leases) order by x.n),
        array(select x.lease from slot x where x.worker = p_worker and x.lease <> all(p_leases) order by x.n);
end $$;
