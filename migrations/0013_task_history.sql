-- For people, and for status: every task with its true state.
create view task_history as
select
    t.id,
    s.tenant,
    s.name as session_id,
    t.session,
    task_name(t.number) as task_id,
    t.number,
    t.parent,
    t.root,
    t.depth,
    t.label,
    t.metadata,
    t.agent,
    t.agent_version,
    t.pool,
    t.priority,
    case when x.task is not null then 'running' else t.state end as state,
    t.waiting_for,
    t.failure,
    t.error,
    t.assignment,
    t.result,
    t.summary,
    t.partial_result,
    coalesce(x.turns_used, t.turns_used) as turns_used,
    coalesce(x.input_tokens, t.input_tokens) as input_tokens,
    coalesce(x.output_tokens, t.output_tokens) as output_tokens,
    coalesce(x.cost_nanousd, t.cost_nanousd) as cost_nanousd,
    (coalesce(x.cost_nanousd, t.cost_nanousd) / 1e9)::numeric(20, 9) as cost_usd,
    coalesce(x.attempt, t.attempt) as attempt,
    t.failures,
    x.worker,
    t.not_before,
    t.created_at,
    coalesce(t.started_at, x.claimed_at) as started_at,
    coalesce(x.active_at, t.finished_at, t.created_at) as last_activity_at,
    t.finished_at,
    t.collected_at,
    t.traceparent
from task t
join session s on s.id = t.session
left join slot x on x.task = t.id;

comment on view task_history is 'Every task. "running" is derived from the slot that holds it, so it cannot be stale.';
comment on column task_history.id is 'Its id outside the session (UUIDv7: ordered by creation).';
comment on column task_history.session_id is 'The session''s name on the wire.';
comment on column task_history.session is 'The session''s row.';
comment on column task_history.task_id is 'Its name inside the session.';
comment on column task_history.state is 'queued, running, waiting, completed, failed or cancelled.';
comment on column task_history.waiting_for is 'What a waiting task waits for: dependencies, all_children or any_child.';
comment on column task_history.failure is 'The kind of failure of a failed task.';
comment on column task_history.turns_used is 'Turns of its loop so far: model answers stored, but for a summary and one more try.';
comment on column task_history.attempt is 'How often a worker has begun or continued it.';
comment on column task_history.failures is 'Workers lost in a row without progress.';
comment on column task_history.worker is 'Who runs it now.';
comment on column task_history.last_activity_at is 'When something of it was last stored.';
