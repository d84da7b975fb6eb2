-- Views for operators and analysts, and a role that may only read. docs/sql.md has questions that
-- they answer. Nothing here is on the way of a task.

create view turn_history as
select
    s.tenant, s.name as session_id, task_name(t.number) as task_id, u.task, t.agent, u.number, u.attempt, u.kind, u.model,
    u.text, u.input_tokens, u.output_tokens, u.cache_read_tokens, u.cache_write_tokens,
    (u.cost_nanousd / 1e9)::numeric(20, 9) as cost_usd, u.usage_estimated, u.duration_ms, u.at
from turn u
join task t on t.id = u.task
join session s on s.id = t.session;

comment on view turn_history is
    'Every stored answer of a model. A condition on `at` lets PostgreSQL skip the other weeks.';
comment on column turn_history.tenant is 'The tenant that owns the task.';
comment on column turn_history.session_id is 'The session''s name on the wire.';
comment on column turn_history.task_id is 'The task''s name inside the session.';
comment on column turn_history.task is 'The task''s id outside the session.';
comment on column turn_history.agent is 'The name of the task''s agent.';
comment on column turn_history.number is 'Its place in the task: 1, 2, 3 ...';
comment on column turn_history.attempt is 'The attempt of the task that stored it.';
comment on column turn_history.kind is 'Why the model was called; only "turn" counts as a turn used.';
comment on column turn_history.model is 'The model that answered, by its name in the config.';
comment on column turn_history.text is 'The text of the answer, if it has any.';
comment on column turn_history.input_tokens is 'Tokens of the prompt, cached ones too.';
comment on column turn_history.output_tokens is 'Tokens of the answer.';
comment on column turn_history.cache_read_tokens is
    'The part of input_tokens that was read from the provider''s cache.';
comment on column turn_history.cache_write_tokens is
    'The part of input_tokens that was written to the provider''s cache.';
comment on column turn_history.cost_usd is 'Its cost, in US dollars.';
comment on column turn_history.usage_estimated is
    'The provider did not report all tokens, so some are estimated.';
comment on column turn_history.duration_ms is 'How long the call that was answered took.';
comment on column turn_history.at is 'When it was stored.';

create view broken_call_history as
select
    s.tenant, s.name as session_id, task_name(t.number) as task_id, c.task, t.agent, c.attempt, c.answer as turn, c.model,
    c.reason, c.input_tokens, c.output_tokens, (c.cost_nanousd / 1e9)::numeric(20, 9) as cost_usd, c.usage_estimated,
    c.duration_ms, c.at
from broken_call c
join task t on t.id = c.task
join session s on s.id = t.session;

comment on view broken_call_history is
    'Model calls without a stored answer, for which the provider may charge. With turn_history they '
    'are all that a task has used.';
comment on column broken_call_history.tenant is 'The tenant that owns the task.';
comment on column broken_call_history.session_id is 'The session''s name on the wire.';
comment on column broken_call_history.task_id is 'The task''s name inside the session.';
comment on column broken_call_history.task is 'The task''s id outside the session.';
comment on column broken_call_history.agent is 'The name of the task''s agent.';
comment on column broken_call_history.attempt is 'The attempt of the task that made the call.';
comment on column broken_call_history.turn is 'The number of the turn that it would have been.';
comment on column broken_call_history.model is 'The model, by its name in the config.';
comment on column broken_call_history.reason is
    'failed (by the server or the connection), stopped (by the end of its task or its worker), or '
    'unstored (answered too late).';
comment on column broken_call_history.input_tokens is 'Tokens of the prompt.';
comment on column broken_call_history.output_tokens is 'Tokens of what was received.';
comment on column broken_call_history.cost_usd is 'Its cost, in US dollars.';
comment on column broken_call_history.usage_estimated is 'The tokens are estimated.';
comment on column broken_call_history.duration_ms is 'How long the call took.';
comment on column broken_call_history.at is 'When it was counted.';

create view attempt_history as
select
    s.tenant, s.name as session_id, task_name(t.number) as task_id, a.task, t.agent, t.pool, a.attempt,
    a.worker, w.name as worker_name, a.outcome::text as outcome, a.turns, a.claimed_at, a.ended_at,
    (extract(epoch from a.ended_at - a.claimed_at) * 1000)::bigint as running_ms
from attempt a
join task t on t.id = a.task
join session s on s.id = a.session
left join worker w on w.id = a.worker
union all
select
    s.tenant, s.name, task_name(t.number), x.task, t.agent, t.pool, x.attempt,
    x.worker, w.name, 'running', x.answers - x.answers_at_claim, x.claimed_at, null,
    (extract(epoch from now() - x.claimed_at) * 1000)::bigint
from slot x
join task t on t.id = x.task
join session s on s.id = x.session
left join worker w on w.id = x.worker;

comment on view attempt_history is 'Which worker ran a task, when, and how it ended.';
comment on column attempt_history.tenant is 'The tenant that owns the task.';
comment on column attempt_history.session_id is 'The session''s name on the wire.';
comment on column attempt_history.task_id is 'The task''s name inside the session.';
comment on column attempt_history.task is 'The task''s id outside the session.';
comment on column attempt_history.agent is 'The name of the task''s agent.';
comment on column attempt_history.pool is 'The pool whose workers may run the task.';
comment on column attempt_history.attempt is 'Its number in the task: 1, 2, 3 ...';
comment on column attempt_history.worker is 'The id of the worker, one start of a process.';
comment on column attempt_history.worker_name is
    'The worker''s host and process; null 7 days after it stopped.';
comment on column attempt_history.outcome is
    'running, completed, failed, cancelled, released (given back by its worker), waiting, or lost '
    '(its worker died).';
comment on column attempt_history.turns is 'The number of model answers that it added.';
comment on column attempt_history.claimed_at is 'When it began.';
comment on column attempt_history.ended_at is 'When it ended; null while it runs.';
comment on column attempt_history.running_ms is 'How long it held a slot.';

create view tool_call_history as
select
    s.tenant, s.name as session_id, task_name(t.number) as task_id, r.task, t.agent, r.turn, r.call, r.tool, r.attempt,
    r.is_error, r.content, r.duration_ms, r.at
from tool_result r
join task t on t.id = r.task
join session s on s.id = t.session;

comment on view tool_call_history is
    'Every tool call that has a result. A condition on `at` lets PostgreSQL skip the other weeks.';
comment on column tool_call_history.tenant is 'The tenant that owns the task.';
comment on column tool_call_history.session_id is 'The session''s name on the wire.';
comment on column tool_call_history.task_id is 'The task''s name inside the session.';
comment on column tool_call_history.task is 'The task''s id outside the session.';
comment on column tool_call_history.agent is 'The name of the task''s agent.';
comment on column tool_call_history.turn is 'The turn that made the call.';
comment on column tool_call_history.call is 'The call''s id in the turn.';
comment on column tool_call_history.tool is 'The tool''s name; null if the agent has no such tool.';
comment on column tool_call_history.attempt is 'The attempt of the task that stored the result.';
comment on column tool_call_history.is_error is 'Whether the model was given an error.';
comment on column tool_call_history.content is 'What the model was given.';
comment on column tool_call_history.duration_ms is 'How long the call took.';
comment on column tool_call_history.at is 'When the result was stored.';

-- The rollups in one table: hours that have passed two days ago, later ones summed from minutes,
-- and what is not folded yet.
create view tenant_usage as
select
    u.tenant, u.hour, u.agent, u.model, u.outcome, u.failure,
    sum(u.tasks)::bigint as tasks, sum(u.attempts)::bigint as attempts, sum(u.turns)::bigint as turns,
    sum(u.input_tokens)::bigint as input_tokens, sum(u.output_tokens)::bigint as output_tokens,
    (sum(u.cost_nanousd) / 1e9)::numeric(20, 9) as cost_usd,
    sum(u.running_ms)::bigint as running_ms, sum(u.queued_ms)::bigint as queued_ms
from (
    select
        tenant, hour, agent, model, outcome, failure,
        tasks, attempts, turns, input_tokens, output_tokens, cost_nanousd, running_ms, queued_ms
    from usage_hour
    union all
    select
        tenant, date_trunc('hour', minute, 'UTC'), agent, model, outcome, failure,
        tasks, attempts, turns, input_tokens, output_tokens, cost_nanousd, running_ms, queued_ms
    from usage_minute
    union all
    select
        tenant, date_trunc('hour', at, 'UTC'), agent, model, outcome, failure,
        tasks, attempts, turns, input_tokens, output_tokens, cost_nanousd, running_ms, queued_ms
    from usage_delta
    where outcome is not null
) u
group by u.tenant, u.hour, u.agent, u.model, u.outcome, u.failure;

comment on view tenant_usage is
    'What was spawned, how attempts ended and what they used, by the hour. Exact, and its cost does '
    'not depend on the number of tasks. Attempts count when they end.';
comment on column tenant_usage.tenant is 'The tenant.';
comment on column tenant_usage.hour is 'The hour of the spawn, or of the end of the attempt (UTC).';
comment on column tenant_usage.agent is 'The name of the tasks'' agent.';
comment on column tenant_usage.model is
    'The model that the tasks were spawned with; empty: none. A fallback may have answered.';
comment on column tenant_usage.outcome is
    'spawned, or how attempts ended: completed, failed, cancelled, released, waiting, lost.';
comment on column tenant_usage.failure is 'The kind of failure, if the task failed.';
comment on column tenant_usage.tasks is 'Tasks that were spawned, or that ended in this way.';
comment on column tenant_usage.attempts is 'Attempts that ended in this way.';
comment on column tenant_usage.turns is 'Turns of these attempts.';
comment on column tenant_usage.input_tokens is 'Tokens of their prompts.';
comment on column tenant_usage.output_tokens is 'Tokens of their answers.';
comment on column tenant_usage.cost_usd is 'Their cost, in US dollars.';
comment on column tenant_usage.running_ms is 'The time that they held slots.';
comment on column tenant_usage.queued_ms is 'Time from the spawn to the first claim.';

-- usage_total and what is not folded into it yet.
create view usage_so_far as
select
    tenant, agent, model, outcome, tasks, attempts, turns, input_tokens, output_tokens, cost_nanousd, running_ms, queued_ms
from usage_total
union all
select
    tenant, agent, model, outcome, tasks, attempts, turns, input_tokens, output_tokens, cost_nanousd, running_ms, queued_ms
from usage_delta
where outcome is not null;

comment on view usage_so_far is 'The rows that agent_stats and model_stats sum up.';

create view agent_stats as
select
    u.tenant, u.agent,
    coalesce(sum(u.tasks) filter (where u.outcome = 'spawned'), 0)::bigint as spawned,
    coalesce(sum(u.tasks) filter (where u.outcome = 'completed'), 0)::bigint as completed,
    coalesce(sum(u.tasks) filter (where u.outcome in ('failed', 'lost')), 0)::bigint as failed,
    coalesce(sum(u.tasks) filter (where u.outcome = 'cancelled'), 0)::bigint as cancelled,
    coalesce(sum(u.attempts) filter (where u.outcome = 'lost'), 0)::bigint as lost_attempts,
    sum(u.turns)::bigint as turns, sum(u.input_tokens)::bigint as input_tokens, sum(u.output_tokens)::bigint as output_tokens,
    (sum(u.cost_nanousd) / 1e9)::numeric(20, 9) as cost_usd,
    (sum(u.running_ms) / nullif(sum(u.tasks) filter (where u.outcome <> 'spawned'), 0))::bigint as running_ms_per_task,
    (sum(u.queued_ms) / nullif(sum(u.tasks) filter (where u.outcome <> 'spawned'), 0))::bigint as queued_ms_per_task
from usage_so_far u
group by u.tenant, u.agent;

comment on view agent_stats is
    'What each agent has done so far. Exact; its cost does not depend on the number of tasks.';
comment on column agent_stats.tenant is 'The tenant whose tasks they are.';
comment on column agent_stats.agent is 'The name of the agent.';
comment on column agent_stats.spawned is 'Tasks that were spawned.';
comment on column agent_stats.completed is 'Tasks that completed.';
comment on column agent_stats.failed is 'Tasks that failed.';
comment on column agent_stats.cancelled is 'Tasks that were cancelled.';
comment on column agent_stats.lost_attempts is 'Attempts whose worker was lost.';
comment on column agent_stats.turns is 'Turns of ended attempts.';
comment on column agent_stats.input_tokens is 'Tokens of their prompts.';
comment on column agent_stats.output_tokens is 'Tokens of their answers.';
comment on column agent_stats.cost_usd is 'Their cost, in US dollars.';
comment on column agent_stats.running_ms_per_task is 'Time in slots for each task that ended.';
comment on column agent_stats.queued_ms_per_task is
    'Time from the spawn to the first claim for each task that ended.';

create view model_stats as
select
    u.tenant, u.model,
    coalesce(sum(u.tasks) filter (where u.outcome <> 'spawned'), 0)::bigint as tasks,
    sum(u.turns)::bigint as turns, sum(u.input_tokens)::bigint as input_tokens, sum(u.output_tokens)::bigint as output_tokens,
    (sum(u.cost_nanousd) / 1e9)::numeric(20, 9) as cost_usd
from usage_so_far u
group by u.tenant, u.model;

comment on view model_stats is
    'What tasks of each model have used so far. Exact; its cost does not depend on the number of '
    'tasks. turn_history has the model that answered each call.';
comment on column model_stats.tenant is 'The tenant whose tasks they are.';
comment on column model_stats.model is 'The model that the tasks were spawned with; empty: none.';
comment on column model_stats.tasks is 'Tasks that ended.';
comment on column model_stats.turns is 'Turns of ended attempts.';
comment on column model_stats.input_tokens is 'Tokens of their prompts.';
comment on column model_stats.output_tokens is 'Tokens of their answers.';
comment on column model_stats.cost_usd is 'Their cost, in US dollars.';

create view tool_stats as
select
    s.tenant, r.tool, count(*) as calls, count(*) filter (where r.is_error) as errors,
    round(avg(r.duration_ms))::bigint as mean_ms,
    percentile_disc(0.95) within group (order by r.duration_ms) as p95_ms, max(r.duration_ms) as max_ms,
    max(r.at) filter (where r.is_error) as last_error_at
from tool_result r
join task t on t.id = r.task
join session s on s.id = t.session
where r.at > now() - interval '1 day'
group by s.tenant, r.tool;

comment on view tool_stats is 'The tool calls of the last 24 hours, by tool.';
comment on column tool_stats.tenant is 'The tenant whose tasks made the calls.';
comment on column tool_stats.tool is 'The tool''s name; null: tools that the agents do not have.';
comment on column tool_stats.calls is 'Calls that have a result.';
comment on column tool_stats.errors is 'Calls whose result is an error.';
comment on column tool_stats.mean_ms is 'How long a call took on average.';
comment on column tool_stats.p95_ms is 'How long the fastest 95 % of the calls took at most.';
comment on column tool_stats.max_ms is 'How long the slowest call took.';
comment on column tool_stats.last_error_at is 'When the last call failed.';

create view session_cost as
select
    s.tenant, s.name as session_id, s.next_number - 1 as tasks, coalesce(x.running, 0) as running,
    s.input_tokens + coalesce(x.input_tokens, 0) as input_tokens,
    s.output_tokens + coalesce(x.output_tokens, 0) as output_tokens,
    ((s.cost_nanousd + coalesce(x.cost_nanousd, 0)) / 1e9)::numeric(20, 9) as cost_usd,
    (s.max_cost_nanousd / 1e9)::numeric(20, 9) as max_cost_usd, s.created_at, s.archived_at
from session s
left join (
    select
        x.session, count(*) as running, sum(x.input_tokens - t.input_tokens)::bigint as input_tokens,
        sum(x.output_tokens - t.output_tokens)::bigint as output_tokens, sum(x.cost_nanousd - t.cost_nanousd)::bigint as cost_nanousd
    from slot x
    join task t on t.id = x.task
    group by x.session
) x on x.session = s.id;

comment on view session_cost is
    'What each session has used so far, with what its running tasks have used. Exact.';
comment on column session_cost.tenant is 'The tenant that owns it.';
comment on column session_cost.session_id is 'Its name on the wire.';
comment on column session_cost.tasks is 'Tasks that were spawned in it.';
comment on column session_cost.running is 'Tasks of it that hold slots.';
comment on column session_cost.input_tokens is 'Tokens of all prompts.';
comment on column session_cost.output_tokens is 'Tokens of all answers.';
comment on column session_cost.cost_usd is 'Its cost, in US dollars.';
comment on column session_cost.max_cost_usd is 'Its budget; null: none.';
comment on column session_cost.created_at is 'When it was created.';
comment on column session_cost.archived_at is 'When it was archived.';
