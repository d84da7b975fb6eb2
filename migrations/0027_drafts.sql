-- Drafts: what models have said of answers that are not stored yet, so that a task that is cancelled in the middle of an
-- answer keeps what was said of it. Workers write them now and then, while a call takes long; none is ever needed, so none is
-- worth the log: they are gone after a crash of the server.
create unlogged table draft (
    lease uuid primary key,
    task uuid not null,
    answer integer not null check (answer > 0),
    text text not null
) with (fillfactor = 50);

comment on table draft is
    'What models have said so far of answers that are not stored yet; seconds old. Only calls that take long have one.';
comment on column draft.lease is 'The attempt that hears it: what an attempt did not finish is never shown for the next one.';
comment on column draft.answer is
    'Which answer this is the beginning of. When that is stored, the draft counts no more, whether or not it is still here.';

-- All of a worker's drafts in one call; those of p_gone are done with. The lock of the slot is the fence, as for every write of
-- a worker; a slot that is locked is about to store the answer, or to end.
create function draft_1(
    p_slots integer[], p_tasks uuid[], p_leases uuid[], p_answers integer[], p_texts text[], p_gone uuid[]
) returns void language plpgsql as $$
#variable_conflict use_column
declare
    held uuid[];
begin
    perform commit_lazily_1();
    delete from draft where lease = any(p_gone);
    held := array(
        select x.lease
        from unnest(p_slots, p_tasks, p_leases) e (slot, task, lease)
        join slot x on x.n = e.slot and x.task = e.task and x.lease = e.lease
        order by x.n
        for update of x skip locked
    );
    insert into draft (lease, task, answer, text)
    select e.lease, e.task, e.answer, e.text
    from unnest(p_tasks, p_leases, p_answers, p_texts) e (task, lease, answer, text)
    where e.lease = any(held)
    on conflict (lease) do update
    set answer = excluded.answer, text = excluded.text
    where (draft.answer, draft.text) <> (excluded.answer, excluded.text);
end $$;

-- What workers left behind that are no more.
create function forget_drafts_1() returns void language plpgsql as $$
begin
    perform commit_lazily_1();
    delete from draft
    where lease in (
        select d.lease
        from draft d
        where not exists (select from slot x where x.lease = d.lease)
        for update of d skip locked
    );
end $$;

select plan_by_index('draft_1');
