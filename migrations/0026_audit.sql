-- Who changed what, and when. Spawns and the ordinary calls of agents are not in it.

create table audit (
    id bigint generated always as identity primary key,
    at timestamptz not null default now(),
    tenant text,
    action text not null,
    subject text not null,
    before jsonb,
    after jsonb,
    source text not null check (source in ('api', 'cli')),
    key uuid,
    actor text not null,
    actor_tenant text,
    address inet
);
create index audit_of_tenant on audit (tenant, id);

comment on table audit is
    'Changes by people and their programs, each written in the transaction of the change, and kept '
    'for 400 days. It contains no texts of tasks.';
comment on column audit.tenant is 'The tenant whose things were changed. Null: the fleet.';
comment on column audit.action is
    'task.cancel, tasks.cancel, task.retry, tasks.retry, task.raise, session.raise, session.archive, session.delete, limits.cap, key.create, key.revoke, '
    'tenant.set, tenant.archive, tenant.unarchive, webhook_secret.rotate, webhook_secret.revoke.';
comment on column audit.subject is 'The id or the name of what was changed.';
comment on column audit.source is 'api, or cli for a command that works on the database directly.';
comment on column audit.key is 'The id of the API key. Null: the server needed none.';
comment on column audit.actor is
    'The name of the key, or of the user of the operating system for a command.';
comment on column audit.address is 'The address of the client, behind trusted proxies.';

-- Adds a row for a change of this transaction. Without an actor (a worker, an agent) there is none.
create function audit_1(
    p_actor jsonb, p_tenant text, p_action text, p_subject text, p_before jsonb, p_after jsonb
)
returns boolean language plpgsql as $$
begin
    if p_actor is null then
        return false;
    end if;
    insert into audit (tenant, action, subject, before, after, source, key, actor, actor_tenant, address)
    values (
        p_tenant, p_action, p_subject, p_before, p_after, p_actor ->> 'source', (p_actor ->> 'key')::uuid,
        p_actor ->> 'name', p_actor ->> 'tenant', (p_actor ->> 'address')::inet
    );
    return true;
end $$;

-- What the audit says of a task before a change.
create function audited_task_1(p_task uuid) returns jsonb language plpgsql stable as $$
begin
    return (
        select jsonb_build_object(
            'session', s.name, 'task_id', task_name(t.number),
            'state', case when exists (select from slot x where x.n > 0 and x.task = t.id) then 'running' else t.state::text end
        )
        from task t
        join session s on s.id = t.session
        where t.id = p_task
    );
end $$;

-- Sets the cap for an actor. The slots are locked before the cap is read, as a change locks them,
-- so the row says what this change has replaced.
create function set_cap_as_1(p_cap integer, p_actor jsonb) returns void language plpgsql as $$
declare
    cap_before bigint;
begin
    perform from slot order by n for update;
    select count(*) into cap_before from slot where open;
    perform set_cap_1(p_cap);
    perform audit_1(
        p_actor, null, 'limits.cap', 'fleet', jsonb_build_object('cap', cap_before), jsonb_build_object('cap', p_cap)
    );
end $$;

-- Changes the settings of a tenant for an actor. The lock of its cap is taken before they are read.
create function set_tenant_as_1(p_name text, p_change jsonb, p_actor jsonb) returns void language plpgsql as $$
declare
    settings_before jsonb;
begin
    perform pg_advisory_xact_lock(hashtext('adjutant tenant cap'), hashtext(p_name));
    select jsonb_build_object('weight', weight, 'cap', cap) into settings_before from tenant where name = p_name;
    perform set_tenant_1(p_name, p_change);
    perform audit_1(
        p_actor, p_name, 'tenant.set', p_name, coalesce(settings_before, '{"weight": 1, "cap": null}'),
        (select jsonb_build_object('weight', weight, 'cap', cap) from tenant where name = p_name)
    );
end $$;

-- The rows of a tenant, or of all of them and of the fleet, newest first. The conditions that are
-- null do not count.
create function audits_1(
    p_tenant text, p_action text, p_since timestamptz, p_before bigint, p_limit bigint
)
returns setof audit language plpgsql stable as $$
begin
    return query execute format(
        'select a.* from audit a where %s order by a.id desc limit $5',
        concat_ws(
            ' and ', 'true', case when p_tenant is not null then 'a.tenant = $1' end,
            case when p_action is not null then 'a.action = $2' end, case when p_since is not null then 'a.at >= $3' end,
            case when p_before is not null then 'a.id < $4' end
        )
    )
    using p_tenant, p_action, p_since, p_before, p_limit;
end $$;

-- Deletes rows of more than 400 days: at most the thousand oldest at a time.
create function delete_old_audit_1() returns bigint language plpgsql as $$
declare
    deleted bigint;
begin
    delete from audit
    where id in (select a.id from audit a order by a.id limit 1000 for update skip locked)
        and at < now() - interval '400 days';
    get diagnostics deleted = row_count;
    return deleted;
end $$;
