//! The table "a bad day" of docs/operate.md, played with real processes: for each trouble the line
//! of `doctor`, of `watch` and of a log that names it, as the table has it.

use std::cell::RefCell;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use adjutant_agent::{AgentConfig, SessionId};
use adjutant_script::{Script, When, status, text, tool_call};
use adjutant_store::NewDelegation;
use serde_json::json;
use sqlx::AssertSqlSafe;

use crate::cli::client_commands::{adjutant, stderr, stdout};
use crate::faults::bad_day_table::{Line, row};
use crate::faults::shim::Shim;
use crate::support::fleet::{CLERK, Fleet, model_config, to};
use crate::support::load::simulation;
use crate::support::private_postgres::PostgresServer;
use crate::support::process::Process;
use crate::support::test_server::TestServer;
use crate::support::worker_process::{WorkerProcess, simulate};
use crate::support::world::{World, queued, until, until_within};

/// A lease that neither ends nor counts as overdue while a row is played.
const LONG_LEASE: (&str, &str) = ("ADJUTANT_LEASE_SECONDS", "600");

/// How long a line may take to appear.
const LONGEST: Duration = Duration::from_secs(60);

const CHECK_OFTEN: &str = "[server]\nfleet_check_s = 1\n";

struct Day<'a> {
    world: &'a World,
    server: &'a TestServer,
}

impl Day<'_> {
    fn says(&self, command: &str, more: &[&str]) -> String {
        let url = format!("http://{}", self.server.address);
        let mut line = adjutant(&url, &[command]);
        let output = tokio::task::block_in_place(|| line.args(more).output()).unwrap();
        stdout(&output) + &stderr(&output)
    }

    /// Waits until `doctor`, `watch` and the logs have the lines of this row.
    async fn is_named(&self, trouble: &str, worker: Option<&Process>) {
        self.is_said(trouble).await;
        let row = row(trouble);
        prints("the server", &row.server_log, || self.server.stderr()).await;
        match worker {
            Some(worker) => prints("the worker", &row.worker_log, || worker.stderr()).await,
            None => assert!(row.worker_log.is_empty(), "{trouble}: no worker is looked at"),
        }
    }

    async fn is_said(&self, trouble: &str) {
        let row = row(trouble);
        let url = self.world.url();
        prints("doctor", &row.doctor, || self.says("doctor", &["--database-url", url])).await;
        prints("watch", &row.watch, || self.says("watch", &["--once"])).await;
    }
}

/// Waits until each of the documented lines is printed.
async fn prints(what: &str, documented: &[Line], print: impl Fn() -> String) {
    let printed = RefCell::new(String::new());
    for line in documented {
        let is_printed = until_within(LONGEST * 2, "a documented line is printed", async || {
            // The clock of the timeout goes on in between.
            tokio::task::yield_now().await;
            *printed.borrow_mut() = print();
            line.is_in(&printed.borrow())
        });
        if tokio::time::timeout(LONGEST, is_printed).await.is_err() {
            panic!("{what} does not print {:?}: {}", line.to_string(), printed.borrow());
        }
    }
}

async fn session(world: &World, tenant: &str) -> SessionId {
    world
        .session_with(|session| {
            session.tenant = tenant.to_owned();
            session.model = Some("openai".to_owned());
            session.max_active = Some(200);
        })
        .await
}

async fn delegate(fleet: &Fleet, session: SessionId, assignment: &str) {
    fleet.delegate(session, to(CLERK, assignment)).await;
}

async fn run_sql(world: &World, statement: &'static str) {
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(&world.sql).await.unwrap();
}

/// Runs a statement every second.
async fn repeat(world: &World, statement: &'static str) -> Infallible {
    loop {
        run_sql(world, statement).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn full_flooded_and_dead_fleets_are_named_by_doctor_watch_and_the_logs() {
    let script = Script::new()
        .on(When::assignment("hold"))
        .then(text("Held.").delay(Duration::from_secs(3600)))
        .on(When::any())
        .then(text("Done."));
    let fleet = Fleet::with(script, |_| CHECK_OFTEN.to_owned()).await;
    let (world, server) = (&fleet.world, fleet.server());
    let day = Day { world, server: &server };
    let default = session(world, "default").await;
    let mut work = fleet.work();
    work.env(LONG_LEASE.0, LONG_LEASE.1).env("ADJUTANT_CONCURRENCY", "2");
    let mut first = WorkerProcess::start(&mut work);
    for assignment in ["hold one", "hold two", "hold three"] {
        delegate(&fleet, default, assignment).await;
    }
    day.is_named("the workers are full", None).await;

    world.store.set_cap(2).await.unwrap();
    delegate(&fleet, default, "hold four").await;
    day.is_named("the cap is reached", None).await;
    let flood = session(world, "flood").await;
    world.store.spawn(flood, &vec![queued(); 100], None).await.unwrap();
    day.is_named("a tenant floods the queue", None).await;
    world.store.delete_session(flood).await.unwrap();

    // Nobody waits here for the leases to end: they are about to for a while, and then they have.
    world.store.set_cap(30).await.unwrap();
    first.kill();
    run_sql(world, "update worker set renewed_at = now() - interval '301 s'").await;
    let short = "update slot set expires_at = now() + interval '14 s' where task is not null";
    tokio::select! {
        () = day.is_said("a worker was killed") => {}
        never = repeat(world, short) => match never {}
    }
    run_sql(world, "update worker set renewed_at = now() - interval '601 s'").await;
    let expired = "update slot set expires_at = now() - interval '1 hour' where task is not null";
    run_sql(world, expired).await;
    day.is_named("all workers are dead", None).await;
    let second = WorkerProcess::start(&mut fleet.work());
    prints("the worker", &row("a worker was killed").worker_log, || second.stderr()).await;
}

/// Models that are down for a reason of their own each.
fn troubled_models() -> Script {
    let (broken, none) = ("broken", json!({}));
    let breaks = tool_call(broken, none.clone()).and_call(broken, none.clone());
    Script::new()
        .on(When::model("vault-test"))
        .answer(status(401).with_error("authentication_error", "wrong"))
        .on(When::model("down-test"))
        .answer(status(500))
        .on(When::model("poor-test"))
        .answer(status(402).with_error("payment_required", "pay"))
        .on(When::assignment("break"))
        .then(breaks.and_call(broken, none))
        .then(text("Broken."))
        .on(When::assignment("limited"))
        .answer(status(429).retry_after(60.0))
        .on(When::any())
        .then(text("Done."))
}

#[tokio::test(flavor = "multi_thread")]
async fn models_and_tools_that_fail_are_named_by_doctor_watch_and_the_logs() {
    let fleet = Fleet::with(troubled_models(), |model| {
        let of = |name: &str| model_config(name, "openai", model, "");
        let models = ["vault", "down", "poor"].map(of).concat();
        format!("{models}[tools.mcp.maps]\ncommand = ['/no/such/program']\n{CHECK_OFTEN}")
    })
    .await;
    let (world, server) = (&fleet.world, fleet.server());
    let day = Day { world, server: &server };
    let worker = fleet.worker();
    let with = async |model: &str, tools: &[&str]| {
        let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
        let config = AgentConfig { model: model.to_owned(), tools, ..AgentConfig::default() };
        let new = NewDelegation { config: Some(config), ..to("a", model) };
        fleet.delegate(session(world, "default").await, new).await;
    };
    // One at a time: the newest tasks are on top.
    with("openai", &[]).await;
    with("poor", &[]).await;
    day.is_named("no credit left", Some(&worker)).await;
    with("down", &[]).await;
    day.is_named("a model answers 500", Some(&worker)).await;
    with("vault", &[]).await;
    day.is_named("a wrong model key", Some(&worker)).await;
    with("openai", &["search"]).await;
    day.is_named("an MCP server does not start", Some(&worker)).await;
    with("big", &[]).await;
    let default = session(world, "default").await;
    delegate(&fleet, default, "break it").await;
    day.is_said("no worker has the model").await;
    day.is_said("a tool's server is down").await;
    delegate(&fleet, default, "limited").await;
    day.is_said("a rate limit (429)").await;
    // A server logs a kind of trouble once, when it begins: another one sees these from its start.
    let server = fleet.server();
    let day = Day { world, server: &server };
    day.is_named("no worker has the model", None).await;
    day.is_named("a tool's server is down", Some(&worker)).await;
    day.is_named("a rate limit (429)", Some(&worker)).await;
}

/// How long the database is away.
const OUTAGE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_full_or_away_is_named_by_doctor_watch_and_the_log() {
    let Some(shim) = Shim::build("full_disk", include_str!("full_disk.c")) else { return };
    let full = shim.path().join("full");
    let environment = vec![
        ("LD_PRELOAD", shim.library()),
        ("ADJUTANT_TEST_DISK_IS_FULL", full.display().to_string()),
    ];
    let mut postgres = PostgresServer::start_with(environment);
    let world = postgres.world().await;
    let server = TestServer::on(&world);
    let mut worker = WorkerProcess::start(&mut simulate(world.url()));
    let day = Day { world: &world, server: &server };
    let default = session(&world, "default").await;
    let task = simulation(json!({"turns": 1000, "turn_ms": 5}));
    let number = world.store.spawn(default, &[task], None).await.unwrap()[0].number;

    std::fs::write(&full, "").unwrap();
    day.is_named("the database's disk is full", Some(&worker)).await;
    std::fs::remove_file(&full).unwrap();

    let mut watch = adjutant(&format!("http://{}", server.address), &["watch"]);
    let [lines, errors] = [(); 2].map(|()| tempfile::NamedTempFile::new().unwrap());
    let mut watching =
        watch.stdout(lines.reopen().unwrap()).stderr(errors.reopen().unwrap()).spawn().unwrap();
    until("watch shows the task", async || lines.as_file().metadata().unwrap().len() > 0).await;
    let watched = || std::fs::read_to_string(errors.path()).unwrap();
    postgres.stop();
    let began = Instant::now();
    let away = row("the database is away");
    prints("doctor", &away.doctor, || day.says("doctor", &["--database-url", world.url()])).await;
    prints("watch", &away.watch[..1], watched).await;
    prints("the worker", &away.worker_log[..1], || worker.stderr()).await;
    until_within(OUTAGE * 2, "the outage has lasted long enough", async || {
        assert!(!worker.has_exited(), "{}", worker.stderr());
        began.elapsed() >= OUTAGE
    })
    .await;
    postgres.restart();
    prints("watch", &away.watch[1..], watched).await;
    prints("the worker", &away.worker_log[1..], || worker.stderr()).await;
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert!(worker.stderr().len() < 100_000, "the outage does not fill the log");
    until("the task goes on and completes", async || {
        world.state(default, number).await == adjutant_agent::TaskState::Completed
    })
    .await;
    world.assert_sound().await;
}

/// How long a restarted `up` may take to say it.
const SOON: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_of_up_its_tasks_wait_for_the_lease_of_the_dead_worker() {
    let dir = tempfile::TempDir::new().unwrap();
    let up = || {
        let line = ["up", "--simulate", "--listen", "127.0.0.1:0", "--data-dir"];
        Process::start(adjutant("", &line).arg(dir.path())).unwrap()
    };
    let mut running = up();
    let store = adjutant_store::Store::open(running.database_url(), 2).await.unwrap();
    let new = adjutant_store::NewSession {
        tenant: "default".to_owned(),
        name: "s".to_owned(),
        ..adjutant_store::NewSession::default()
    };
    let session = store.create_session(&new).await.unwrap().id;
    let hang = simulation(json!({"then": "hang"}));
    let number = store.spawn(session, &[hang], None).await.unwrap()[0].number;
    until("it runs", async || store.slots().await.unwrap().used == 1).await;
    running.kill();
    until("the database is gone", async || store.slots().await.is_err()).await;

    let running = up();
    let began = std::time::Instant::now();
    let store = adjutant_store::Store::open(running.database_url(), 2).await.unwrap();
    let task = store.status(session, number).await.unwrap();
    let why = task.why.expect("it does not run");
    assert_eq!(why.code, "lease");
    assert!(why.until.is_some(), "{why:?}");
    let url = running.about["url"].as_str().unwrap().to_owned();
    let shown = adjutant(&url, &["tasks", "show", "t_01", "--session", "s"]).output().unwrap();
    assert!(
        stdout(&shown).contains("another one takes it over when its lease ends, until"),
        "{shown:?}"
    );
    assert!(began.elapsed() < SOON);
    store.close().await;
}
