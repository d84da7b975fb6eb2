-- The hot tables: what may be claimed now, and what runs. Backlog and cap bound them. They have no foreign keys:
-- a key's check would lock rows of the big tables for every claim.

create sequence queue_entry;

create table queue (
    session bigint not null,
    task uuid not null,
    tenant text not null,
    pool text not null,
    priority smallint not null,
    entry bigint not null,
    primary key (session, task)
)
-- Claims walk over the entries of those before them until a vacuum takes these out of the indexes, so every vacuum does;
-- cutting the file short would lock everybody out for space that is needed again at once.
with (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0,
    vacuum_index_cleanup = on, vacuum_truncate = off
);
create unique index queue_order on queue (pool, priority desc, entry);

comment on table queue is
    'What may be claimed now. Delayed tasks and those behind their session''s window are not in it.';
comment on column queue.entry is 'Order of entry inside pool and priority; entries in front are negative.';

create table slot (
    n integer primary key,
    open boolean not null default true,
    task uuid,
    lease uuid,
    session bigint,
    worker uuid,
    attempt integer,
    claimed_at timestamptz,
    expires_at timestamptz,
    active_at timestamptz,
    answers_at_claim integer,
    answers integer,
    turns_used integer,
    input_tokens bigint,
    output_tokens bigint,
    cost_nanousd bigint,
    announced uuid,
    constraint free_or_held check (num_nonnulls(
        task, lease, session, worker, attempt, claimed_at, expires_at, active_at,
        answers_at_claim, answers, turns_used, input_tokens, output_tokens, cost_nanousd
    ) in (0, 14)),
    constraint answers_only_grow check (answers >= answers_at_claim)
)
-- Nothing that changes is indexed, and there is room in the page: claims, renewals and ends are HOT updates, which leave no
-- dead entries in an index, and whose dead rows go without a vacuum. A slot is found by its number, which its lease knows.
with (
    fillfactor = 20,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0,
    vacuum_index_cleanup = on, vacuum_truncate = off
);

comment on table slot is
    'The cap: as many tasks run at once as there are open slots. A held slot is the lease of its task.';
comment on column slot.open is
    'A closed slot is never claimed. The claim reads this in the row that it locks: a cap kept elsewhere would come from a snapshot, and be out of date.';
comment on column slot.lease is 'Random, new with every claim: the fence. Whoever does not know it writes nothing.';
comment on column slot.active_at is 'When the holder last stored something.';
comment on column slot.announced is 'The lease whose start is among the events. Another than that of the slot says nothing of it.';
comment on column slot.turns_used is
    'What changes while a task runs lives here, where status reads it, and moves to the task when the attempt ends.';

insert into slot (n) select generate_series(1, 5);

create table worker (
    id uuid primary key,
    name text not null,
    pool text not null check (char_length(pool) between 1 and 255),
    concurrency integer not null check (concurrency > 0),
    version text not null,
    lease interval not null check (lease >= interval '2 seconds'),
    started_at timestamptz not null default now(),
    renewed_at timestamptz not null default now(),
    renewals integer not null default 0 check (renewals >= 0),
    stopped_at timestamptz
) with (fillfactor = 50);

comment on table worker is 'One process start of a worker.';
comment on column worker.renewals is
    'Renewals in a row, none later than a lease after the one before. A sweep needs two: right after a database outage everyone''s lease looks expired.';
