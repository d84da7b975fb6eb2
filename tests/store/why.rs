//! Why a task waits: each reason in the situation that it is for, and the order of the reasons.

use std::time::Duration;

use adjutant_agent::{SessionId, TaskId, TaskNumber, TaskState, WaitMode};
use adjutant_store::{Dependency, GateCause, NewTask, NewWorker, Spawned, TaskFilter};
use sqlx::AssertSqlSafe;

use crate::store::fairness::limit;
use crate::support::world::{World, queued, task};

/// The code, the sentence and whether there is a time. The status, the list, the record, the view
/// and the history have to agree.
pub async fn why(world: &World, session: SessionId, task: &Spawned) -> (String, String, bool) {
    let status = world.store.status(session, task.number).await.unwrap();
    let why = status.why.clone().expect("it waits");
    let row: (String, String, Option<chrono::DateTime<chrono::Utc>>) =
        sqlx::query_as("select code, text, until from why_waiting where task = $1")
            .bind(task.id.0)
            .fetch_one(&world.sql)
            .await
            .unwrap();
    let history: (Option<String>, Option<String>) =
        sqlx::query_as("select why_code, why_text from task_history where id = $1")
            .bind(task.id.0)
            .fetch_one(&world.sql)
            .await
            .unwrap();
    assert_eq!((Some(&row.0), Some(&row.1)), (history.0.as_ref(), history.1.as_ref()));
    assert_eq!((&row.0, &row.1, row.2), (&why.code, &why.text, why.until));
    let tenant = tenant_of(world, session).await;
    let filter = TaskFilter { tenant: tenant.clone(), ..TaskFilter::default() };
    let page = world.store.tasks(&filter, None, 100).await.unwrap();
    let entry = page.tasks.iter().find(|entry| entry.task.id == task.id).unwrap();
    assert_eq!((&entry.task.why, entry.task.state), (&status.why, status.state));
    let record = world.store.task(&tenant, task.id).await.unwrap();
    assert_eq!(record.entry.task.why, status.why);
    (why.code, why.text, why.until.is_some())
}

async fn tenant_of(world: &World, session: SessionId) -> String {
    sqlx::query_scalar("select tenant from session where id = $1")
        .bind(session.0)
        .fetch_one(&world.sql)
        .await
        .unwrap()
}

pub async fn run_sql(world: &World, statement: &str) {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&world.sql).await.unwrap();
}

#[track_caller]
pub fn assert_why(found: (String, String, bool), code: &str, text: &str, has_time: bool) {
    assert_eq!(found, (code.to_owned(), text.to_owned(), has_time));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_holds_back_a_queued_task_is_named_from_the_most_binding_reason_on() {
    let world = World::new().await;
    let session = world.session().await;
    let tasks = world.spawn(session, 7).await;
    let (first, last) = (&tasks[0], &tasks[6]);
    let none = "No worker of pool default is alive";
    assert_why(why(&world, session, first).await, "no_worker", none, false);
    assert_why(why(&world, session, last).await, "no_worker", none, false);
    let worker = world.worker().await;
    assert_why(why(&world, session, first).await, "next", "A worker is about to start it", false);
    let window = "Its session has 5 tasks in the queue or running, as many as its window allows";
    assert_why(why(&world, session, last).await, "window", window, false);
    world.store.set_cap(0).await.unwrap();
    assert_why(why(&world, session, last).await, "cap", "The cap is 0, so no task starts", false);

    world.store.set_cap(5).await.unwrap();
    assert_eq!(worker.claim(5).await.unwrap().len(), 5);
    let other = world.session().await;
    let waiting = world.spawn(other, 1).await.remove(0);
    let full = "All 5 slots of the fleet are in use";
    assert_why(why(&world, other, &waiting).await, "cap", full, false);
    world.store.set_cap(7).await.unwrap();
    let busy = "All 5 places of the workers of pool default are in use";
    assert_why(why(&world, other, &waiting).await, "workers", busy, false);
    limit(&world, "tenant", Some(5)).await;
    let capped = "Its tenant runs 5 tasks, as many as its cap allows";
    assert_why(why(&world, other, &waiting).await, "tenant", capped, false);
    assert_why(why(&world, session, last).await, "window", window, false);
    assert_eq!(world.store.status(session, first.number).await.unwrap().why, None, "it runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_learns_of_the_fleet_and_of_no_other_tenant() {
    let world = World::new().await;
    let worker = world.worker().await;
    let of =
        async |tenant: &str| world.session_with(|session| session.tenant = tenant.to_owned()).await;
    let (small, large) = (of("small").await, of("large").await);
    world.spawn(large, 4).await;
    assert_eq!(worker.claim(4).await.unwrap().len(), 4);
    world.spawn(small, 1).await;
    assert_eq!(worker.claim(1).await.unwrap().len(), 1);
    let more = world.spawn(large, 1).await.remove(0);
    let one = world.spawn(small, 1).await.remove(0);
    let share = "Its tenant has its share of the slots, and all slots are in use";
    assert_why(why(&world, large, &more).await, "tenant", share, false);
    let full = "All 5 slots of the fleet are in use";
    assert_why(why(&world, small, &one).await, "cap", full, false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_a_closed_gate_and_a_models_limits_have_their_times() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let hour = Duration::from_secs(3600);
    let delayed = NewTask { delay: Some(hour), ..queued() };
    let delayed = world.spawn_one(session, delayed).await;
    assert_why(why(&world, session, &delayed).await, "delay", "It is delayed", true);
    let released = world.spawn(session, 1).await.remove(0);
    let claim = world.claim_one(&worker).await;
    claim.lease.release_for(hour).write().await.unwrap();
    assert_why(why(&world, session, &released).await, "delay", "It is delayed", true);
    run_sql(&world, "update task set model = 'main'").await;
    let cause = GateCause { error: Some("429"), ..GateCause::default() };
    world.store.close_gate("main", hour * 2, cause).await.unwrap();
    let gate = "Calls of model main are held back: 429";
    assert_why(why(&world, session, &released).await, "gate", gate, true);
    assert_why(why(&world, session, &delayed).await, "delay", "It is delayed", true);
    let places = format!(
        "insert into model_waiter (task, model, tenant, place, tokens, due_at) values ('{}', 'main', 'tenant', 1, 1, now())",
        released.id
    );
    run_sql(&world, &places).await;
    let rate = "It waits for its turn under the limits of model main";
    assert_why(why(&world, session, &released).await, "rate", rate, true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_task_names_the_tasks_that_it_waits_for() {
    let world = World::new().await;
    let session = world.session().await;
    let worker = world.worker().await;
    let after = |numbers: &[i32]| NewTask {
        depends_on: numbers.iter().map(|n| Dependency::Task(TaskNumber(*n))).collect(),
        ..queued()
    };
    world.spawn(session, 5).await;
    let dependant = world.spawn_one(session, after(&[1, 2, 3, 4, 5])).await;
    let all = "It depends on t_01, t_02, t_03 and 2 more";
    assert_why(why(&world, session, &dependant).await, "dependency", all, false);
    for _ in 0..4 {
        let claim = world.claim_one(&worker).await;
        claim.lease.complete("done".to_owned(), None).write().await.unwrap();
    }
    assert_why(why(&world, session, &dependant).await, "dependency", "It depends on t_05", false);

    let parent = world.claim_one(&worker).await;
    let children = parent.lease.spawn(&[task(), task()], None).await.unwrap();
    let ids: Vec<TaskId> = children.iter().map(|child| child.id).collect();
    let parent_task = Spawned { id: parent.lease.task(), number: TaskNumber(5), ..dependant };
    parent.lease.wait_at_most(ids, WaitMode::Any, Duration::from_secs(60)).write().await.unwrap();
    let any = "It waits for one of its children: t_07, t_08";
    assert_why(why(&world, session, &parent_task).await, "children", any, true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_lost_worker_waits_for_its_lease_and_does_not_run_after_it() {
    let world = World::new().await;
    let (session, worker, claim) = world.one_running().await;
    let (id, number) = (claim.lease.task(), TaskNumber(1));
    let shown = Spawned { id, number, ..world.spawn(session, 1).await.remove(0) };
    assert_eq!(world.store.status(session, number).await.unwrap().why, None);
    let silent = format!(
        "update worker set renewed_at = now() - interval '16 s' where id = '{}'",
        worker.id()
    );
    run_sql(&world, &silent).await;
    run_sql(&world, "update slot set expires_at = now() + interval '14 s' where task is not null")
        .await;
    let silent = "Its worker does not answer; another one takes it over when its lease ends";
    assert_why(why(&world, session, &shown).await, "lease", silent, true);
    assert_eq!(world.state(session, number).await, TaskState::Running);

    world.expire(claim.lease.id()).await;
    assert_eq!(world.state(session, number).await, TaskState::Queued);
    let lost = "Its worker is lost; another one takes it over";
    assert_why(why(&world, session, &shown).await, "lease", lost, false);
    let stats = world.store.stats("tenant", None).await.unwrap();
    assert_eq!((stats.states["queued"], stats.states["running"], stats.slots.used), (2, 0, 1));
    let fleet = world.store.fleet().await.unwrap();
    assert_eq!((fleet.queued, fleet.pools[0].running), (2, 0));
    for (state, found) in [(TaskState::Queued, 2), (TaskState::Running, 0)] {
        let filter =
            TaskFilter { tenant: "tenant".to_owned(), state: Some(state), ..TaskFilter::default() };
        let page = world.store.tasks(&filter, None, 10).await.unwrap();
        assert_eq!(page.tasks.len(), found, "{state}");
    }

    run_sql(&world, "update worker set renewed_at = now() - interval '1 hour'").await;
    let none = "No worker of pool default is alive";
    assert_why(why(&world, session, &shown).await, "no_worker", none, false);
    let fleet = world.store.fleet().await.unwrap();
    let pool = &fleet.pools[0];
    assert_eq!(
        (pool.name.as_str(), pool.workers, pool.concurrency, pool.running),
        ("default", 0, 0, 0),
        "it is in the metrics, as 0"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_whose_workers_died_is_still_in_the_metrics() {
    let world = World::new().await;
    let new = NewWorker { pool: "gpu".to_owned(), ..NewWorker::default() };
    world.store.register(&new).await.unwrap();
    run_sql(&world, "update worker set renewed_at = now() - interval '2 hours'").await;
    let pools = world.store.fleet().await.unwrap().pools;
    let shown: Vec<_> = pools.iter().map(|pool| (pool.name.as_str(), pool.workers)).collect();
    assert_eq!(shown, [("default", 0), ("gpu", 0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_waiting_tasks_reads_the_fleet_once() {
    let world = World::new().await;
    world.worker().await;
    world.store.set_cap(500).await.unwrap();
    let session = world.session_with(|session| session.max_active = Some(100)).await;
    world.spawn(session, 60).await;
    let mut sql = world.sql.acquire().await.unwrap();
    let reads = "select coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint from pg_stat_xact_user_tables where relname = 'slot'";
    sqlx::raw_sql("begin").execute(&mut *sql).await.unwrap();
    let rows: Vec<(String,)> =
        sqlx::query_as("select code from why_of_1(array(select id from task))")
            .fetch_all(&mut *sql)
            .await
            .unwrap();
    assert_eq!((rows.len(), rows[0].0.as_str()), (60, "next"));
    let read: i64 = sqlx::query_scalar(reads).fetch_one(&mut *sql).await.unwrap();
    sqlx::raw_sql("rollback").execute(&mut *sql).await.unwrap();
    assert!(read <= 500 * 8, "{read} rows of 500 slots were read for 60 tasks");
}
