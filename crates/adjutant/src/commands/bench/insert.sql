insert into yardstick (
    id, session, number, parent, root, depth, label, metadata, agent, agent_version, config, assignment, pool, priority,
    not_before, on_worker_loss, traceparent, state
)
values (
    gen_random_uuid(), 1, 1, null, gen_random_uuid(), 1, null, '{}', 'bench', 1,
    '{"system_prompt": "You take part in a measurement.", "model": "none", "max_turns": 10}',
    repeat('0123456789abcdef', 64), 'default', 0, null, 'resume', null, 'queued'
);
