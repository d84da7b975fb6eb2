-- How long a queued task is still put off: until then there is nothing to ask for.
create or replace view task_progress as
select
    t.session, t.id, t.number, t.agent, t.label, t.state, t.failure, t.error, t.turns_used, t.input_tokens, t.output_tokens,
    t.cost_nanousd, t.attempt, t.created_at, t.started_at, t.last_activity_at, t.finished_at, t.collected_at,
    case t.state when 'queued' then (select p.place from queue_positions_1(t.session, array[t.id]) p) end as queue_position,
    case when t.state = 'queued' and t.not_before > now() then
        ceil(extract(epoch from t.not_before - now()) * 1000)::bigint
    end as due_in_ms
from task_history t;

comment on column task_progress.due_in_ms is 'How long a queued task may not start yet, in milliseconds.';
