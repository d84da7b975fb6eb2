-- Webhooks: the ends of tasks, told to a URL. A delivery is written in the transaction that ends its task, so none is lost; a worker
-- sends it later, holding a lease on the delivery and no transaction. What is sent is made from the task, which never changes
-- again: every try says the same.

alter table session add column webhook jsonb;
alter table task add column webhook jsonb;

comment on column session.webhook is
    'Who is told how its tasks end: url, events, and disabled_at once the receiver has said that it is gone. Not for children.';
comment on column task.webhook is 'Who is told how it ends, instead of whom its session tells: url and events.';

create domain delivery_state as text check (value in ('pending', 'delivered', 'failed'));

-- Signing needs the secret itself, so it is stored as it is, unlike a key: who reads this table can sign.
create table webhook_secret (
    id uuid primary key,
    tenant text not null check (char_length(tenant) between 1 and 255),
    secret bytea not null check (octet_length(secret) between 24 and 64),
    created_at timestamptz not null default now(),
    expires_at timestamptz
);
create index webhook_secret_tenant on webhook_secret (tenant, id);

comment on table webhook_secret is 'What a tenant''s webhooks are signed with: by every secret that is good now.';
comment on column webhook_secret.expires_at is 'When it is good no longer: set when another takes its place.';

-- UUIDv7: in the order in which they are made, which is also that of the lists.
create function ordered_uuid() returns uuid language sql volatile as $$
    select encode(
        set_bit(set_bit(
            overlay(
                uuid_send(gen_random_uuid())
                placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                from 1 for 6
            ), 52, 1
        ), 53, 1), 'hex'
    )::uuid
$$;

create table webhook_delivery (
    id uuid primary key default ordered_uuid(),
    tenant text not null,
    session bigint not null,
    task uuid not null,
    event text not null check (event in ('task.completed', 'task.failed', 'task.cancelled')),
    url text not null,
    state delivery_state not null default 'pending',
    tries integer not null default 0 check (tries >= 0),
    next_try_at timestamptz default now(),
    lease uuid,
    last_status integer,
    last_error text,
    created_at timestamptz not null default now(),
    tried_at timestamptz,
    delivered_at timestamptz,
    unique (task),
    constraint tried_again_exactly_while_pending check ((next_try_at is not null) = (state = 'pending')),
    constraint leased_only_while_pending check (lease is null or state = 'pending'),
    constraint delivered_at_some_time check ((delivered_at is not null) = (state = 'delivered'))
);
-- As short as what is yet to be sent: a worker's look reads its first entry.
create index webhook_delivery_due on webhook_delivery (next_try_at) where state = 'pending';
create index webhook_delivery_tenant on webhook_delivery (tenant, id);
create index webhook_delivery_session on webhook_delivery (session);
create index webhook_delivery_done on webhook_delivery (tried_at) where state <> 'pending';

comment on table webhook_delivery is
    'The end of a task that is told to a URL, at least once; sent with its id, by which a receiver knows one that it has had.';
comment on column webhook_delivery.next_try_at is
    'When it is sent next. While it is being sent, when its sender is taken for dead.';
comment on column webhook_delivery.lease is 'Random, new with every try: only who has it says what became of the try.';

-- Writes deliveries of the ends of tasks that have a webhook, or whose session has one. Who ends tasks asks only for those; so an
-- end that nobody is told of costs nothing. Needs the sessions' locks, like every end.
create function deliver_1(p_tasks uuid[], p_kinds text[]) returns void language plpgsql as $$
begin
    insert into webhook_delivery (tenant, session, task, event, url)
    select s.tenant, s.id, t.id, 'task.' || e.kind, h.webhook ->> 'url'
    from unnest(p_tasks, p_kinds) e (task, kind)
    join task t on t.id = e.task
    join session s on s.id = t.session
    cross join lateral (
        select coalesce(t.webhook, case when t.parent is null then s.webhook end) as webhook
    ) h
    where h.webhook -> 'events' ? ('task.' || e.kind) and h.webhook ->> 'disabled_at' is null;
    if found then
        perform set_config('adjutant.delivers', 'yes', true);
    end if;
end $$;

-- Whether this transaction has written deliveries: its caller may tell those who send them.
create function delivers_1() returns boolean language plpgsql stable as $$
begin
    return coalesce(current_setting('adjutant.delivers', true), '') = 'yes';
end $$;

-- Takes deliveries that are due for one who sends them, but none to URLs that it is busy with: a slow receiver does not
-- hold up the others. Nothing is promised to anyone, so the commit need not wait for the disk.
create function claim_deliveries_1(p_limit integer, p_busy text[], p_lease interval)
returns table (
    id uuid, lease uuid, tries integer, url text, event text, secrets bytea[],
    session_id text, number integer, task uuid, agent text, label text, metadata jsonb, state text, failure text, error text,
    said text, said_chars integer, turns_used integer, input_tokens bigint, output_tokens bigint, cost_nanousd bigint,
    created_at timestamptz, finished_at timestamptz
) language plpgsql as $$
#variable_conflict use_column
begin
    perform commit_lazily_1();
    return query
    with due as materialized (
        select d.id
        from webhook_delivery d
        where d.state = 'pending' and d.next_try_at <= now() and d.url <> all(p_busy)
        order by d.next_try_at
        limit p_limit
        for update skip locked
    ), claimed as (
        update webhook_delivery d
        set lease = gen_random_uuid(), tries = d.tries + 1, tried_at = now(), next_try_at = now() + p_lease
        from due
        where d.id = due.id
        returning d.*
    )
    select
        c.id, c.lease, c.tries, c.url, c.event,
        array(
            select w.secret
            from webhook_secret w
            where w.tenant = c.tenant and (w.expires_at is null or w.expires_at > now())
            order by w.id desc
        ),
        s.name, t.number, t.id, t.agent, t.label, t.metadata, t.state::text, t.failure::text, t.error,
        -- As much as is shown, and one more, which tells that there is more.
        left(coalesce(t.result, t.partial_result), 4004), char_length(coalesce(t.result, t.partial_result)),
        t.turns_used, t.input_tokens, t.output_tokens, t.cost_nanousd, t.created_at, t.finished_at
    from claimed c
    join task t on t.id = c.task
    join session s on s.id = c.session;
end $$;

-- What became of a try: delivered, failed for good, to be tried again after p_delay, or gone, which the receiver says when it wants
-- nothing more. Whoever has lost the lease on the delivery changes nothing, and is told so.
create function settle_delivery_1(
    p_id uuid, p_lease uuid, p_outcome text, p_delay interval, p_status integer, p_error text
) returns boolean language plpgsql as $$
declare
    held webhook_delivery;
begin
    if p_outcome = 'gone' then
        -- A session is locked before its deliveries, as its deletion does.
        perform lock_sessions_1(array(select d.session from webhook_delivery d where d.id = p_id and d.lease = p_lease));
    end if;
    update webhook_delivery
    set state = case p_outcome when 'again' then 'pending' when 'gone' then 'failed' else p_outcome end,
        next_try_at = case p_outcome when 'again' then now() + p_delay end,
        delivered_at = case p_outcome when 'delivered' then now() end,
        lease = null,
        last_status = p_status,
        last_error = p_error
    where id = p_id and lease = p_lease
    returning * into held;
    if held.id is null then
        return false;
    end if;
    if p_outcome = 'gone' then
        update session
        set webhook = webhook || jsonb_build_object('disabled_at', now())
        where id = held.session and webhook ->> 'url' = held.url and webhook ->> 'disabled_at' is null;
        update webhook_delivery
        set state = 'failed', next_try_at = null, lease = null, last_error = p_error
        where session = held.session and url = held.url and state = 'pending';
    end if;
    return true;
end $$;

-- A new secret. The one before it is good for a while longer, and those before that no more: two at a time.
create function rotate_webhook_secret_1(p_id uuid, p_tenant text, p_secret bytea, p_overlap interval)
returns webhook_secret language plpgsql as $$
declare
    made webhook_secret;
begin
    perform commit_durably_1();
    perform pg_advisory_xact_lock(hashtext('adjutant webhook_secret'), hashtext(p_tenant));
    delete from webhook_secret where tenant = p_tenant and (expires_at is not null or p_overlap <= interval '0');
    update webhook_secret set expires_at = now() + p_overlap where tenant = p_tenant;
    insert into webhook_secret (id, tenant, secret) values (p_id, p_tenant, p_secret) returning * into made;
    return made;
end $$;

select plan_by_index('deliver_1');
select plan_by_index('claim_deliveries_1');
select plan_by_index('settle_delivery_1');

create view webhook_history as
select
    d.id,
    d.tenant,
    s.name as session_id,
    task_name(t.number) as task_id,
    d.task,
    d.event,
    d.url,
    d.state,
    d.tries,
    d.last_status,
    d.last_error,
    d.next_try_at,
    d.lease is not null and d.next_try_at > now() as is_being_sent,
    d.created_at,
    d.tried_at,
    d.delivered_at
from webhook_delivery d
join task t on t.id = d.task
join session s on s.id = d.session;

comment on view webhook_history is 'The ends of tasks that are, or were, told to webhooks. What was delivered goes after 7 days, what failed after 30.';
comment on column webhook_history.id is 'The id of the event: the same in every try, and what a receiver knows it by.';
comment on column webhook_history.tenant is 'Whose it is.';
comment on column webhook_history.session_id is 'The name of the task''s session on the wire.';
comment on column webhook_history.task_id is 'The task''s name inside its session.';
comment on column webhook_history.task is 'The task''s id outside its session.';
comment on column webhook_history.event is 'What is told: task.completed, task.failed or task.cancelled.';
comment on column webhook_history.url is 'Where it is sent, as the webhook said when the task ended.';
comment on column webhook_history.state is 'pending, delivered or failed.';
comment on column webhook_history.tries is 'How often it was sent, or was about to be.';
comment on column webhook_history.last_status is 'The HTTP status of the last answer; null if there was none.';
comment on column webhook_history.last_error is 'What was wrong with the last try.';
comment on column webhook_history.next_try_at is 'When a pending one is sent next; while it is being sent, when its sender is taken for dead.';
comment on column webhook_history.is_being_sent is 'Somebody sends it now.';
comment on column webhook_history.created_at is 'When the task ended.';
comment on column webhook_history.tried_at is 'When it was last sent.';
comment on column webhook_history.delivered_at is 'When the receiver took it.';

-- A tenant's deliveries, the newest first: of a task, the one of this id, or those of a page.
create function deliveries_1(
    p_tenant text, p_task uuid, p_id uuid, p_state text, p_session text, p_before uuid, p_limit bigint
) returns setof webhook_history language plpgsql stable as $$
begin
    if p_task is not null then
        return query select * from webhook_history h where h.task = p_task and h.tenant = p_tenant;
    elsif p_id is not null then
        return query select * from webhook_history h where h.id = p_id and h.tenant = p_tenant;
    else
        return query
        select *
        from webhook_history h
        where h.tenant = p_tenant and h.id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
            and (p_state is null or h.state = p_state) and (p_session is null or h.session_id = p_session)
        order by h.id desc
        limit p_limit;
    end if;
end $$;

select plan_by_index('deliveries_1');
