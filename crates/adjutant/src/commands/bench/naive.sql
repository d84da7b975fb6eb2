update yardstick
set state = 'running', attempt = attempt + 1, started_at = now()
where id = (select id from yardstick where state = 'queued' order by number limit 1 for update skip locked)
returning id as task \gset
update yardstick
set state = 'completed', result = repeat('0123456789abcdef', 64), finished_at = now()
where id = :task;
