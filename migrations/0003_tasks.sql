-- Tasks, and what they wait for.

-- There are no foreign keys: whoever inserts holds the session's lock. Single values are checked
-- before they are sent. The constraints here compare the values of one row, and are few, because
-- PostgreSQL re-reads them for every statement that writes.
create table task (
    id uuid primary key,
    session bigint not null,
    number integer not null,
    parent uuid,
    root uuid not null,
    depth smallint not null,
    label text,
    metadata jsonb not null default '{}',
    agent text not null,
    agent_version integer not null default 1,
    config jsonb not null default '{}',
    model text,
    assignment text not null,
    pool text not null default 'default',
    priority smallint not null default 0,
    needs integer,
    not_before timestamptz,
    on_worker_loss loss_rule not null default 'resume',
    max_failures smallint not null default 3,
    traceparent text,
    call text,
    webhook jsonb,
    context bigint,
    state task_state not null,
    waiting_for awaited_kind,
    failure failure_kind,
    result text,
    summary text,
    error text,
    partial_result text,
    answers integer not null default 0,
    turns_used integer not null default 0,
    input_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    cost_nanousd bigint not null default 0,
    running_ms bigint not null default 0,
    attempt integer not null default 0,
    failures smallint not null default 0,
    created_at timestamptz not null default now(),
    started_at timestamptz,
    finished_at timestamptz,
    collected_at timestamptz,
    unique (session, number),
    constraint a_root_is_its_own
        check ((parent is null) = (root = id) and (parent is null) = (depth = 1)),
    constraint finished_exactly_when_terminal
        check ((finished_at is null) = (state in ('queued', 'waiting'))),
    constraint ends_after_it_started check (finished_at >= greatest(created_at, started_at)),
    constraint waits_for_something_exactly_when_waiting
        check ((waiting_for is not null) = (state = 'waiting')),
    constraint fails_for_a_reason check ((failure is not null) = (state = 'failed')),
    constraint says_why_it_failed check ((error is not null) = (failure is not null)),
    constraint has_a_result_exactly_when_completed
        check ((result is not null) = (state = 'completed')),
    constraint summarises_only_a_result check (summary is null or result is not null),
    constraint is_partial_only_without_a_result
        check (partial_result is null or finished_at is not null and result is null),
    constraint collected_only_when_terminal check (collected_at is null or finished_at is not null),
    constraint started_exactly_when_attempted check ((started_at is not null) = (attempt > 0)),
    constraint failures_are_attempts check (failures between 0 and least(attempt, max_failures)),
    constraint delayed_only_before_it_ends check (not_before is null or finished_at is null)
)
-- A task with an assignment and a result of 1 KB each is not compressed: that would be a tenth of
-- the cost of its end.
with (toast_tuple_target = 4080);

comment on table task is
    'One delegated piece of work: one durable row, written at spawn, wait and the end of an '
    'attempt, never by a claim.';
comment on column task.number is 'Its name inside the session: 7 is t_07.';
comment on column task.root is 'The task without a parent at the top of its tree.';
comment on column task.depth is 'Its level in the tree: 1 without a parent, 2 for children of that.';
comment on column task.config is
    'The agent''s configuration, copied at the spawn. retry_of or continues is the id of the task '
    'that this one repeats or whose conversation it continues. Its budget can be raised.';
comment on column task.model is
    'The model in its configuration, which can be long and compressed.';
comment on column task.needs is
    'The requirement that a worker has to satisfy to run it: its model and tools. Null: every '
    'worker can run it.';
comment on column task.not_before is
    'Set only while the task is delayed. For a task that waits for children: when it stops '
    'waiting.';
comment on column task.call is
    'For a child that an agent''s tool call spawned: the turn and the call, so that a repeated '
    'call finds its children.';
comment on column task.webhook is
    'Receives its end, in place of the session''s webhook: url and events.';
comment on column task.context is
    'The overlay of the shared context that it works on; null: the shared context of its session. '
    'Negative, so that it is no session''s id. Children use their parent''s.';
comment on column task.state is
    '"running" is not stored: a task is running while a slot holds it, so a dead worker cannot '
    'leave it behind. See task_history.';
comment on column task.partial_result is 'The last text of a task that did not complete.';
comment on column task.answers is
    'Stored model answers: turns, repeated requests for an answer, and summaries.';
comment on column task.running_ms is
    'Time in slots, summed over ended attempts. A time-out limits it.';
comment on column task.attempt is
    'The number of its last ended attempt; it only grows. Tasks with an attempt go to the front of '
    'the queue.';
comment on column task.failures is
    'Attempts in a row that lost their worker without adding a turn.';

-- The order of admission: tasks that have run before, then by number.
create index task_next on task (session, (attempt = 0), number)
where state = 'queued' and not_before is null;
create index task_unfinished on task (session, number) include (parent) where finished_at is null;
create index task_children on task (parent) where parent is not null;
create index task_delayed on task (not_before) where not_before is not null and finished_at is null;
-- For the sums of a tree. Nearly all tasks are their own root, and not in it.
create index task_tree on task (root) where parent is not null;
-- For searches of failures. Completed tasks are not in it, so a usual end does not write it.
create index task_not_completed on task (id) where state in ('failed', 'cancelled');
-- Contains only tasks with an overlay.
create index task_context on task (context) where context is not null and finished_at is null;

-- The WHEN clause is cheap for updates before the end. AFTER, because a BEFORE trigger locks each
-- row first, whatever its WHEN clause says.
create trigger terminal_tasks_never_change after update on task for each row
when (old.finished_at is not null)
execute function refuse_rewrite_of_the_ended();

create table awaited (
    task uuid not null,
    on_task uuid not null,
    kind text not null check (kind in ('dependency', 'child')),
    primary key (task, on_task),
    check (task <> on_task)
);
create index awaited_by on awaited (on_task);

comment on table awaited is
    'What a task waits for. A dependency must complete; a child only has to end. Child rows are '
    'deleted when the parent wakes.';

create table retried (
    task uuid primary key,
    as_task uuid not null
);

comment on table retried is
    'The tasks that were retried. A retry of all tasks that match a filter leaves them out, so that '
    'it can be repeated.';
comment on column retried.as_task is 'Its first retry.';

-- Failed tries of the model call that a task is making. A call that succeeds at once writes nothing
-- here, and neither does a success after failures: the row counts only while `answers` is that of
-- the task.
create table failed_call (
    task uuid primary key,
    model text not null,
    host text not null,
    answers integer not null check (answers >= 0),
    tries integer not null check (tries >= 0),
    refusals integer not null default 0 check (refusals >= 0),
    max_tries integer not null check (max_tries > 0),
    spent_ms bigint not null default 0 check (spent_ms >= 0),
    status smallint,
    error text not null,
    first_failed_at timestamptz not null default now(),
    last_failed_at timestamptz not null default now(),
    next_try_at timestamptz,
    waits_since timestamptz,
    waits_until timestamptz
) with (fillfactor = 70);
-- For the tasks that wait at a circuit.
create index failed_call_waits on failed_call (model) where waits_since is not null;

comment on table failed_call is
    'The failed tries of the model call under way of a task, over attempts and workers. The row '
    'counts only while `answers` is that of the task.';
comment on column failed_call.model is 'The model of the last try.';
comment on column failed_call.host is 'The host of that model, with its port.';
comment on column failed_call.answers is 'The stored answers of the task before this call.';
comment on column failed_call.tries is
    'Tries that failed, of all models of the call, without refusals.';
comment on column failed_call.refusals is
    'Tries that the provider refused with 401 or 403. They are no fault of the task.';
comment on column failed_call.max_tries is 'After so many tries the task fails.';
comment on column failed_call.spent_ms is
    'Time of these tries and of the pauses between them. Time at a closed gate does not count.';
comment on column failed_call.status is 'The HTTP status of the last failed try, if it had one.';
comment on column failed_call.error is
    'What went wrong in the last try: the status and the kind of the error, or that of the '
    'connection. Never a text of the provider.';
comment on column failed_call.next_try_at is 'When it is tried again; null: at once.';
comment on column failed_call.waits_since is
    'Since when the task waits at a circuit; null: it does not.';
comment on column failed_call.waits_until is
    'When its patience at the circuit ends, and it fails.';

-- The call that a task tries again, as people read it.
create function retrying(f failed_call) returns jsonb language sql stable as $$
    select jsonb_build_object(
        'text', format(
            'model `%s` at %s: %s, %s', f.model, f.host, f.error,
            case when f.waits_since is null then format('try %s of %s, next %s', f.tries, f.max_tries, n.next_try)
            else format('waits until the model accepts calls, next try %s', n.next_try) end
        ),
        'model', f.model, 'host', f.host, 'tries', f.tries, 'max_tries', f.max_tries, 'status', f.status,
        'error', f.error, 'since', f.first_failed_at, 'next_try_at', f.next_try_at
    )
    from (
        select case when f.next_try_at > now() then format('in %s s', ceil(extract(epoch from f.next_try_at - now())))
            else 'now' end
    ) n (next_try)
$$;

-- Refuses a task number that the session does not have, or whose outcome was collected. With
-- p_parent, tasks that are not its children are unknown.
create function refuse_unknown_task_1(p_session bigint, p_number integer, p_parent uuid default null)
returns void language plpgsql as $$
declare
    at timestamptz;
begin
    perform from session where id = p_session;
    if not found then
        perform refuse('SESSION_NOT_FOUND', 'Session not found');
    end if;
    select collected_at into at
    from task
    where session = p_session and number = p_number and (p_parent is null or parent = p_parent);
    if at is not null then
        perform refuse('TASK_NOT_FOUND', format(
            'Task %s was already collected at %s; use read to see its result again', task_name(p_number), format_utc_1(at)
        ));
    end if;
    perform refuse('TASK_NOT_FOUND', format('Task not found: %s', task_name(p_number)));
end $$;
