-- Keys of the API. A key belongs to a tenant, and whoever shows its secret acts for that tenant. The secret itself is not
-- here: it is found by its digest, so that nothing is compared byte by byte, and who reads this table can call nothing.
create table api_key (
    id uuid primary key,
    tenant text not null check (char_length(tenant) between 1 and 255),
    name text not null check (char_length(name) between 1 and 255),
    digest bytea not null unique check (octet_length(digest) = 32),
    scopes text[] not null check (cardinality(scopes) > 0 and scopes <@ array['delegate', 'read', 'admin']),
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz
);

comment on table api_key is 'Who may call. A revoked key stays, so that one can tell whose it was.';
comment on column api_key.name is 'What its owner calls it.';
comment on column api_key.digest is 'SHA-256 of the secret, which is random enough to need no salt.';
comment on column api_key.scopes is 'delegate, read, admin.';
comment on column api_key.last_used_at is 'To the minute: not every call should write.';

-- The key that is good now, if it is. That it was used is written down once a minute, by whoever does not have to wait for it,
-- and a crash of the server may lose it.
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
    if k.last_used_at is null or k.last_used_at < now() - interval '1 minute' then
        perform commit_lazily_1();
        update api_key
        set last_used_at = now()
        where id = (select id from api_key where id = k.id for no key update skip locked);
    end if;
    return next k;
end $$;

-- Limits of a tenant over all its sessions, for those that have some. The count and what it allows are one: everybody who
-- could add to it has the tenant's lock, which comes before all others.
create function lock_tenant_1(p_tenant text) returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock(hashtext('adjutant tenant'), hashtext(p_tenant));
end $$;

-- What a tenant has. Counts stop above p_most, so that a long backlog costs no more than it has to.
create function tenant_usage_1(p_tenant text, p_most bigint)
returns table (sessions bigint, active bigint, queued bigint) language plpgsql stable as $$
begin
    sessions := (
        select count(*)
        from (select from session s where s.tenant = p_tenant and s.archived_at is null limit p_most) s
    );
    active := (
        select count(*)
        from (
            select
            from task t
            join session s on s.id = t.session
            where s.tenant = p_tenant and t.finished_at is null and t.parent is null
            limit p_most
        ) t
    );
    queued := (
        select count(*)
        from (
            select from task t join session s on s.id = t.session where s.tenant = p_tenant and t.finished_at is null limit p_most
        ) t
    );
    return next;
end $$;

-- spawn, for a tenant with limits. They are looked at afterwards, when it is known whether anything was made: an answer that
-- is given again makes nothing.
create function spawn_within_1(
    p_max_active bigint, p_max_queued bigint, p_session bigint, p_tasks jsonb, p_key text, p_body bytea, p_notices text[],
    p_action text
)
returns table (id uuid, number integer, state text, queue_position integer) language plpgsql as $$
#variable_conflict use_column
declare
    owner text := (select s.tenant from session s where s.id = p_session);
    first integer;
    impatient boolean := exists (select from jsonb_array_elements(p_tasks) t where not (t -> 'queue')::boolean);
    used record;
begin
    perform lock_tenant_1(owner);
    first := (select s.next_number from session s where s.id = p_session);
    return query select * from spawn_1(p_session, p_tasks, p_key, p_body, null, null, null, p_notices, p_action);
    if first = (select s.next_number from session s where s.id = p_session) then
        return;
    end if;
    select * into used from tenant_usage_1(owner, greatest(p_max_active, p_max_queued) + 1);
    if impatient and used.active > p_max_active then
        perform refuse('MAX_TASKS_EXCEEDED', format(
            'With this the tenant would have over %s unfinished tasks; wait for one to end, or spawn with "queue": true',
            p_max_active
        ));
    elsif used.queued > p_max_queued then
        perform refuse('MAX_TASKS_EXCEEDED', format(
            'With this the tenant would have over %s unfinished tasks, which is all it may have', p_max_queued
        ));
    end if;
end $$;

-- After a session was made under the tenant's lock: refuses it, if it is one too many.
create function check_sessions_1(p_tenant text, p_max bigint) returns void language plpgsql as $$
begin
    if (select u.sessions from tenant_usage_1(p_tenant, p_max + 1) u) > p_max then
        perform refuse('MAX_SESSIONS_EXCEEDED', format(
            'The tenant has %s sessions, which is all it may have; archive or delete one', p_max
        ));
    end if;
end $$;
