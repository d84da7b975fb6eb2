with picked as (
    select id from yardstick where state = 'queued' order by number limit 50 for update skip locked
), claimed as (
    update yardstick
    set state = 'running', attempt = attempt + 1, started_at = now()
    from picked
    where yardstick.id = picked.id
    returning yardstick.id
)
select array_agg(id) as tasks from claimed \gset
update yardstick
set state = 'completed', result = repeat('0123456789abcdef', 64), finished_at = now()
where id = any(:tasks);
