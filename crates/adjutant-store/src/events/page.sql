-- The session's creation time prunes partitions; a day of slack allows for a clock that was set
-- back. A turn and its event have the same time, that of their transaction.
select
    s.next_event - 1 as "newest!", e.seq as "seq?", e.task as "task?", t.number as "number?",
    e.kind as "kind?", e.at as "at?", e.attempt as "attempt?", e.started_at as "started_at?",
    e.turn as "turn?", e.tool as "tool?", e.is_error as "is_error?", e.detail as "detail?",
    u.kind as "turn_kind?", u.model as "model?", u.input_tokens as "turn_input?",
    u.output_tokens as "turn_output?", u.cost_nanousd as "turn_cost?", u.duration_ms as "duration_ms?",
    t.failure as "failure?", t.error as "error?", t.input_tokens as "task_input?",
    t.output_tokens as "task_output?", t.cost_nanousd as "task_cost?", t.agent as "agent?",
    t.traceparent as "traceparent?", octet_length(t.assignment) as "assignment_bytes?",
    octet_length(t.result) as "result_bytes?", case when $5 then t.assignment end as "assignment?",
    case when $5 then t.result end as "result?"
from session s
left join lateral (
    select *
    from event
    where event.session = s.id and event.seq > $2 and event.at >= s.created_at - interval '1 day'
        and ($3::uuid is null or event.task = $3)
    order by event.seq
    limit $4
) e on true
left join task t on t.id = e.task
left join turn u on e.kind = 'turn' and u.task = e.task and u.number = e.turn and u.at = e.at
where s.id = $1
order by e.seq
