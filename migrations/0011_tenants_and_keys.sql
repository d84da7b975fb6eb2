-- Tenants, API keys, and the limits of tenants.

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

-- A key belongs to a tenant, and a request with its secret acts for that tenant. The secret is not
-- stored: it is found by its digest, so no byte-wise comparison leaks timing, and a reader of this
-- table cannot call anything.
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

comment on table api_key is 'Keys of the API. Revoked keys stay, for the record.';
comment on column api_key.name is 'The owner''s name for it.';
comment on column api_key.digest is
    'SHA-256 of the secret, which is random enough to need no salt.';
comment on column api_key.scopes is 'delegate, read, admin.';
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
    left join slot x on x.task = t.id
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
