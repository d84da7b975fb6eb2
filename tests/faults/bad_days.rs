//! The table "a bad day" of docs/operate.md, played with real processes: for each trouble the line
//! of `doctor`, of `watch` and of a log that names it.

use std::cell::RefCell;
use std::process::Stdio;
use std::time::Duration;

use adjutant_agent::SessionId;
use adjutant_script::{Script, When, status, text, tool_call};
use adjutant_store::NewTask;
use serde_json::json;
use sqlx::AssertSqlSafe;

use crate::cli::client_commands::{adjutant, stderr, stdout};
use crate::faults::shim::Shim;
use crate::support::fleet::{CLERK, Fleet, to};
use crate::support::load::simulation;
use crate::support::private_postgres::PostgresServer;
use crate::support::process::Process;
use crate::support::test_server::TestServer;
use crate::support::worker_process::{WorkerProcess, simulate};
use crate::support::world::{World, queued, until};

/// The lines that tests expect are those of the table.
const OPERATE: &str = include_str!("../../docs/operate.md");

/// A lease that neither ends nor counts as overdue while a row is played.
const LONG_LEASE: (&str, &str) = ("ADJUTANT_LEASE_SECONDS", "600");

/// How long a line may take to appear.
const LONGEST: Duration = Duration::from_secs(20);

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

    /// Waits until `doctor` and `watch` have these words, which the table has too.
    async fn is_named(&self, doctor: &str, watch: &str) {
        for words in [doctor, watch].iter().flat_map(|words| words.split(" ... ")) {
            assert!(OPERATE.contains(words), "docs/operate.md lacks {words:?}");
        }
        let has = |text: &str, words: &str| words.split(" ... ").all(|part| text.contains(part));
        let url = self.world.url().to_owned();
        for (command, more, words) in [
            ("doctor", vec!["--database-url", url.as_str()], doctor),
            ("watch", vec!["--once"], watch),
        ] {
            let said = RefCell::new(String::new());
            let is_named = async {
                until(&format!("{command} says {words:?}"), async || {
                    *said.borrow_mut() = self.says(command, &more);
                    has(&said.borrow(), words)
                })
                .await;
            };
            if tokio::time::timeout(LONGEST, is_named).await.is_err() {
                panic!("{command} does not say {words:?}: {}", said.borrow());
            }
        }
    }

    /// Waits until the server has logged these words, which the table has too.
    async fn is_logged(&self, words: &str) {
        is_logged(self.server, words).await;
    }
}

async fn is_logged(process: &Process, words: &str) {
    assert!(OPERATE.contains(words), "docs/operate.md lacks {words:?}");
    process.until_logged(words).await;
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

fn clerk(assignment: &str) -> NewTask {
    to(CLERK, assignment).task
}

async fn delegate(fleet: &Fleet, session: SessionId, task: NewTask) {
    let new = adjutant_store::NewDelegation { task, ..adjutant_store::NewDelegation::default() };
    fleet.delegate(session, new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_day_is_named_by_doctor_watch_and_the_log() {
    let calls = |tool: &str| tool_call(tool, json!({}));
    let script = Script::new()
        .on(When::assignment("hold"))
        .then(calls("held"))
        .then(text("Held."))
        .on(When::assignment("break"))
        .then(calls("broken").and_call("broken", json!({})).and_call("broken", json!({})))
        .then(text("Broken."))
        .on(When::assignment("limited"))
        .answer(status(429).retry_after(60.0))
        .on(When::any())
        .then(text("Done."));
    let fleet = Fleet::with(script, |_| "[server]\nfleet_check_s = 1\n".to_owned()).await;
    let (world, server) = (&fleet.world, fleet.server());
    let day = Day { world, server: &server };
    let default = session(world, "default").await;

    // Nobody works.
    delegate(&fleet, default, clerk("hold one")).await;
    day.is_named("no worker is alive, so tasks do not start", "No worker of pool default is alive")
        .await;
    day.is_logged("fleet: workers: no worker is alive, so tasks do not start").await;

    // Full workers, while slots are free.
    let start = || {
        let mut work = fleet.work();
        work.env(LONG_LEASE.0, LONG_LEASE.1).env("ADJUTANT_CONCURRENCY", "2");
        WorkerProcess::start(&mut work)
    };
    let mut first = start();
    for more in ["hold two", "hold three"] {
        delegate(&fleet, default, clerk(more)).await;
    }
    day.is_named(
        "places of the workers of pool default are in use while 28 slots are free",
        "queued (workers) ... places of the workers of pool default are in use",
    )
    .await;
    day.is_logged("fleet: workers: all 2 places of the workers of pool default are in use").await;

    // All slots are in use, and then a tenant floods the queue.
    world.store.set_cap(2).await.unwrap();
    day.is_named("slots are in use, and", "queued (cap) ... slots of the fleet are in use").await;
    day.is_logged("fleet: cap: all 2 slots are in use").await;
    let flood = session(world, "flood").await;
    world.store.spawn(flood, &vec![queued(); 100], None).await.unwrap();
    day.is_named("tenant flood has 100 of", "queued (cap)").await;
    day.is_logged("fleet: tenants: tenant flood has 100 of").await;
    world.store.delete_session(flood).await.unwrap();

    // A worker dies.
    world.store.set_cap(30).await.unwrap();
    first.kill();
    let heard = "update worker set renewed_at = now() - interval '301 s'";
    sqlx::raw_sql(AssertSqlSafe(heard)).execute(&world.sql).await.unwrap();
    let short = "update slot set expires_at = now() + interval '14 s' where task is not null";
    sqlx::raw_sql(AssertSqlSafe(short)).execute(&world.sql).await.unwrap();
    day.is_named(
        "was last heard ... and holds 2 tasks",
        "running (lease) ... Its worker does not answer",
    )
    .await;
    let expired = "update slot set expires_at = now() - interval '1 hour' where task is not null";
    sqlx::raw_sql(AssertSqlSafe(expired)).execute(&world.sql).await.unwrap();
    let second = WorkerProcess::start(&mut fleet.work());
    is_logged(&second, "lost its worker and").await;
    fleet.tools.let_go();

    // Every call of a tool fails, and a model is rate-limited.
    delegate(&fleet, default, clerk("break it")).await;
    day.is_named("calls of tool broken failed", "completed").await;
    day.is_logged("fleet: tools: 3 of the last 3 calls of tool broken failed").await;
    delegate(&fleet, default, clerk("limited")).await;
    day.is_named(
        "calls of model openai are held back until",
        "queued (gate) ... Calls of model openai are held back",
    )
    .await;
    day.is_logged("fleet: gates: calls of model openai are held back until").await;
    is_logged(&second, "failed, retrying: 429").await;
}

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
    let worker = WorkerProcess::start(&mut simulate(world.url()));
    let day = Day { world: &world, server: &server };
    let default = session(&world, "default").await;
    let task = simulation(json!({"turns": 1000, "turn_ms": 5}));
    world.store.spawn(default, &[task], None).await.unwrap();

    std::fs::write(&full, "").unwrap();
    day.is_named("the database cannot write 16 MB ... could not extend file", "running").await;
    is_logged(&worker, "No space left on device").await;
    std::fs::remove_file(&full).unwrap();

    let mut watch = adjutant(&format!("http://{}", server.address), &["watch"]);
    let errors = tempfile::NamedTempFile::new().unwrap();
    let mut watching =
        watch.stdout(Stdio::null()).stderr(errors.reopen().unwrap()).spawn().unwrap();
    postgres.stop();
    let doctor = day.says("doctor", &["--database-url", world.url()]);
    let away = "the database is not available";
    assert!(OPERATE.contains(away) && doctor.contains(away), "{doctor}");
    until("watch says it", async || {
        std::fs::read_to_string(errors.path()).unwrap().contains("retrying")
    })
    .await;
    is_logged(&worker, "the database is not available").await;
    postgres.restart();
    until("it goes on", async || {
        std::fs::read_to_string(errors.path()).unwrap().contains("the server is back")
    })
    .await;
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert!(worker.stderr().len() < 100_000, "the outage does not fill the log");
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
