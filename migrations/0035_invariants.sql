-- Rows that must never exist. Empty on a healthy system, at every instant. Tests check it after
-- every race, and an operator may query it at any time.
create view invariant_violation as
-- The tasks of a deleted session disappear bit by bit, so only those of other sessions count here.
select 'belongs to no session' as violation, t.session, t.id as task
from task t
where not exists (select from session s where s.id = t.session)
    and not exists (select from deleted_session d where d.id = t.session and d.tasks_deleted < t.number)
union all
select 'queued and nowhere, though its session has room', t.session, t.id
from task t
join session s on s.id = t.session
where t.state = 'queued' and t.not_before is null
    and not exists (select from queue q where q.task = t.id)
    and not exists (select from slot x where x.task = t.id)
    and s.max_active > (select count(*) from queue q where q.session = t.session)
    + (select count(*) from slot x where x.session = t.session)
union all
select 'waits for dependencies that have all completed, or for one that never will', t.session, t.id
from task t
join session s on s.id = t.session
where t.waiting_for = 'dependencies' and (
    not exists (
        select from awaited a join task d on d.id = a.on_task
        where a.task = t.id and a.kind = 'dependency' and d.finished_at is null
    ) or exists (
        select from awaited a join task d on d.id = a.on_task
        where a.task = t.id and a.kind = 'dependency' and d.state in ('failed', 'cancelled')
    )
)
union all
select 'waits for children that have ended', t.session, t.id
from task t
join session s on s.id = t.session
where t.waiting_for = 'all_children' and not exists (
    select from awaited a join task c on c.id = a.on_task
    where a.task = t.id and a.kind = 'child' and c.finished_at is null
)
or t.waiting_for = 'any_child' and (
    not exists (select from awaited a where a.task = t.id and a.kind = 'child')
    or exists (
        select from awaited a join task c on c.id = a.on_task
        where a.task = t.id and a.kind = 'child' and c.finished_at is not null
    )
)
union all
-- A raise of many tasks leaves a mark on the next one that it has not come to.
select 'waits for a budget that has room', t.session, t.id
from task t
join session s on s.id = t.session
where t.waiting_for = 'budget' and used_up_budget_1(t.id) is null and not exists (
    select from task m where m.session = t.session and m.waiting_for = 'budget' and m.not_before is not null
)
union all
select 'ran or completed before its dependency completed', t.session, t.id
from awaited a
join task t on t.id = a.task
join session s on s.id = t.session
join task d on d.id = a.on_task
where a.kind = 'dependency' and d.state <> 'completed'
    and (t.state in ('queued', 'completed') or t.attempt > 0 or exists (select from slot x where x.task = t.id))
union all
select 'in the queue or a slot, but ended, waiting, delayed, unknown or of another session', hot.session, hot.task
from (
    select session, task from queue
    union all
    select session, task from slot where task is not null
) hot
left join task t on t.id = hot.task
where t.id is null or t.state <> 'queued' or t.not_before is not null or t.session <> hot.session
union all
select 'in the queue and in a slot', session, task from queue join slot using (session, task)
union all
select 'in two slots', min(session), task from slot where task is not null group by task having count(*) > 1
union all
select 'in the queue under another tenant, pool or priority', t.session, t.id
from queue q
join task t on t.id = q.task
join session s on s.id = t.session
where (q.tenant, q.pool, q.priority) <> (s.tenant, t.pool, t.priority)
union all
select 'waits for itself, through its dependencies', t.session, t.id
from task t
where t.waiting_for = 'dependencies' and exists (
    with recursive before as (
        select a.on_task from awaited a where a.task = t.id and a.kind = 'dependency'
        union
        select a.on_task
        from before b
        join task w on w.id = b.on_task and w.waiting_for = 'dependencies'
        join awaited a on a.task = w.id and a.kind = 'dependency'
    )
    select from before b where b.on_task = t.id
)
union all
select 'not where its parent says it is', t.session, t.id
from task t
join session s on s.id = t.session
left join task p on p.id = t.parent
where t.parent is not null
    and (p.id is null or (t.session, t.root, t.depth) is distinct from (p.session, p.root, p.depth + 1))
union all
select 'its tasks'' numbers have a gap', s.id, null
from session s
left join task t on t.session = s.id
group by s.id
having s.next_number - 1 <> count(t.number) or s.next_number - 1 <> coalesce(max(t.number), 0)
union all
select 'its sums are not those of its tasks', s.id, null
from session s
left join task t on t.session = s.id
group by s.id
having (s.input_tokens, s.output_tokens, s.cost_nanousd)
    <> (coalesce(sum(t.input_tokens), 0), coalesce(sum(t.output_tokens), 0), coalesce(sum(t.cost_nanousd), 0))
union all
select 'its sums are not those of its turns and broken-off calls', t.session, t.id
from task t
join session s on s.id = t.session
left join slot x on x.task = t.id
left join (
    select task, input_tokens, output_tokens, cost_nanousd from turn
    union all
    select task, input_tokens, output_tokens, cost_nanousd from broken_call
) u on u.task = t.id
group by t.id, x.n
having (coalesce(x.input_tokens, t.input_tokens), coalesce(x.output_tokens, t.output_tokens),
        coalesce(x.cost_nanousd, t.cost_nanousd))
    <> (coalesce(sum(u.input_tokens), 0), coalesce(sum(u.output_tokens), 0), coalesce(sum(u.cost_nanousd), 0))
union all
select 'its session is over its window', hot.session, null
from (
    select session from queue
    union all
    select session from slot where task is not null
) hot
join session s on s.id = hot.session
group by hot.session, s.max_active
having count(*) > s.max_active
union all
select 'its events have a gap or a repeat', s.id, null
from session s
left join event e on e.session = s.id
group by s.id
having s.next_event - 1 <> count(e.seq) or coalesce(max(e.seq), 0) <> count(e.seq) or count(distinct e.seq) <> count(e.seq)
union all
select 'its attempts have a gap', t.session, t.id
from task t
join session s on s.id = t.session
left join attempt a on a.task = t.id
group by t.id
having t.attempt <> count(a.attempt) or t.attempt <> coalesce(max(a.attempt), 0)
union all
select 'its turns have a gap', t.session, t.id
from task t
join session s on s.id = t.session
left join slot x on x.task = t.id
left join turn u on u.task = t.id
group by t.id, x.answers, x.turns_used
having coalesce(x.answers, t.answers) <> count(u.number)
    or coalesce(x.answers, t.answers) <> coalesce(max(u.number), 0)
    or coalesce(x.turns_used, t.turns_used) <> count(u.number) filter (where u.kind = 'turn')
union all
select 'a turn is of no attempt of its task', t.session, t.id
from turn u
join task t on t.id = u.task
join session s on s.id = t.session
left join slot x on x.task = t.id
where u.attempt > coalesce(x.attempt, t.attempt)
union all
select 'it runs under the wrong attempt', t.session, t.id
from slot x
join task t on t.id = x.task
where x.attempt <> t.attempt + 1
union all
select 'it ended without a notification, or has one that it should not have', t.session, t.id
from task t
join session s on s.id = t.session
left join notification n on n.task = t.id
where (n.task is not null) <> (t.parent is null and t.state in ('completed', 'failed'))
    or n.state <> t.state
union all
select 'the backlog of its tenant is miscounted', d.session, null
from (
    select
        s.tenant, min(s.id) as session, count(*) filter (where s.is_counted) as sessions,
        sum(t.unfinished) as unfinished, sum(t.roots) as roots, sum(t.waiting) as waiting
    from (
        select id, tenant, archived_at is null as is_counted from session
        union all
        select id, tenant, false from deleted_session
    ) s
    cross join lateral (
        select
            count(*) as unfinished, count(*) filter (where t.parent is null) as roots,
            count(*) filter (where t.state = 'waiting') as waiting
        from task t
        where t.session = s.id and t.finished_at is null
    ) t
    group by s.tenant
) d
cross join lateral tenant_backlog_1(d.tenant) b
where (b.sessions, b.unfinished, b.roots, b.waiting) <> (d.sessions, d.unfinished, d.roots, d.waiting)
union all
-- With fewer tasks than were spawned, sessions were deleted, whose usage stays.
select 'the usage of its tenant is not that of its tasks', d.session, null
from (
    select
        s.tenant, min(s.id) as session, count(t.id) as tasks,
        (
            count(t.finished_at)::numeric, coalesce(sum(t.attempt), 0)::numeric, coalesce(sum(t.turns_used), 0)::numeric,
            coalesce(sum(t.input_tokens), 0), coalesce(sum(t.output_tokens), 0), coalesce(sum(t.cost_nanousd), 0),
            coalesce(sum(t.running_ms), 0)
        ) as used
    from session s
    left join task t on t.session = s.id
    group by s.tenant
) d
cross join lateral (
    select
        coalesce(sum(u.tasks) filter (where u.outcome = 'spawned'), 0) as spawned,
        (
            coalesce(sum(u.tasks) filter (where u.outcome <> 'spawned'), 0), coalesce(sum(u.attempts), 0),
            coalesce(sum(u.turns), 0), coalesce(sum(u.input_tokens), 0), coalesce(sum(u.output_tokens), 0),
            coalesce(sum(u.cost_nanousd), 0), coalesce(sum(u.running_ms), 0)
        ) as used
    from (
        select outcome, tasks, attempts, turns, input_tokens, output_tokens, cost_nanousd, running_ms
        from usage_total
        where tenant = d.tenant
        union all
        select outcome, tasks, attempts, turns, input_tokens, output_tokens, cost_nanousd, running_ms
        from usage_delta
        where tenant = d.tenant and outcome is not null
    ) u
) u
where u.spawned < d.tasks or u.spawned = d.tasks
    and u.used <> d.used
union all
select 'minutes and hours of usage do not add up', null, null
from (
    select sum(tasks) as tasks, sum(attempts) as attempts, sum(cost_nanousd) as cost from usage_total
) t
cross join (
    select sum(tasks) as tasks, sum(attempts) as attempts, sum(cost_nanousd) as cost
    from (
        select tasks, attempts, cost_nanousd from usage_minute
        union all
        select tasks, attempts, cost_nanousd from usage_hour
    ) u
) u
where (t.tasks, t.attempts, t.cost) is distinct from (u.tasks, u.attempts, u.cost);

comment on view invariant_violation is
    'Rows here are bugs. It reads whole tables: for tests and for `adjutant doctor`, not for a '
    'dashboard.';
