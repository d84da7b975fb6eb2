//! A tree of 1 + 3 + 9 + 27 tasks, at a cap below, near and above its size, with workers that
//! die on the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adjutant_agent::TaskId;
use adjutant_script::{Script, When, text};
use serde_json::json;
use sqlx::{Connection, PgConnection};

use crate::support::fleet::{Fleet, to};
use crate::support::proxy::Proxy;
use crate::support::worker_process::WorkerProcess;
use crate::support::world::{World, until};
use crate::worker::delegation::agents::{collect, delegate, wait};

const TASKS: i64 = 1 + 3 + 9 + 27;

fn script() -> Script {
    let mut script = Script::new();
    for level in 1..=3 {
        let child = |n: usize| json!({"agent": format!("level{}", level + 1), "task": format!("{{assignment}}.{n}")});
        script = script
            .on(When::system(format!("You are level {level}.")))
            .then(text("I share it out.").and_call(
                "subagent",
                json!({"action": "batch", "tasks": [child(1), child(2), child(3)]}),
            ))
            .then(wait("all"))
            .then(
                delegate(collect(0))
                    .and_call("subagent", collect(1))
                    .and_call("subagent", collect(2)),
            )
            .then(text("({results/0/result} {results/1/result} {results/2/result})"));
    }
    script.on(When::system("You are level 4.")).then(text("{assignment}"))
}

fn agents() -> String {
    let agent = |level: i32| {
        let delegates = if level < 4 { "may_delegate = true\n" } else { "" };
        format!(
            "[agents.level{level}]\ndescription = \"Level {level}\"\nsystem_prompt = \"You are level {level}.\"\n{delegates}"
        )
    };
    (1..=4).map(agent).collect::<String>() + "[limits]\nmax_depth = 4\n"
}

/// The result of this task: its own name, or the results of its children.
fn answer(name: &str, level: i32) -> String {
    if level == 4 {
        return name.to_owned();
    }
    let below: Vec<String> = (1..=3).map(|n| answer(&format!("{name}.{n}"), level + 1)).collect();
    format!("({})", below.join(" "))
}

/// Polls the slots.
struct Looks {
    done: Arc<AtomicBool>,
    /// The most tasks that waited at once.
    most_waiting: tokio::task::JoinHandle<i64>,
}

impl Looks {
    /// No more tasks run than the cap says, and none that waits has a slot or is in the queue.
    fn start(world: &World, cap: i64) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let (url, over) = (world.url().to_owned(), done.clone());
        let most_waiting = tokio::spawn(async move {
            let mut connection = PgConnection::connect(&url).await.unwrap();
            let mut tick = tokio::time::interval(Duration::from_millis(10));
            let mut most = 0;
            while !over.load(Ordering::SeqCst) {
                tick.tick().await;
                let (used, idle, waiting): (i64, i64, i64) = sqlx::query_as(
                    "select (select count(task) from slot),
                        (select count(*) from task t where t.state = 'waiting' and (
                            exists (select from slot x where x.task = t.id) or exists (select from queue q where q.task = t.id))),
                        (select count(*) from task where state = 'waiting')",
                )
                .fetch_one(&mut connection)
                .await
                .unwrap();
                assert!(used <= cap, "{used} slots in use at cap {cap}");
                assert_eq!(idle, 0, "a task that waits holds something");
                most = most.max(waiting);
            }
            most
        });
        Self { done, most_waiting }
    }

    async fn most_waiting(self) -> i64 {
        self.done.store(true, Ordering::SeqCst);
        self.most_waiting.await.unwrap()
    }
}

async fn plant(wire: &str, cap: i32) -> (Fleet, TaskId) {
    let fleet = Fleet::with(script(), |_| agents()).await;
    fleet.world.store.set_cap(cap).await.unwrap();
    // Its agents are published now.
    drop(WorkerProcess::start(fleet.work().args(["--pool", "of-nobody"])));
    let session = fleet
        .world
        .session_with(|session| {
            session.model = Some(wire.to_owned());
            session.max_active = Some(cap.min(5));
        })
        .await;
    let root = fleet.delegate(session, to("level1", "r")).await;
    (fleet, root)
}

/// Every task has completed once, with the expected result, at the expected depth.
async fn assert_whole(fleet: &Fleet, root: TaskId) {
    let done = fleet.done(root).await;
    done.assert_completed(&answer("r", 1));
    let rows: Vec<(String, String, String, i16, i32)> = sqlx::query_as(
        "select assignment, state, result, depth, turns_used from task order by number",
    )
    .fetch_all(&fleet.world.sql)
    .await
    .unwrap();
    assert_eq!(i64::try_from(rows.len()).unwrap(), TASKS);
    let names: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.0.as_str()).collect();
    assert_eq!(names.len(), rows.len(), "each part was given away once");
    for (name, state, result, depth, turns) in &rows {
        let level = i32::from(*depth);
        assert_eq!((state.as_str(), result), ("completed", &answer(name, level)), "{name}");
        assert_eq!(*turns, if level == 4 { 1 } else { 4 }, "{name}");
    }
    assert_eq!(
        fleet
            .world
            .count("select count(*) from task where root <> (select id from task where number = 1)")
            .await,
        0
    );
    assert_eq!(fleet.world.count("select count(*) from awaited").await, 0, "nobody waits any more");
    fleet.world.assert_ended_once().await;
}

async fn grows_whatever_dies(wire: &str, cap: i32) {
    let (fleet, root) = plant(wire, cap).await;
    let looks = Looks::start(&fleet.world, cap.into());
    // At a cap of 1 the workers run one after the other: each until it dies.
    let faults = ["delegated:kill:2", "parking:kill:2", "after_end:kill:5", "tool_stored:kill:4"];
    for fault in faults {
        let mut work = fleet.work();
        work.env("ADJUTANT_FAULT", fault).args(["--concurrency", "2"]);
        WorkerProcess::run_until_it_kills_itself(&mut work).await;
    }
    let _last = fleet.worker();
    fleet.done(root).await;
    let most_waiting = looks.most_waiting().await;
    assert!(most_waiting > i64::from(cap.min(3)), "only {most_waiting} waited at once");
    assert_whole(&fleet, root).await;
    let lost = fleet.world.count("select count(*) from attempt where outcome = 'lost'").await;
    assert!(lost >= 2, "only {lost} attempts were lost");
    fleet.model.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_17_a_tree_of_40_tasks_at_cap_1_completes_once_whatever_dies() {
    grows_whatever_dies("openai", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_17_a_tree_of_40_tasks_at_cap_4_completes_once_whatever_dies() {
    grows_whatever_dies("anthropic", 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_g_17_a_tree_of_40_tasks_at_cap_50_completes_once_whatever_dies() {
    grows_whatever_dies("openai", 50).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_continues_on_workers_that_started_after_its_waits() {
    let (fleet, root) = plant("openai", 1).await;
    let waiting = "select count(*) from task where state = 'waiting'";
    for parents in 1..=3 {
        let mut worker = fleet.worker();
        until("more parents wait", async || fleet.world.count(waiting).await >= parents).await;
        worker.signal("TERM");
        assert_eq!(worker.exited().await.code(), Some(0));
        assert_eq!(
            fleet.world.count("select count(task) from slot").await,
            0,
            "nobody holds anything"
        );
        assert!(fleet.world.count(waiting).await >= 1, "and still they wait");
    }
    let _last = fleet.worker();
    assert_whole(&fleet, root).await;
    fleet.model.assert_nothing_answered_twice();
    fleet.model.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_parents_cost_no_query_and_no_worker() {
    const PARENTS: i64 = 30;
    let far_off =
        json!({"action": "spawn", "agent": "level4", "task": "{assignment}.1", "delay_s": 3600});
    let script = Script::new()
        .on(When::system("You are level 1."))
        .then(delegate(far_off))
        .then(wait("all"));
    let fleet = Fleet::with(script, |_| agents()).await;
    let mut first = fleet.worker();
    for parent in 0..PARENTS {
        fleet.give("openai", "level1", &format!("r{parent}")).await;
    }
    let waiting = "select count(*) from task where waiting_for = 'all_children'";
    until("all wait", async || fleet.world.count(waiting).await == PARENTS).await;
    first.signal("TERM");
    assert_eq!(first.exited().await.code(), Some(0), "it has nothing to give back");

    let proxy = Proxy::before(&fleet.world).await;
    let second = WorkerProcess::start(&mut fleet.work_at(&proxy.url()));
    renewed(&fleet, &second, 2).await;
    let before = proxy.sent();
    renewed(&fleet, &second, 6).await;
    let request = proxy.sent() - before;
    assert!(request < 30, "{request} queries, while 30 parents wait");
    assert_eq!(fleet.world.count(waiting).await, PARENTS);
    assert_eq!(
        fleet.world.count("select count(*) from attempt").await,
        PARENTS,
        "nobody has touched them"
    );
}

async fn renewed(fleet: &Fleet, worker: &WorkerProcess, times: i32) {
    until("the worker has renewed itself often enough", async || {
        let renewals: i32 = sqlx::query_scalar("select renewals from worker where id = $1")
            .bind(worker.id.0)
            .fetch_one(&fleet.world.sql)
            .await
            .unwrap();
        renewals >= times
    })
    .await;
}
