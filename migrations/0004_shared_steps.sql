-- Steps that several verbs share. Every verb that changes which tasks may run is one VOLATILE function whose steps are
-- separate statements at READ COMMITTED: each sees what committed before it began. Merged into one statement they would
-- share one snapshot, and wake-ups would be lost.
--
-- Lock order: session rows in id order, then slots in n order, then task. Claims and renewals take only slots and queue
-- rows and skip what is locked; so a cancel, which waits for queue rows, waits only for who never waits. A name ends in its version: a changed step gets a new name, so that workers of the
-- old and the new release run side by side. They are plpgsql because PostgreSQL 15 plans the body of an SQL function anew at
-- every call.

-- AJ001: the request cannot be granted; the detail is the contract's error code, the message is for its reader.
create function refuse(code text, message text) returns void language plpgsql as $$
begin
    raise exception using errcode = 'AJ001', message = message, detail = code;
end $$;

-- AJ002: the caller's lease is gone, and with it the right to write.
create function lease_lost(task uuid) returns void language plpgsql as $$
begin
    raise exception using errcode = 'AJ002', message = format('the lease on task %s is lost', task);
end $$;

-- Every verb is planned like this, and the steps inside it: once, and by index. The hot tables change their size by the
-- second, so their statistics say nothing; a plan that was made while a table was empty must do when it is full. A plain
-- index scan also marks the dead entries that it meets, so that the next one skips them; a bitmap scan meets them all again.
create function plan_by_index(verb regproc) returns void language plpgsql as $$
begin
    execute format(
        'alter function %s set plan_cache_mode = force_generic_plan set jit = off
         set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off',
        verb::regprocedure
    );
end $$;

-- For claims and renewals only: the commit does not wait for the disk. What a crash of the server can lose is a claim
-- whose task is then in the queue as before, with the worker that believes to hold it fenced off (nobody has its lease
-- any more), or a renewal, whose lease then ends earlier. Nothing that was promised to anyone: whatever a worker does with
-- a claim comes after it in the log, and is durable only together with it. The setting ends with the transaction, which is
-- the verb's own. Should somebody put verbs into one transaction all the same, what was written before keeps it from being
-- lazy, and what promises something afterwards takes it back: commit_durably_1.
create function commit_lazily_1() returns void language plpgsql as $$
begin
    if current_setting('synchronous_commit') <> 'off' and pg_current_xact_id_if_assigned() is null then
        perform
            set_config('adjutant.synchronous_commit', current_setting('synchronous_commit'), true),
            set_config('synchronous_commit', 'off', true);
    end if;
end $$;

create function commit_durably_1() returns void language plpgsql as $$
begin
    if current_setting('adjutant.synchronous_commit', true) <> '' then
        perform set_config('synchronous_commit', current_setting('adjutant.synchronous_commit'), true);
    end if;
end $$;

-- FOR NO KEY UPDATE: FOR UPDATE would block every insert that refers to the session.
create function lock_sessions_1(p_sessions bigint[]) returns bigint[] language plpgsql as $$
begin
    perform commit_durably_1();
    return array(select id from session where id = any(p_sessions) order by id for no key update);
end $$;

-- The answer that was given to this key, if it was; a key that came with another request is refused. Needs the session's
-- lock, so that racers with one key see the first one's answer.
create function answered_1(p_session bigint, p_action text, p_key text, p_body bytea) returns jsonb language plpgsql as $$
declare
    given idempotency;
begin
    select * into given
    from idempotency
    where session = p_session and action = p_action and key = p_key and created_at > now() - interval '24 hours';
    if given.body <> p_body then
        perform refuse('IDEMPOTENCY_CONFLICT', 'This idempotency key was used with another request');
    end if;
    return given.answer;
end $$;

create function remember_1(p_session bigint, p_action text, p_key text, p_body bytea, p_answer jsonb)
returns void language plpgsql as $$
begin
    if p_key is not null then
        insert into idempotency (session, action, key, body, answer)
        values (p_session, p_action, p_key, p_body, p_answer)
        on conflict (session, action, key) do update
        set body = excluded.body, answer = excluded.answer, created_at = excluded.created_at;
    end if;
end $$;

-- Admits tasks to the queue, as many as each session's window has room for. The one way in: spawned, woken, released
-- and taken-over tasks all come through here. What has left its slot runs no more, though its slot may not be free yet. Needs
-- the sessions' locks.
create function let_in_1(p_sessions bigint[], p_left uuid[] default '{}') returns void language plpgsql as $$
begin
    insert into queue (task, session, tenant, pool, priority, entry)
    select
        next.id, next.session, next.tenant, next.pool, next.priority,
        nextval('queue_entry') - case when next.attempt > 0 then 1::bigint << 62 else 0 end
    from (
        select outside.*, s.tenant
        from unnest(p_sessions) given (id)
        join session s on s.id = given.id
        -- One snapshot for both tables: a claim moves rows from one to the other at any time.
        left join (
            select x.session, array_agg(x.task) as tasks
            from slot x
            where x.session = any(p_sessions) and x.task <> all(p_left)
            group by x.session
        ) running on running.session = s.id
        cross join lateral (
            select array(select q.task from queue q where q.session = s.id) || coalesce(running.tasks, '{}') as tasks
            offset 0
        ) hot
        cross join lateral (
            select t.id, t.session, t.pool, t.priority, t.attempt, t.number
            from task t
            where t.session = s.id and t.state = 'queued' and t.not_before is null and t.id <> all(hot.tasks)
            order by (t.attempt = 0), t.number
            limit greatest(0, s.max_active - cardinality(hot.tasks))
        ) outside
        order by outside.session, (outside.attempt = 0), outside.number
        -- The entries are numbered after the sort.
        offset 0
    ) next;
end $$;

-- Tells the world what became of tasks, in the given order: an event each, and a notification where somebody outside waits
-- for the end. Needs the sessions' locks, under which the numbers have no gap.
create function emit_1(p_tasks uuid[], p_kinds text[]) returns void language plpgsql as $$
declare
    told uuid[];
    ends text[];
begin
    if coalesce(cardinality(p_tasks), 0) = 0 then
        return;
    end if;
    with news as (
        select
            t.session, t.id, t.parent, n.kind, t.webhook is not null as is_told,
            row_number() over (partition by t.session order by n.place) as k
        from unnest(p_tasks, p_kinds) with ordinality n (task, kind, place)
        join task t on t.id = n.task
    ), numbered as (
        update session s
        set next_event = s.next_event + c.events
        from (select session, count(*) as events from news group by session) c
        where s.id = c.session
        returning s.id, s.next_event - c.events as first, s.webhook is not null as is_told
    ), notified as (
        insert into notification (task, session, state)
        select id, session, kind
        from news
        where parent is null and kind in ('completed', 'failed')
    ), emitted as (
        insert into event (session, seq, task, kind)
        select news.session, numbered.first + news.k - 1, news.id, news.kind
        from news
        join numbered on numbered.id = news.session
    )
    select array_agg(n.id), array_agg(n.kind) into told, ends
    from news n
    where n.kind in ('completed', 'failed', 'cancelled')
        and (n.is_told or n.session = any(array(select s.id from numbered s where s.is_told)));
    if told is not null then
        perform deliver_1(told, ends);
    end if;
end $$;

-- The next event of a task that runs. Needs the session's lock and the slot's.
create function note_1(held slot, p_kind text, p_turn integer, p_tool text, p_is_error boolean)
returns void language plpgsql as $$
begin
    with numbered as (
        update session set next_event = next_event + 1 where id = held.session returning next_event - 1 as seq
    )
    insert into event (session, seq, task, kind, attempt, started_at, turn, tool, is_error)
    select
        held.session, numbered.seq, held.task, p_kind, held.attempt,
        case when held.announced is distinct from held.lease then held.claimed_at end, p_turn, p_tool, p_is_error
    from numbered;
    if held.announced is distinct from held.lease then
        update slot set announced = lease where n = held.n;
    end if;
end $$;

create function last_text_1(p_task uuid, p_created_at timestamptz) returns text language plpgsql stable as $$
begin
    return (
        select text
        from turn
        where task = p_task and at >= p_created_at - interval '1 day' and text is not null
        order by number desc
        limit 1
    );
end $$;

-- Ends tasks that no slot holds. The caller has taken them out of the queue, and announces and settles them.
create function conclude_1(p_tasks uuid[], p_state text, p_failure text, p_errors text[])
returns void language plpgsql as $$
begin
    if cardinality(p_tasks) = 0 then
        return;
    end if;
    update task t
    set state = p_state,
        waiting_for = null,
        not_before = null,
        failure = p_failure,
        error = e.error,
        partial_result = case when t.answers > 0 then last_text_1(t.id, t.created_at) end,
        finished_at = greatest(now(), t.created_at, t.started_at)
    from unnest(p_tasks, p_errors) e (task, error)
    where t.id = e.task and t.state in ('queued', 'waiting');
end $$;

-- Looks at waiting tasks again, after something they may wait for has changed: those whose dependencies are broken fail,
-- and theirs with them; those with nothing left to wait for wake. It decides from the rows, never from who came last:
-- two ends at the same instant may each believe that the other is still to come. Needs the sessions' locks.
create function settle_1(p_waiting uuid[]) returns void language plpgsql as $$
declare
    waiting uuid[] := p_waiting;
    doomed uuid[];
    reasons text[];
    woken uuid[];
begin
    while cardinality(waiting) > 0 loop
        select
            coalesce(array_agg(t.id order by t.number), '{}'),
            array_agg(format('Dependency %s %s', task_name(broken.number), broken.state) order by t.number)
        into doomed, reasons
        from task t
        cross join lateral (
            select d.number, d.state
            from awaited a
            join task d on d.id = a.on_task
            where a.task = t.id and a.kind = 'dependency' and d.state in ('failed', 'cancelled')
            order by d.number
            limit 1
        ) broken
        where t.id = any(waiting) and t.state = 'waiting' and t.waiting_for = 'dependencies';

        with woke as (
            update task t
            set state = 'queued', waiting_for = null,
                -- A delay outlasts dependencies; the end of a wait for children is over with the wait.
                not_before = case t.waiting_for when 'dependencies' then t.not_before end
            where t.id = any(waiting) and t.id <> all(doomed) and t.state = 'waiting'
                and case t.waiting_for
                    when 'dependencies' then not exists (
                        select from awaited a join task d on d.id = a.on_task
                        where a.task = t.id and a.kind = 'dependency' and d.state <> 'completed'
                    )
                    when 'all_children' then not exists (
                        select from awaited a join task c on c.id = a.on_task
                        where a.task = t.id and a.kind = 'child' and c.finished_at is null
                    )
                    when 'any_child' then not exists (
                        select from awaited a where a.task = t.id and a.kind = 'child'
                    ) or exists (
                        select from awaited a join task c on c.id = a.on_task
                        where a.task = t.id and a.kind = 'child' and c.finished_at is not null
                    )
                end
            returning t.id, t.number
        )
        select coalesce(array_agg(id order by number), '{}') into woken from woke;
        if cardinality(woken) > 0 then
            delete from awaited where task = any(woken) and kind = 'child';
            perform emit_1(woken, array_fill('resumed'::text, array[cardinality(woken)]));
        end if;
        exit when cardinality(doomed) = 0;
        perform conclude_1(doomed, 'failed', 'dependency', reasons);
        perform emit_1(doomed, array_fill('failed'::text, array[cardinality(doomed)]));
        waiting := array(select distinct task from awaited where on_task = any(doomed));
    end loop;
end $$;

create function task_name(number integer) returns text language sql immutable as $$
    select 't_' || case when number < 10 then '0' else '' end || number
$$;

-- Slots become free. Needs their locks.
create function free_1(p_slots integer[]) returns void language plpgsql as $$
begin
    if cardinality(p_slots) > 0 then
        update slot
        set task = null, lease = null, session = null, worker = null, attempt = null,
            claimed_at = null, expires_at = null, active_at = null,
            answers_at_claim = null, answers = null, turns_used = null,
            input_tokens = null, output_tokens = null, cost_nanousd = null
        where n = any(p_slots);
    end if;
end $$;

-- Ends attempts: the attempt is recorded, what the slot knew moves to the task and its session, and the world is told. The
-- caller frees the slots, or fills them again. One statement, because what it writes does not depend on what it writes; the
-- arrays are parallel, and p_places are the places in them that count (null: all). Needs the sessions' locks and then the slots'
-- locks, the fence.
--
-- Most attempts end with nothing but a result. What else there is to say is in details: summary, failure, error,
-- partial_result, waiting_for, delay_s, and for a lost attempt failures, the new count of those.
create function end_attempts_1(
    p_places integer[], p_slots integer[], p_outcomes text[], p_results text[], p_details jsonb[]
) returns void language plpgsql as $$
declare
    told uuid[];
    ends text[];
begin
    with given as materialized (
        select
            x.n, x.task, x.session, x.worker, x.lease, x.attempt, x.claimed_at, x.answers_at_claim, x.answers, x.turns_used,
            x.input_tokens, x.output_tokens, x.cost_nanousd, x.announced, e.outcome, e.result, e.detail, e.place,
            case
                when e.outcome = 'released' then 'queued'
                when e.outcome = 'lost' and e.detail ->> 'failure' is null then 'queued'
                when e.outcome = 'lost' then 'failed'
                else e.outcome
            end as state
        from unnest(p_slots, p_outcomes, p_results, p_details) with ordinality e (slot, outcome, result, detail, place)
        join slot x on x.n = e.slot
        where p_places is null or e.place = any(p_places)
    ), recorded as (
        insert into attempt (task, attempt, session, worker, lease, outcome, turns, claimed_at, ended_at)
        select
            g.task, g.attempt, g.session, g.worker, g.lease, g.outcome, g.answers - g.answers_at_claim, g.claimed_at,
            greatest(now(), g.claimed_at)
        from given g
    ), ended as (
        update task t
        set state = g.state,
            waiting_for = g.detail ->> 'waiting_for',
            not_before = now() + (g.detail ->> 'delay_s')::double precision * interval '1 second',
            failure = g.detail ->> 'failure',
            error = g.detail ->> 'error',
            result = g.result,
            summary = g.detail ->> 'summary',
            partial_result = case
                when g.state in ('failed', 'cancelled') and g.answers > 0
                then coalesce(g.detail ->> 'partial_result', last_text_1(t.id, t.created_at))
                else g.detail ->> 'partial_result'
            end,
            -- We may have waited for a lock while the task was claimed: now() is when the transaction began.
            finished_at = case
                when g.state in ('completed', 'failed', 'cancelled') then greatest(now(), t.created_at, g.claimed_at)
            end,
            attempt = g.attempt,
            failures = coalesce(
                (g.detail ->> 'failures')::smallint, case when g.answers > g.answers_at_claim then 0 else t.failures end
            ),
            started_at = coalesce(t.started_at, g.claimed_at),
            answers = g.answers,
            turns_used = g.turns_used,
            input_tokens = g.input_tokens,
            output_tokens = g.output_tokens,
            cost_nanousd = g.cost_nanousd,
            running_ms = t.running_ms + greatest(0, extract(epoch from now() - g.claimed_at) * 1000)::bigint
        from given g
        where t.id = g.task
        returning t.id, t.session, t.parent, g.outcome, t.webhook is not null as is_told
    ), notified as (
        insert into notification (task, session, state)
        select e.id, e.session, e.outcome
        from ended e
        where e.parent is null and e.outcome in ('completed', 'failed')
    ), numbered as (
        update session s
        set next_event = s.next_event + c.events,
            input_tokens = s.input_tokens + c.input_tokens,
            output_tokens = s.output_tokens + c.output_tokens,
            cost_nanousd = s.cost_nanousd + c.cost_nanousd
        from (
            select
                g.session,
                count(*) as events,
                coalesce(sum(g.input_tokens - t.input_tokens), 0) as input_tokens,
                coalesce(sum(g.output_tokens - t.output_tokens), 0) as output_tokens,
                coalesce(sum(g.cost_nanousd - t.cost_nanousd), 0) as cost_nanousd
            from given g
            -- Only answers cost something, and a null is looked up nowhere. This still sees what the task had before.
            left join task t on t.id = case when g.answers > g.answers_at_claim then g.task end
            group by g.session
        ) c
        where s.id = c.session
        returning s.id, s.next_event - c.events as first, s.webhook is not null as is_told
    ), emitted as (
        insert into event (session, seq, task, kind, attempt, started_at)
        select
            g.session,
            s.first - 1 + row_number() over (partition by g.session order by g.state in ('completed', 'failed'), g.place),
            g.task,
            g.outcome,
            g.attempt,
            case when g.announced is distinct from g.lease then g.claimed_at end
        from given g
        join numbered s on s.id = g.session
    )
    -- Whom webhooks are told of; mostly nobody, which is all that this finds out.
    select array_agg(e.id), array_agg(e.outcome) into told, ends
    from ended e
    where e.outcome in ('completed', 'failed', 'cancelled')
        and (e.is_told or e.session = any(array(select s.id from numbered s where s.is_told)));
    if told is not null then
        perform deliver_1(told, ends);
    end if;
end $$;

-- What follows when tasks have ended or begun to wait: those that waited for them, and those that have begun, are looked at
-- again, and the sessions' next tasks are let in. Needs the sessions' locks.
create function follow_up_1(p_sessions bigint[], p_ended uuid[], p_parked uuid[]) returns void language plpgsql as $$
begin
    perform settle_1(array(select distinct task from awaited where on_task = any(p_ended)) || p_parked);
    perform let_in_1(p_sessions, p_ended);
end $$;
