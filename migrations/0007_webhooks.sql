-- Webhooks: ends of tasks, sent to a URL. A delivery is written in the transaction that ends its
-- task, so none is lost. A worker sends it later, holding a lease on the delivery and no
-- transaction. The body is rendered from the task, which never changes again, so every try sends
-- the same.

-- Signing needs the secret itself, so it is stored as it is, unlike an API key: a reader of this
-- table can sign.
create table webhook_secret (
    id uuid primary key,
    tenant text not null check (char_length(tenant) between 1 and 255),
    secret bytea not null check (octet_length(secret) between 24 and 64),
    created_at timestamptz not null default now(),
    expires_at timestamptz
);
create index webhook_secret_tenant on webhook_secret (tenant, id);

comment on table webhook_secret is
    'Signs a tenant''s webhooks. Every valid secret adds a signature.';
comment on column webhook_secret.expires_at is
    'When it stops signing: set when a new secret replaces it.';

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
-- Contains only what is yet to be sent: a worker's poll reads its first entry.
create index webhook_delivery_due on webhook_delivery (next_try_at) where state = 'pending';
create index webhook_delivery_tenant on webhook_delivery (tenant, id);
create index webhook_delivery_session on webhook_delivery (session);
create index webhook_delivery_done on webhook_delivery (tried_at) where state <> 'pending';

comment on table webhook_delivery is
    'The end of a task, sent to a URL at least once. Receivers recognise a repeated delivery by '
    'its id.';
comment on column webhook_delivery.next_try_at is
    'When it is sent next. While it is being sent: when its sender is considered dead.';
comment on column webhook_delivery.lease is
    'Random, new with every try: only its holder records the outcome of the try.';

-- Writes deliveries for ended tasks that have a webhook, or whose session has one. Callers pass
-- only those, so an end without a webhook costs nothing. Needs the sessions' locks, as every end
-- does.
create function create_deliveries_1(p_tasks uuid[], p_kinds text[]) returns void language plpgsql as $$
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
select plan_by_index('create_deliveries_1');

-- Whether this transaction has written deliveries. The caller then notifies the senders.
create function has_deliveries_1() returns boolean language plpgsql stable as $$
begin
    return coalesce(current_setting('adjutant.delivers', true), '') = 'yes';
end $$;

-- Claims deliveries that are due, except those to URLs that the sender is busy with: a slow
-- receiver does not delay the others. Those of a deleted session are not sent. Nothing is promised
-- to a caller, so the commit does not wait for the disk.
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
            and exists (select from session s where s.id = d.session)
        order by d.next_try_at
        limit p_limit
        for update of d skip locked
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
        -- One character more than is shown, to find out whether there are more.
        left(coalesce(t.result, t.partial_result), 4004), char_length(coalesce(t.result, t.partial_result)),
        t.turns_used, t.input_tokens, t.output_tokens, t.cost_nanousd, t.created_at, t.finished_at
    from claimed c
    join task t on t.id = c.task
    join session s on s.id = c.session;
end $$;
select plan_by_index('claim_deliveries_1');

-- Records the outcome of a try: delivered, failed for good, again after p_delay, or gone (the
-- receiver answered 410). A sender that has lost the lease changes nothing; the answer is then
-- false.
create function settle_delivery_1(
    p_id uuid, p_lease uuid, p_outcome text, p_delay interval, p_status integer, p_error text
) returns boolean language plpgsql as $$
declare
    held webhook_delivery;
begin
    if p_outcome = 'gone' then
        -- A session is locked before its deliveries, as in its deletion.
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
        -- Not all at once, if there are many: one of the rest gets the same answer.
        update webhook_delivery
        set state = 'failed', next_try_at = null, lease = null, last_error = p_error
        where id = any(array(
            select id from webhook_delivery where session = held.session and url = held.url and state = 'pending' limit 1000
        ));
    end if;
    return true;
end $$;
select plan_by_index('settle_delivery_1');

-- Creates a secret. The previous one stays valid for p_overlap, older ones are deleted: two at a
-- time.
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

comment on view webhook_history is
    'Deliveries of ends to webhooks. Delivered ones are deleted after 7 days, failed ones after '
    '30.';
comment on column webhook_history.id is 'The id of the event: the same in every try.';
comment on column webhook_history.tenant is 'The tenant that owns it.';
comment on column webhook_history.session_id is 'The name of the task''s session on the wire.';
comment on column webhook_history.task_id is 'The task''s name inside its session.';
comment on column webhook_history.task is 'The task''s id outside its session.';
comment on column webhook_history.event is 'task.completed, task.failed or task.cancelled.';
comment on column webhook_history.url is 'The receiver, as configured when the task ended.';
comment on column webhook_history.state is 'pending, delivered or failed.';
comment on column webhook_history.tries is 'How often sending it was started.';
comment on column webhook_history.last_status is
    'The HTTP status of the last answer; null if there was none.';
comment on column webhook_history.last_error is 'Why the last try failed.';
comment on column webhook_history.next_try_at is
    'When a pending one is sent next. While it is being sent: when its sender is considered dead.';
comment on column webhook_history.is_being_sent is 'Whether a worker sends it now.';
comment on column webhook_history.created_at is 'When the task ended.';
comment on column webhook_history.tried_at is 'When it was last sent.';
comment on column webhook_history.delivered_at is 'When the receiver accepted it.';

-- A tenant's deliveries, newest first: that of one task, the one with this id, or a page.
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
