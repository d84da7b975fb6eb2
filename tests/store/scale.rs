//! What a call reads does not grow with the tasks and sessions of others, nor with history.

use serde_json::Value;
use sqlx::AssertSqlSafe;

use crate::support::world::World;

/// Set to 500000 and 100000 for the figures in docs/performance.md.
const TASKS: i64 = 40_000;
const SESSIONS: i64 = 20_000;

fn scale(variable: &str, usual: i64) -> i64 {
    std::env::var(variable).ok().map_or(usual, |count| count.parse().unwrap())
}

/// Tasks of a big tenant, half of them ended and half queued; and a small tenant with one session,
/// ended tasks whose ends were read, one queued task, and many archived sessions.
async fn crowd(world: &World) {
    let (tasks, sessions) =
        (scale("ADJUTANT_SCALE_TASKS", TASKS), scale("ADJUTANT_SCALE_SESSIONS", SESSIONS));
    let load = format!(
        "insert into session (tenant, name) select 'big', 's' || n from generate_series(1, {sessions}) n;
         insert into session (tenant, name, archived_at) select 'small', 's' || n, now() from generate_series(1, {sessions}) n;
         insert into session (tenant, name, next_number) values ('small', 'own', {tasks} + 2);
         insert into task (id, session, number, root, depth, agent, assignment, state, priority)
         select id, (select min(s.id) from session s) + n % {sessions}, n, id, 1, 'tester', '', 'queued', 9
         from (select n, ordered_uuid() as id from generate_series(1, {tasks}) n) t;
         insert into queue (session, task, tenant, pool, priority, entry)
         select session, id, 'big', pool, priority, nextval('queue_entry') from task;
         insert into usage_delta (tenant, agent, model, outcome, tasks, roots)
         values ('big', 'tester', '', 'spawned', {tasks}, {tasks}), ('small', 'tester', '', 'spawned', {tasks} + 1, {tasks} + 1);
         insert into task (id, session, number, root, depth, agent, assignment, state, result, started_at, attempt, finished_at)
         select id, (select s.id from session s where name = 'own'), n, id, 1, 'tester', '', 'completed', '', now(), 1, now()
         from (select n, ordered_uuid() as id from generate_series(1, {tasks}) n) t;
         insert into notification (session, task, state, read_at)
         select session, id, 'completed', now() from task where state = 'completed';
         insert into usage_delta (tenant, agent, model, outcome, tasks, roots) values ('small', 'tester', '', 'completed', {tasks}, -{tasks});
         insert into task (id, session, number, root, depth, agent, assignment, state)
         select id, (select s.id from session s where name = 'own'), {tasks} + 1, id, 1, 'tester', '', 'queued'
         from (select ordered_uuid() as id) t;
         insert into queue (session, task, tenant, pool, priority, entry)
         select session, id, 'small', pool, priority, nextval('queue_entry') from task where number = {tasks} + 1;"
    );
    sqlx::raw_sql(AssertSqlSafe(load)).execute(&world.sql).await.unwrap();
    world.store.fold_usage().await.unwrap();
    sqlx::raw_sql("vacuum analyze").execute(&world.sql).await.unwrap();
}

/// How many pages a call reads, once its plan is cached.
async fn pages(world: &World, call: &str) -> i64 {
    let mut connection = world.sql.acquire().await.unwrap();
    let mut pages = 0;
    for _ in 0..2 {
        let explain = format!("explain (analyze, buffers, format json) {call}");
        let plan: Value =
            sqlx::query_scalar(AssertSqlSafe(explain)).fetch_one(&mut *connection).await.unwrap();
        let read = |field: &str| plan[0]["Plan"][field].as_i64().unwrap();
        pages = read("Shared Hit Blocks") + read("Shared Read Blocks");
    }
    eprintln!("{pages} pages: {call}");
    pages
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_reads_what_others_have_or_what_is_past() {
    let world = World::new().await;
    crowd(&world).await;
    let own = world.count("select id from session where name = 'own'").await;
    let task: String = sqlx::query_scalar("select task::text from queue where tenant = 'small'")
        .fetch_one(&world.sql)
        .await
        .unwrap();
    for (most, call) in [
        (100, "select * from stats_1('small', null)".to_owned()),
        (100, "select * from stats_1('big', now() - interval '1 day')".to_owned()),
        (50, "select * from tenant_backlog_1('small')".to_owned()),
        (50, "select * from tenant_backlog_1('big')".to_owned()),
        (100, "select * from backlog_1('small')".to_owned()),
        // It looks up a thousand tasks.
        (6000, "select * from backlog_1('big')".to_owned()),
        (50, "select queue_length_1('small', 'default', 0::smallint)".to_owned()),
        (100, format!("select * from queue_positions_1({own}, array['{task}'::uuid])")),
        (100, format!("select * from wait_1({own}, null, null, false, false)")),
        (100, format!("select * from wait_for_notifications_1({own}, null, null, false)")),
        (
            150,
            format!(
                "select * from status_1(array[{own}], array[(select number from task where id = '{task}')])"
            ),
        ),
        (100, format!("select * from why_of_1(array['{task}'::uuid])")),
        (100, format!("select admit_1(array[{own}])")),
        (50, "select check_sessions_1('big', 1000000)".to_owned()),
        (50, "select check_tenant_tasks_1('big', 1000000, 1000000, true)".to_owned()),
    ] {
        let pages = pages(&world, &call).await;
        assert!(pages <= most, "{pages} pages: {call}");
    }
}
