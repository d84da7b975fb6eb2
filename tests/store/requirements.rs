//! A worker claims only tasks whose model and tools it has.

use std::time::Duration;

use adjutant_agent::TaskState;
use adjutant_store::{Abilities, NewTask, NewWorker, Worker};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Postgres, Transaction};

use crate::store::fairness::flood;
use crate::support::world::{World, queued, task};

pub const MINUTE: Duration = Duration::from_secs(60);

pub fn abilities(models: &[&str], tools: &[&str]) -> Abilities {
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    Abilities { models: names(models), tools: names(tools), ..Abilities::default() }
}

async fn worker_of(world: &World, pool: &str, models: &[&str], tools: &[&str]) -> Worker {
    let abilities = abilities(models, tools);
    let new = NewWorker { pool: pool.to_owned(), abilities, ..NewWorker::default() };
    world.store.register(&new).await.unwrap()
}

pub async fn worker(world: &World, models: &[&str], tools: &[&str]) -> Worker {
    worker_of(world, "default", models, tools).await
}

/// A task whose agent has this model and these tools, and whose assignment says so.
pub fn needs(model: &str, tools: Value) -> NewTask {
    let config = json!({"model": model, "tools": tools});
    let assignment = format!("{model} {tools}");
    NewTask { config: config.as_object().unwrap().clone(), assignment, ..queued() }
}

pub async fn claimed(worker: &Worker) -> Vec<String> {
    let claims = worker.claim(100).await.unwrap();
    claims.into_iter().map(|claim| claim.assignment.text).collect()
}

/// Makes all tasks that are queued now need this.
async fn require(world: &World, tenant: &str, needs: i32) {
    let change = format!(
        "update task set needs = {needs} where id in (select task from queue where tenant = '{tenant}');
         update queue set needs = {needs} where tenant = '{tenant}'"
    );
    sqlx::raw_sql(AssertSqlSafe(change)).execute(&world.sql).await.unwrap();
}

/// Adds a requirement by a task that is cancelled at once, and returns its id.
pub async fn requirement(world: &World, model: &str) -> i32 {
    let session = world.session().await;
    let spawned = world.spawn_one(session, needs(model, json!([]))).await;
    world.store.cancel(spawned.id).await.unwrap();
    sqlx::query_scalar("select needs from task where id = $1")
        .bind(spawned.id.0)
        .fetch_one(&world.sql)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_claims_only_tasks_whose_model_and_tools_it_has() {
    let world = World::new().await;
    world.store.set_cap(50).await.unwrap();
    let session = world.session_with(|session| session.max_active = Some(50)).await;
    // Workers that were there before the requirements, one that came later, and one of all.
    let big = worker(&world, &["big"], &["fetch", "search"]).await;
    let tasks = [
        needs("big", json!(["search", "shared_context"])),
        needs("small", json!(["fetch"])),
        needs("big", json!(["fetch", "pay"])),
        needs("", json!(["pay"])),
        needs("big", json!([])),
        needs("alias", json!(["fetch"])),
        task(),
    ];
    let text = |place: usize| tasks[place].assignment.clone();
    world.store.spawn(session, &tasks, None).await.unwrap();
    let small = worker(&world, &["small"], &["fetch"]).await;
    let poll = small.poll(&[], MINUTE).await.unwrap();
    assert!(poll.queued && !poll.is_outdated && poll.lacks_tools);
    assert_eq!(claimed(&small).await, [text(1), text(6)], "in the order of the queue");
    assert_eq!(claimed(&small).await, Vec::<String>::new());
    assert!(!small.poll(&[], MINUTE).await.unwrap().queued, "not for this worker");
    assert_eq!(claimed(&big).await, [text(0), text(4)]);
    let any = worker(&world, &["*"], &["fetch"]).await;
    assert_eq!(claimed(&any).await, [text(5)]);
    assert_eq!(claimed(&world.worker().await).await, [text(2), text(3)], "it runs everything");
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_task_is_claimed_by_the_same_rule() {
    let world = World::new().await;
    let session = world.session().await;
    let (able, other) =
        (worker(&world, &["big"], &[]).await, worker(&world, &["small"], &[]).await);
    world.spawn_one(session, needs("big", json!([]))).await;
    let claim = world.claim_one(&able).await;
    claim.lease.release().write().await.unwrap();
    assert_eq!(claimed(&other).await.len(), 0);
    assert_eq!(claimed(&able).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_this_worker_cannot_run_hide_no_others_and_take_no_share() {
    for tenants in [["a", "b"], ["b", "a"]] {
        let [unable, able] = tenants;
        let world = World::new().await;
        world.store.set_cap(50).await.unwrap();
        let big = requirement(&world, "big").await;
        let worker = worker(&world, &["small"], &[]).await;
        flood(&world, unable, "default", 300).await;
        require(&world, unable, big).await;
        flood(&world, unable, "default", 5).await;
        flood(&world, able, "default", 100).await;
        assert_eq!(worker.claim(2).await.unwrap().len(), 2);
        assert_eq!(worker.claim(18).await.unwrap().len(), 18);
        assert_eq!(worker.claim(30).await.unwrap().len(), 30, "every slot is used");
        let of_unable = world.count("select count(*) from slot x join task t on t.id = x.task where t.needs is not null").await;
        assert_eq!(of_unable, 0);
        assert_eq!(world.count("select count(distinct task) from slot").await, 50, "none is twice");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_whose_workers_cannot_run_its_tasks_leaves_its_share_to_others() {
    let world = World::new().await;
    world.store.set_cap(10).await.unwrap();
    let big = requirement(&world, "big").await;
    flood(&world, "a", "gpu", 50).await;
    require(&world, "a", big).await;
    flood(&world, "b", "default", 50).await;
    let _unable = worker_of(&world, "gpu", &["small"], &[]).await;
    let worker = worker(&world, &["small"], &[]).await;
    assert_eq!(worker.claim(10).await.unwrap().len(), 10);
    let able = worker_of(&world, "gpu", &["big"], &[]).await;
    assert_eq!(able.claim(10).await.unwrap().len(), 0, "no slot is free");
}

/// A spawn of a task for the model `big` that is written but not committed.
async fn hold_spawn_for_big(world: &World) -> Transaction<'static, Postgres> {
    let session = world.session().await.0;
    world
        .hold(&format!(
            "select spawn_1(
                row(array[{session}], array[gen_random_uuid()], array['a'], array['x'], array['default'], array[0],
                    array[null::jsonb], array[1], array['resume'], array['{{\"model\": \"big\", \"tools\": []}}'::jsonb])::new_tasks,
                null, null, null, null, null, null
            )"
        ))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_spawns_of_a_combination_share_one_requirement() {
    let world = World::new().await;
    let worker = worker(&world, &["big"], &[]).await;
    let first = hold_spawn_for_big(&world).await;
    let session = world.session().await;
    let store = world.store.clone();
    let second = tokio::spawn(async move {
        store.spawn(session, &[needs("big", json!([])), needs("big", json!([]))], None).await
    });
    world.until_blocked(1).await;
    first.commit().await.unwrap();
    second.await.unwrap().unwrap();
    assert_eq!(world.count("select count(*) from requirement").await, 1);
    assert_eq!(claimed(&worker).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_missed_a_requirement_finds_it_at_its_poll() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = worker(&world, &["big"], &[]).await;
    let renewal = world.hold("select from worker for update").await;
    world.spawn_one(session, needs("big", json!([]))).await;
    renewal.commit().await.unwrap();
    assert_eq!(claimed(&worker).await.len(), 0);
    assert!(worker.poll(&[], MINUTE).await.unwrap().is_outdated);
    worker.update_can().await.unwrap();
    assert!(worker.poll(&[], MINUTE).await.unwrap().queued);
    assert_eq!(claimed(&worker).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_abilities_do_not_miss_a_requirement_that_is_being_added() {
    let world = World::new().await;
    let worker = worker(&world, &[], &[]).await;
    let spawn = hold_spawn_for_big(&world).await;
    let publishing = {
        let worker = worker.clone();
        tokio::spawn(async move { worker.set_abilities(&abilities(&["big"], &[])).await })
    };
    world.until_blocked(1).await;
    spawn.commit().await.unwrap();
    publishing.await.unwrap().unwrap();
    assert_eq!(claimed(&worker).await, ["x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_tools_that_a_task_is_given_are_needed() {
    let world = World::new().await;
    let session = world
        .session_with(|session| {
            session.permissions = Some(adjutant_agent::Permissions {
                allow: Some(vec!["*_file".to_owned(), "fetch".to_owned()]),
                deny: vec!["fetch".to_owned()],
            });
        })
        .await;
    let mut new = needs("", json!(["fetch", "read_file", "pay", "subagent", "shared_context", 7]));
    new.config.insert("skills".to_owned(), json!([{"name": "x", "tools": ["write_file"]}]));
    let of = async |world: &World| -> Vec<String> {
        let tools = "select tools from requirement where id = (select needs from task order by created_at desc limit 1)";
        sqlx::query_scalar(tools).fetch_one(&world.sql).await.unwrap()
    };
    world.spawn_one(session, new.clone()).await;
    assert_eq!(of(&world).await, ["read_file", "write_file"]);
    new.config.insert("missing_tools".to_owned(), json!("ignore"));
    world.spawn_one(session, new).await;
    assert_eq!(of(&world).await, Vec::<String>::new());
    // A configuration is free-form JSON.
    for config in [json!({"tools": 7, "skills": "x"}), json!({"model": {}, "tools": {"a": 1}})] {
        let config = config.as_object().unwrap().clone();
        world.spawn_one(world.session().await, NewTask { config, ..task() }).await;
    }
}

/// The pages that a claim of ten tasks touches.
async fn pages_of_a_claim(needs: bool) -> i64 {
    let world = World::new().await;
    world.store.set_cap(20).await.unwrap();
    let worker = worker(&world, &["big"], &[]).await;
    let id = if needs { requirement(&world, "big").await } else { 0 };
    let session = world.session_with(|session| session.max_active = Some(1000)).await;
    let load = format!(
        "with tasks as (
             insert into task (id, session, number, root, depth, agent, assignment, state, needs)
             select id, {0}, k, id, 1, 'tester', '', 'queued', nullif({id}, 0)
             from (select ordered_uuid() as id, k from generate_series(1, 500) k) t
             returning id, needs
         )
         insert into queue (session, task, tenant, pool, priority, needs, entry)
         select {0}, id, 'tenant', 'default', 0, needs, nextval('queue_entry') from tasks",
        session.0
    );
    sqlx::raw_sql(AssertSqlSafe(load)).execute(&world.sql).await.unwrap();
    for table in ["queue", "task", "slot", "worker"] {
        let vacuum = AssertSqlSafe(format!("vacuum analyze {table}"));
        sqlx::query(vacuum).execute(&world.sql).await.unwrap();
    }
    let mut connection = world.sql.acquire().await.unwrap();
    let claim = format!(
        "explain (analyze, buffers, format json) select * from claim_1('{}', 10)",
        worker.id()
    );
    let mut pages = 0;
    // The first call of a connection also reads the catalogue.
    for _ in 0..2 {
        let plan: Value = sqlx::query_scalar(AssertSqlSafe(claim.clone()))
            .fetch_one(&mut *connection)
            .await
            .unwrap();
        let plan = &plan[0]["Plan"];
        assert_eq!(plan["Actual Rows"].as_f64(), Some(10.0), "{plan}");
        let of = |kind: &str| plan[kind].as_i64().unwrap();
        pages = of("Shared Hit Blocks") + of("Shared Read Blocks");
    }
    pages
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_touches_as_many_pages_with_requirements_as_without() {
    let (without, with) = (pages_of_a_claim(false).await, pages_of_a_claim(true).await);
    assert!(with <= without + 2, "{with} pages with requirements, {without} without");
}

// ---- The patience for tools ----

/// Makes everything in the rows about tools an hour older.
pub async fn an_hour_passes(world: &World) {
    sqlx::raw_sql(
        "update tool_shortage set since = since - interval '1 hour', looked_at = looked_at - interval '1 hour';
         update worker set started_at = started_at - interval '1 hour';
         update task set created_at = created_at - interval '1 hour' where finished_at is null",
    )
    .execute(&world.sql)
    .await
    .unwrap();
}

async fn errors(world: &World) -> Vec<(String, Option<String>, Option<String>)> {
    sqlx::query_as("select assignment, failure, error from task order by number")
        .fetch_all(&world.sql)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_fail_with_the_name_of_a_tool_that_no_living_worker_had_for_too_long() {
    let world = World::new().await;
    let session = world.session_with(|session| session.max_active = Some(20)).await;
    let clerk = worker(&world, &["big"], &["fetch"]).await;
    let mut with_search = abilities(&["big"], &["fetch", "search"]);
    with_search.servers_down.insert("maps".to_owned(), "it is starting".to_owned());
    clerk.set_abilities(&with_search).await.unwrap();
    let tasks = [
        needs("big", json!(["fetch", "serch"])),
        needs("other", json!(["fetch"])),
        needs("big", json!(["search"])),
    ];
    world.store.spawn(session, &tasks, None).await.unwrap();
    let depends = NewTask {
        depends_on: vec![adjutant_store::Dependency::Task(adjutant_agent::TaskNumber(1))],
        ..queued()
    };
    world.spawn_one(session, depends).await;
    assert_eq!(clerk.fail_without_tools(MINUTE).await.unwrap(), [], "the patience begins now");
    an_hour_passes(&world).await;
    world.store.spawn(session, &[needs("big", json!(["fetch", "serch"]))], None).await.unwrap();
    let failed = clerk.fail_without_tools(MINUTE).await.unwrap();
    assert_eq!(failed.len(), 1, "the new task has not waited yet");
    let rows = errors(&world).await;
    let error =
        "No worker of the pool default has the tool \"serch\". MCP server maps: it is starting";
    assert_eq!((rows[0].1.as_deref(), rows[0].2.as_deref()), (Some("tool"), Some(error)));
    assert_eq!(rows[1].1, None, "a task waits for its model");
    assert_eq!(rows[2].1, None, "it only waits for a slot");
    assert_eq!(rows[3].1.as_deref(), Some("dependency"));
    assert_eq!(rows[4].1, None);
    an_hour_passes(&world).await;
    assert_eq!(clerk.fail_without_tools(MINUTE).await.unwrap().len(), 1);
    assert_eq!(claimed(&clerk).await, [tasks[2].assignment.clone()]);
    world.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_living_worker_of_its_pool_a_task_waits_for_its_tools() {
    let world = World::new().await;
    let session = world.session().await;
    let other = worker_of(&world, "gpu", &["big"], &[]).await;
    let able = worker(&world, &["big"], &["search"]).await;
    let spawned = world.spawn_one(session, needs("big", json!(["search"]))).await;
    able.stop().await.unwrap();
    assert_eq!(other.fail_without_tools(MINUTE).await.unwrap(), []);
    an_hour_passes(&world).await;
    assert_eq!(other.fail_without_tools(MINUTE).await.unwrap(), []);
    // Others come, whose MCP server may still be starting.
    let restarted = worker(&world, &["big"], &[]).await;
    assert_eq!(restarted.fail_without_tools(MINUTE).await.unwrap(), []);
    sqlx::raw_sql("update tool_shortage set since = since - interval '1 hour'")
        .execute(&world.sql)
        .await
        .unwrap();
    assert_eq!(restarted.fail_without_tools(MINUTE).await.unwrap(), [], "it has just started");
    assert_eq!(world.state(session, spawned.number).await, TaskState::Queued);
    // The tool comes back before the patience ends, and vanishes again: the patience begins anew.
    restarted.set_abilities(&abilities(&["big"], &["search"])).await.unwrap();
    assert!(restarted.poll(&[], MINUTE).await.unwrap().lacks_tools, "to forget the shortage");
    assert_eq!(restarted.fail_without_tools(MINUTE).await.unwrap(), []);
    assert!(!restarted.poll(&[], MINUTE).await.unwrap().lacks_tools);
    an_hour_passes(&world).await;
    restarted.set_abilities(&abilities(&["big"], &[])).await.unwrap();
    assert_eq!(restarted.fail_without_tools(MINUTE).await.unwrap(), []);
    an_hour_passes(&world).await;
    assert_eq!(restarted.fail_without_tools(MINUTE).await.unwrap(), [spawned.id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_without_tools_fail_in_batches_and_those_of_a_busy_session_later() {
    let world = World::new().await;
    let many = world.session_with(|session| session.max_active = Some(200)).await;
    let busy = world.session().await;
    let clerk = worker(&world, &[], &[]).await;
    world.store.spawn(many, &vec![needs("", json!(["gone"])); 100], None).await.unwrap();
    world.store.spawn(many, &vec![needs("", json!(["gone"])); 50], None).await.unwrap();
    clerk.fail_without_tools(MINUTE).await.unwrap();
    an_hour_passes(&world).await;
    assert_eq!(clerk.fail_without_tools(MINUTE).await.unwrap().len(), 100);
    assert_eq!(clerk.fail_without_tools(MINUTE).await.unwrap().len(), 50);
    world.spawn_one(busy, needs("", json!(["gone"]))).await;
    an_hour_passes(&world).await;
    let held = world.hold(&format!("select from session where id = {} for update", busy.0)).await;
    assert_eq!(clerk.fail_without_tools(MINUTE).await.unwrap(), []);
    held.commit().await.unwrap();
    an_hour_passes(&world).await;
    let claim = world.hold("select from queue for update").await;
    assert_eq!(clerk.fail_without_tools(MINUTE).await.unwrap(), [], "it is being claimed");
    claim.rollback().await.unwrap();
    an_hour_passes(&world).await;
    assert_eq!(clerk.fail_without_tools(MINUTE).await.unwrap().len(), 1);
    world.assert_sound().await;
}
