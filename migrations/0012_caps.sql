-- The fleet-wide cap, changed live. Growing opens slots. Shrinking closes them; tasks that hold one run on to their end,
-- and until then each keeps an open slot empty (see claim). All slots are locked, so that every claim is before the change
-- or after it.
create function set_cap_1(p_cap integer) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock(hashtext('adjutant set_cap'));
    perform from slot order by n for update;
    update slot set open = (n <= p_cap) where open <> (n <= p_cap);
    insert into slot (n) select generate_series(1, p_cap) on conflict do nothing;
end $$;
