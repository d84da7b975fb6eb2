-- Snapshots: a task may be spawned with a copy of the shared context as it is then. All that it does with shared_context it does
-- with the copy, its overlay: nobody else sees it, and it sees nothing that others write later. An overlay is a context like that of
-- a session, under a number of its own, so that every action works on it, with the same limits.

create sequence context_overlay as bigint increment by -1 maxvalue -1 start with -1;

alter table task add column context bigint;
comment on column task.context is
    'The overlay that it works on; null: the shared context of its session. Below zero, so that it is no session''s number. Children work on the one of their parent.';
comment on column context_entry.session is 'A session, or below zero the overlay of a task.';
comment on column context_history.session is 'A session, or below zero the overlay of a task: then its history begins with the snapshot.';
comment on column context_snapshot.session is 'A session, or below zero the overlay of a task.';

-- Only tasks that have one are in it.
create index task_context on task (context) where context is not null and finished_at is null;

-- Makes overlays that are what a context is now. Needs the session's lock, which every writer has.
create function copy_context_1(p_context bigint, p_overlays bigint[]) returns void language plpgsql as $$
begin
    insert into context_entry (session, key, value, written_by, written_at, version)
    select o.id, e.key, e.value, e.written_by, e.written_at, e.version
    from unnest(p_overlays) o (id)
    cross join context_entry e
    where e.session = p_context;
    insert into context_history (session, key, value, written_by, written_at, version)
    select e.session, e.key, e.value, e.written_by, e.written_at, e.version
    from context_entry e
    where e.session = any(p_overlays);
    insert into context_snapshot (session, label, version, entries, total_size_tokens, taken_by, taken_at)
    select o.id, c.label, c.version, c.entries, c.total_size_tokens, c.taken_by, c.taken_at
    from unnest(p_overlays) o (id)
    cross join context_snapshot c
    where c.session = p_context;
end $$;

-- An overlay ends in the transaction that ends the last task that works on it, whatever ends that. Whoever ends a task has its
-- session's lock, so two that end at once see each other.
create function forget_overlay_1() returns trigger language plpgsql as $$
begin
    perform from task where context = new.context and finished_at is null;
    if not found then
        delete from context_entry where session = new.context;
        delete from context_history where session = new.context;
        delete from context_snapshot where session = new.context;
    end if;
    return null;
end $$;

create trigger overlays_end_with_their_tasks after update on task for each row
when (new.context is not null and old.finished_at is null and new.finished_at is not null)
execute function forget_overlay_1();

select plan_by_index('copy_context_1');
select plan_by_index('forget_overlay_1');
