-- Tenants, API keys, the limits of tenants, and the shares of tenants and pools in the cap.

-- A tenant without a row has the defaults: tenants exist by being named in a key or a session.
create table tenant (
    name text primary key check (char_length(name) between 1 and 255),
    weight integer not null default 1 check (weight between 1 and 1000),
    cap integer check (cap >= 0),
    created_at timestamptz not null default now(),
    archived_at timestamptz
);

comment on table tenant is 'Settings of tenants that differ from the defaults.';
comment on column tenant.weight is
    'Its share of the fleet-wide cap, relative to the other tenants that have work.';
comment on column tenant.cap is 'The most tasks that it runs at a time. Null: no limit of its own.';
comment on column tenant.archived_at is
    'Keys of an archived tenant are refused, and what is open with them ends. Its tasks run to '
    'their ends.';

-- Changes the settings of a tenant that p_change contains; null restores the default. The lock is
-- the one that claims of a tenant with a cap take (within_cap_1): a change is before them or after
-- them.
create function set_tenant_1(p_name text, p_change jsonb) returns void language plpgsql as $$
begin
    perform commit_durably_1();
    perform pg_advisory_xact_lock(hashtext('adjutant tenant cap'), hashtext(p_name));
    insert into tenant as t (name, weight, cap)
    values (p_name, coalesce((p_change ->> 'weight')::integer, 1), (p_change ->> 'cap')::integer)
    on conflict (name) do update
    set weight = case when p_change ? 'weight' then excluded.weight else t.weight end,
        cap = case when p_change ? 'cap' then excluded.cap else t.cap end;
end $$;
select plan_by_index('set_tenant_1');

-- The tenants that have settings, keys, sessions or tasks, by name behind p_after; or the one of
-- this name, which has the defaults if it is new.
create function tenants_1(p_after text, p_limit bigint, p_name text)
returns table (name text, weight integer, cap integer, archived_at timestamptz, unfinished bigint, running bigint)
language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    select
        n.name, coalesce(t.weight, 1), t.cap, t.archived_at, (select b.unfinished from tenant_backlog_1(n.name) b),
        (select count(*) from slot x where x.tenant = n.name and x.task is not null)
    from (
        select p_name as name where p_name is not null
        union
        select s.name from tenant s where p_name is null and s.name > p_after
        union
        select b.tenant from tenant_backlog b where p_name is null and b.tenant > p_after
        union
        select d.tenant from usage_delta d where p_name is null and d.tenant > p_after
        union
        select k.tenant from api_key k where p_name is null and k.tenant > p_after
        order by 1
        limit p_limit
    ) n
    left join tenant t on t.name = n.name
    order by n.name;
end $$;

-- A key belongs to a tenant, and a request with its secret acts for that tenant. The secret is not
-- stored: it is found by its digest, so no byte-wise comparison leaks timing, and a reader of this
-- table cannot call anything.
create table api_key (
    id uuid primary key,
    tenant text not null check (char_length(tenant) between 1 and 255),
    name text not null check (char_length(name) between 1 and 255),
    digest bytea not null unique check (octet_length(digest) = 32),
    scopes text[] not null check (cardinality(scopes) > 0 and scopes <@ array['delegate', 'read', 'admin']),
    grants jsonb,
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz
);

comment on table api_key is 'Keys of the API. Revoked keys stay, for the record.';
comment on column api_key.name is 'The owner''s name for it.';
comment on column api_key.digest is
    'SHA-256 of the secret, which is random enough to need no salt.';
comment on column api_key.scopes is 'delegate, read, admin.';
comment on column api_key.grants is
    'Patterns of the tools, models, agents and pools that it may use. Null, or a missing list: all.';
comment on column api_key.last_used_at is 'To the minute, so that not every request writes.';

-- Finds a valid key. The key of an archived tenant is refused. Its use is recorded once a minute,
-- without waiting for locks or for the disk.
create function use_key_1(p_digest bytea) returns setof api_key language plpgsql as $$
declare
    k api_key;
begin
    select * into k
    from api_key
    where digest = p_digest and revoked_at is null and (expires_at is null or expires_at > now());
    if not found then
        return;
    end if;
    perform from tenant where name = k.tenant and archived_at is not null;
    if found then
        perform refuse('FORBIDDEN', format('The tenant %s is archived', k.tenant));
    end if;
    if k.last_used_at is null or k.last_used_at < now() - interval '1 minute' then
        perform commit_lazily_1();
        update api_key
        set last_used_at = now()
        where id = (select id from api_key where id = k.id for no key update skip locked);
    end if;
    return next k;
end $$;

-- Which of these keys may do nothing any more; with the name of their tenant if it is archived.
create function ended_keys_1(p_keys uuid[]) returns table (key uuid, archived text) language plpgsql stable as $$
begin
    return query
    select given.id, t.name
    from unnest(p_keys) given (id)
    left join api_key k on k.id = given.id and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
    left join tenant t on t.name = k.tenant and t.archived_at is not null
    where k.id is null or t.name is not null;
end $$;
select plan_by_index('ended_keys_1');

-- Archives a tenant, or takes that back: its keys are refused from now on. Its tasks run to their
-- ends, queued ones too. Returns since when it is archived.
create function archive_tenant_1(p_tenant text, p_archived boolean) returns timestamptz language plpgsql as $$
declare
    since timestamptz;
begin
    if not exists (
        select from tenant where name = p_tenant
        union all
        select from api_key where tenant = p_tenant
        union all
        select from session where tenant = p_tenant
    ) then
        perform refuse('INVALID_ARGUMENT', format('tenant: there is no tenant %L; it has no key and no session', p_tenant));
    end if;
    insert into tenant (name, archived_at)
    values (p_tenant, case when p_archived then now() end)
    on conflict (name) do update
    set archived_at = case when p_archived then coalesce(tenant.archived_at, now()) end
    returning archived_at into since;
    return since;
end $$;

-- Serialises a tenant's changes that its limits count. This lock comes before all others. Tenants
-- without limits do not take it.
create function lock_tenant_1(p_tenant text) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock(hashtext('adjutant tenant'), hashtext(p_tenant));
end $$;

-- Refuses a session that was created under the tenant's lock, if it is one too many.
create function check_sessions_1(p_tenant text, p_max bigint) returns void language plpgsql as $$
begin
    if (select b.sessions from tenant_backlog_1(p_tenant) b) > p_max then
        perform refuse('MAX_SESSIONS_EXCEEDED', format(
            'The tenant has %s sessions, which is all it may have; archive or delete one', p_max
        ));
    end if;
end $$;

-- Resources that the tasks of one dialect have used in a session, children included; with p_until,
-- counting only tasks that had ended by then. They are computed from the tasks' rows, so they
-- survive restarts and cannot drift.
create function quota_used_1(p_session bigint, p_dialect text, p_until timestamptz)
returns table (executions bigint, tokens bigint, running_s double precision) language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    select
        count(*),
        coalesce(sum(
            coalesce(x.input_tokens, t.input_tokens) + coalesce(x.output_tokens, t.output_tokens)
        ), 0)::bigint,
        coalesce(sum(
            t.running_ms / 1000.0 + coalesce(extract(epoch from now() - x.claimed_at), 0)
        ), 0)::double precision
    from task t
    left join slot x on x.task = t.id and x.n > 0
    where t.session = p_session and t.metadata ->> 'dialect' = p_dialect
        and (p_until is null or t.finished_at <= p_until);
end $$;
select plan_by_index('quota_used_1');

-- Refuses a task if its quota is used up. Needs the session's lock: of two concurrent spawns one is
-- counted first.
create function check_quota_1(s session, p_options jsonb) returns void language plpgsql as $$
declare
    quota jsonb := p_options -> 'quota';
    most_executions bigint := quota ->> 'max_executions';
    most_tokens bigint := quota ->> 'max_total_tokens';
    most_s double precision := quota ->> 'max_total_time';
    used record;
    message text;
begin
    select * into used from quota_used_1(s.id, p_options -> 'metadata' ->> 'dialect', null);
    if used.executions >= most_executions then
        message := format('%s executions used, and there are %s', used.executions, most_executions);
    elsif used.running_s >= most_s then
        message := format('%s s of execution used, and there are %s', round(used.running_s::numeric, 1), most_s);
    elsif used.tokens > most_tokens then
        message := format('%s tokens used, and there are %s', used.tokens, most_tokens);
    end if;
    if message is not null then
        perform refuse('MAX_TASKS_EXCEEDED', 'Resource quota exceeded: ' || message);
    end if;
end $$;

-- Shares slots out between tenants, or between pools, by their weights. p_held are the slots that
-- each holds already, and p_most how many more it can use. Tasks take different times, so the share
-- is one of held slots and not of claims.
--
-- A share is rarely a whole number of slots. Each gets the whole part. The last slots go to the
-- next ones in the order of the arrays, which begin behind the last one that got such a slot
-- (extra, in the answer), with a probability that grows with the fraction. The square root is
-- there because one with more slots also frees slots more often.
create function share_out_1(
    p_weights integer[], p_held integer[], p_most integer[], p_slots integer, out counts integer[], out extra integer
) language plpgsql as $$
declare
    size integer := cardinality(p_weights);
    unshared integer := p_slots;
    is_full boolean[] := array_fill(false, array[size]);
    shares boolean[];
    chances double precision[] := array_fill(0, array[size]);
    best double precision;
    weight bigint;
    slots bigint;
    is_final boolean;
begin
    counts := array_fill(0, array[size]);
    loop
        shares := array(select not f from unnest(is_full) f);
        -- Those that hold more than their share get nothing, and do not lessen the others' shares.
        loop
            select coalesce(sum(e.weight), 0), unshared + coalesce(sum(e.held), 0) into weight, slots
            from unnest(p_weights, p_held, shares) e (weight, held, shares)
            where e.shares;
            is_final := true;
            for i in 1..size loop
                if shares[i] and p_held[i] * weight > slots * p_weights[i] then
                    shares[i] := false;
                    is_final := false;
                end if;
            end loop;
            exit when is_final;
        end loop;
        -- Those that cannot use their share leave the rest of it to the others.
        for i in 1..size loop
            if shares[i] and (p_held[i] + p_most[i]) * weight <= slots * p_weights[i] then
                counts[i] := p_most[i];
                is_full[i] := true;
                unshared := unshared - p_most[i];
                is_final := false;
            end if;
        end loop;
        exit when is_final;
    end loop;
    for i in 1..size loop
        if shares[i] then
            counts[i] := slots * p_weights[i] / weight - p_held[i];
            unshared := unshared - counts[i];
            chances[i] := (slots * p_weights[i] % weight) * sqrt(slots * p_weights[i] / weight + 1);
        end if;
    end loop;
    -- What nobody can use is left.
    loop
        best := (select max(c) from unnest(chances) c);
        exit when unshared = 0 or coalesce(best, 0) = 0;
        for i in 1..size loop
            if unshared > 0 and random() * best < chances[i] then
                counts[i] := counts[i] + 1;
                unshared := unshared - 1;
                chances[i] := 0;
                extra := i;
            end if;
        end loop;
    end loop;
end $$;

-- How many of p_want tasks a tenant may start now. Exact: claims for a tenant that has a cap
-- exclude each other, and the slots are counted in a statement of its own, which sees all claims
-- that had the lock before. While another claim has the lock, the tenant is passed over. Slots in
-- p_kept are free.
create function within_cap_1(p_tenant text, p_want integer, p_kept integer[]) returns integer language plpgsql as $$
begin
    if not exists (select from tenant t where t.name = p_tenant and t.cap is not null) then
        return p_want;
    elsif not pg_try_advisory_xact_lock(hashtext('adjutant tenant cap'), hashtext(p_tenant)) then
        return 0;
    end if;
    return greatest(0, least(p_want, (select t.cap from tenant t where t.name = p_tenant) - (
        select count(*) from slot x where x.tenant = p_tenant and x.task is not null and x.n <> all(p_kept)
    )));
end $$;

-- The first tenant behind this one, in the order of their names, with queued tasks of a pool that
-- the worker can run, and the place of its first one. STABLE and without SET clauses, so that
-- PostgreSQL inlines it.
create function next_tenant_1(p_pool text, p_can integer[], p_after text) returns table (tenant text, place tid)
language sql stable as $$
    select q.tenant, q.ctid
    from queue q
    where q.pool = p_pool and q.tenant > p_after and (q.needs is null or q.needs = any(p_can))
    order by q.tenant, q.priority desc, q.entry
    limit 1
$$;

-- The tenants whose turn it is to start p_want tasks of a pool, in the order of their names: first
-- those behind p_after. Only tasks that the worker can run count. places are those of their first
-- tasks, and is_one_each says that there are as many equal tenants without a cap as tasks wanted,
-- and more than one. Of each tenant that it looks at it reads one queue row. It looks at no more
-- than it needs, and at 16 or as many as are wanted (50 at the most), so its cost does not grow
-- with the number of tenants. Tenants at their caps and those in p_done are passed over.
--
-- A tenant is due if it holds less than its share of the slots, and with the probability of the
-- rest if that is less than one slot. p_known are the tenants that hold slots, or did last; the
-- weights of those that do make up the shares. With nothing held the shares are all fractions, and
-- the tenant behind which the search begins is the measure: tenants of equal weight then take
-- turns. If none is due, the answer is all tenants that were looked at.
create function due_tenants_1(
    p_pool text, p_can integer[], p_after text, p_want integer, p_done text[],
    p_known text[], p_weights integer[], p_held integer[],
    out tenants text[], out places tid[], out weights integer[], out held integer[], out room integer[], out is_one_each boolean
) language plpgsql as $$
#variable_conflict use_column
declare
    slots integer := p_want + (select coalesce(sum(h), 0) from unnest(p_held) h);
    last_weight integer := case when slots = p_want then coalesce(p_weights[array_position(p_known, p_after)], 0) else 0 end;
    known_weight integer := last_weight + (
        select coalesce(sum(e.weight), 0) from unnest(p_weights, p_held) e (weight, held) where e.held > 0
    );
    most integer := least(p_want, 50);
    has_settings boolean := exists (select from tenant);
    only_due boolean := true;
begin
    loop
        with recursive behind as (
            select n.* from next_tenant_1(p_pool, p_can, p_after) n
            union all
            select n.* from behind w cross join lateral next_tenant_1(p_pool, p_can, w.tenant) n
        ), before as (
            select n.* from next_tenant_1(p_pool, p_can, '') n where n.tenant <= p_after
            union all
            select n.* from before w cross join lateral next_tenant_1(p_pool, p_can, w.tenant) n where n.tenant <= p_after
        )
        select
            coalesce(array_agg(v.tenant), '{}'), array_agg(v.place), array_agg(v.weight), array_agg(v.held), array_agg(v.room),
            p_want > 1 and count(*) = p_want and bool_and(v.is_uncapped) and min(v.weight) = max(v.weight) and min(v.held) = max(v.held)
        into tenants, places, weights, held, room, is_one_each
        from (
            select *
            from (
                select
                    w.tenant, w.place, coalesce(t.weight, 1) as weight, h.held,
                    coalesce(t.cap - h.held, 10000) as room, t.cap is null as is_uncapped,
                    h.held = 0 and (last_weight = 0 or w.tenant <> p_after) as is_new
                from (select b.* from behind b union all select b.* from before b) w
                cross join lateral (
                    select coalesce(p_held[array_position(p_known, w.tenant)], 0) as held
                ) h
                -- LIMIT keeps this a look-up, also if it was planned while the table was empty.
                left join lateral (
                    select t.weight, t.cap from tenant t where has_settings and t.name = w.tenant limit 1
                ) t on true
                where w.tenant <> all(p_done) and (t.cap is null or t.cap > h.held)
                limit greatest(16, most)
            ) seen
            cross join lateral (
                select slots::double precision / (known_weight + case when seen.is_new then seen.weight else 0 end) as unit
            ) u
            where not only_due or random() * case
                when last_weight > 0 then least(1, greatest(u.unit * seen.weight, u.unit * last_weight))
                else 1
            end < u.unit * seen.weight - seen.held
            limit most
        ) v;
        exit when cardinality(tenants) > 0 or not only_due;
        only_due := false;
        most := greatest(16, most);
    end loop;
end $$;

-- How many of the free slots a claim may take for its pool, if other pools have queued tasks: the
-- pools whose workers could fill slots share them equally. All claims that see the same rows come
-- to the same result, so a slot that one leaves is another one's.
create function pool_share_1(p_pool text, p_want integer, p_free integer, p_kept integer[]) returns integer
language plpgsql as $$
declare
    newest text := coalesce((select x.pool from slot x where x.turn is not null order by x.turn desc limit 1), '');
    pools text[];
    held integer[];
    room integer[];
begin
    select
        array_agg(p.pool order by p.pool <= newest, p.pool),
        array_agg(p.held order by p.pool <= newest, p.pool),
        array_agg(p.room order by p.pool <= newest, p.pool)
    into pools, held, room
    from (
        select w.pool, h.held, case w.pool when p_pool then greatest(r.room, p_want) else r.room end as room
        from (select l.pool, sum(l.concurrency)::integer as places from living_worker l group by l.pool) w
        cross join lateral (
            select count(*)::integer as held
            from slot x
            where x.pool = w.pool and x.task is not null and x.n <> all(p_kept)
        ) h
        -- The workers of a pool are mostly equal.
        cross join lateral (
            select array(
                select unnest(e.can) from (select distinct l.can from living_worker l where l.pool = w.pool) e
            ) as can
        ) c
        cross join lateral (
            select least(w.places - h.held, (
                select count(*)::integer
                from (
                    select from queue q where q.pool = w.pool and (q.needs is null or q.needs = any(c.can)) limit p_free
                ) q
            )) as room
        ) r
    ) p
    where p.room > 0 or p.pool = p_pool;
    -- After an outage no worker may have renewed yet, not even this one.
    if array_position(pools, p_pool) is null then
        return p_want;
    end if;
    return least(p_want, (share_out_1(array_fill(1, array[cardinality(pools)]), held, room, p_free)).counts[array_position(pools, p_pool)]);
end $$;
