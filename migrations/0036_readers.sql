-- The role of readers. It comes after all views.

-- A role for dashboards and analysts: `grant adjutant_read to NAME`. Roles belong to the whole
-- server, so it may be there already; and a user who may not create roles goes without it.
do $$ begin
    if not exists (select from pg_roles where rolname = 'adjutant_read') then
        create role adjutant_read nologin;
    end if;
exception
    when duplicate_object or unique_violation then null;
    when insufficient_privilege then
        raise notice 'the role adjutant_read was not created: only a user with CREATEROLE can';
end $$;
do $$
declare
    readable name;
begin
    if not exists (select from pg_roles where rolname = 'adjutant_read') then
        return;
    end if;
    -- Views only: tables hold API keys' digests and the secrets of webhooks.
    for readable in
        select c.relname from pg_class c where c.relkind = 'v' and c.relnamespace = 'public'::regnamespace
    loop
        execute format('grant select on %I to adjutant_read', readable);
    end loop;
end $$;
