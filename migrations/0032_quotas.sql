-- Quotas: what the tasks of one dialect may use together in a session, those below others too. They are counted from the tasks'
-- own rows, so nothing is forgotten by a restart and nothing can drift.

-- What the tasks of a dialect in a session have used; of those that had ended by a time, if one is given.
create function quota_used_1(p_session bigint, p_dialect text, p_until timestamptz)
returns table (executions bigint, tokens bigint, running_s double precision) language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    select
        count(*),
        coalesce(sum(
            coalesce(x.input_tokens, t.input_tokens) + coalesce(x.output_tokens, t.output_tokens)
        ), 0)::bigint,
        coalesce(sum(
            t.running_ms / 1000.0 + coalesce(extract(epoch from now() - x.claimed_at), 0)
        ), 0)::double precision
    from task t
    left join slot x on x.task = t.id
    where t.session = p_session and t.metadata ->> 'dialect' = p_dialect
        and (p_until is null or t.finished_at <= p_until);
end $$;

-- Refuses a task if nothing is left for it. Needs the session's lock: of two that come together one is counted first.
create function check_quota_1(s session, p_task jsonb) returns void language plpgsql as $$
declare
    quota jsonb := p_task -> 'quota';
    most_executions bigint := quota ->> 'max_executions';
    most_tokens bigint := quota ->> 'max_total_tokens';
    most_s double precision := quota ->> 'max_total_time';
    used record;
    message text;
begin
    select * into used from quota_used_1(s.id, p_task -> 'metadata' ->> 'dialect', null);
    if used.executions >= most_executions then
        message := format('%s executions used, and there are %s', used.executions, most_executions);
    elsif used.running_s >= most_s then
        message := format('%s s of execution used, and there are %s', round(used.running_s::numeric, 1), most_s);
    elsif used.tokens > most_tokens then
        message := format('%s tokens used, and there are %s', used.tokens, most_tokens);
    end if;
    if message is not null then
        perform refuse('MAX_TASKS_EXCEEDED', 'Resource quota exceeded: ' || message);
    end if;
end $$;

select plan_by_index('quota_used_1');
