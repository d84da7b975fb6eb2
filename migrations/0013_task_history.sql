-- A configuration is whatever was spawned with it: what is no id is none.
create function config_id(config jsonb, field text) returns uuid language sql immutable as $$
    select substring(config ->> field from '^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$')::uuid
$$;

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
    t.traceparent,
    config_id(t.config, 'retry_of') as retry_of,
    config_id(t.config, 'continues') as continues,
    nullif(t.config ->> 'model', '') as model,
    case
        when jsonb_typeof(t.config -> 'timeout_s') = 'number' then (t.config ->> 'timeout_s')::double precision
    end as timeout_s
from task t
join session s on s.id = t.session
left join slot x on x.task = t.id;

comment on view task_history is 'Every task. "running" is derived from the slot that holds it, so it cannot be stale.';
comment on column task_history.id is 'Its id outside the session (UUIDv7: ordered by creation).';
comment on column task_history.tenant is 'Whose it is.';
comment on column task_history.session_id is 'The session''s name on the wire.';
comment on column task_history.session is 'The session''s row.';
comment on column task_history.task_id is 'Its name inside the session.';
comment on column task_history.number is 'The number in task_id.';
comment on column task_history.parent is 'The task that spawned it; null if an orchestrator did.';
comment on column task_history.root is 'The task without a parent at the top of its tree.';
comment on column task_history.depth is '0 for a task without a parent.';
comment on column task_history.label is 'What its spawner calls it.';
comment on column task_history.metadata is 'What its spawner wrote to it, for its own use.';
comment on column task_history.agent is 'Who was asked.';
comment on column task_history.agent_version is 'Which definition of the agent it was spawned with.';
comment on column task_history.pool is 'Only workers of this pool take it.';
comment on column task_history.priority is 'Higher is sooner.';
comment on column task_history.state is 'queued, running, waiting, completed, failed or cancelled.';
comment on column task_history.waiting_for is 'What a waiting task waits for: dependencies, all_children or any_child.';
comment on column task_history.failure is 'The kind of failure of a failed task.';
comment on column task_history.error is 'Why a failed task failed, in words.';
comment on column task_history.assignment is 'What is asked.';
comment on column task_history.result is 'What came back from a completed task.';
comment on column task_history.summary is 'The short form of the result, if the agent gave one.';
comment on column task_history.partial_result is 'The last text of a task that did not complete.';
comment on column task_history.turns_used is 'Turns of its loop so far: model answers stored, but for a summary and one more try.';
comment on column task_history.input_tokens is 'Tokens of its prompts so far, as the provider counts them.';
comment on column task_history.output_tokens is 'Tokens of its answers so far, as the provider counts them.';
comment on column task_history.cost_nanousd is 'What it has cost so far, in billionths of a US dollar.';
comment on column task_history.cost_usd is 'What it has cost so far, in US dollars.';
comment on column task_history.attempt is 'How often a worker has begun or continued it.';
comment on column task_history.failures is 'Workers lost in a row without progress.';
comment on column task_history.worker is 'Who runs it now.';
comment on column task_history.not_before is 'Until when it is delayed; null once the time has come.';
comment on column task_history.created_at is 'When it was spawned.';
comment on column task_history.started_at is 'When a worker first began it.';
comment on column task_history.last_activity_at is 'When something of it was last stored.';
comment on column task_history.finished_at is 'When it completed, failed or was cancelled.';
comment on column task_history.collected_at is 'When its outcome was handed over.';
comment on column task_history.traceparent is 'The W3C trace that it belongs to.';
comment on column task_history.retry_of is 'The task that it does again.';
comment on column task_history.continues is 'The task whose conversation it goes on with.';
comment on column task_history.model is 'The model it was spawned with, by its name in the config.';
comment on column task_history.timeout_s is 'The longest that it may run, in seconds; null: no limit of its own.';
