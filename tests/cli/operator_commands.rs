//! The commands of an operator: up, migrate, demo, bench, limits, completions.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use adjutant_agent::{TaskId, TaskState};
use adjutant_store::{NewTask, Store};
use anyhow::{Context, Result};
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;

use crate::support::process::{Process, assert_says, refused, signal, succeed, wait_until};
use crate::support::world::{World, queued, until};

fn adjutant(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adjutant"));
    command.args(arguments).env_remove("DATABASE_URL").stdin(Stdio::null());
    command
}

fn up(dir: &TempDir) -> Result<Process> {
    Process::start(
        adjutant(&["up", "--simulate", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.path()),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_survives_a_restart_and_runs_once_in_order() -> Result<()> {
    let dir = TempDir::new()?;
    let mut running = up(&dir)?;
    let store = Store::open(running.database_url(), 2).await?;
    // Nothing starts yet.
    store.set_cap(0).await?;
    let mut spawned: Vec<TaskId> = Vec::new();
    for name in ["one", "two", "three", "four"] {
        let new = adjutant_store::NewSession {
            tenant: "t".to_owned(),
            name: name.to_owned(),
            ..adjutant_store::NewSession::default()
        };
        let session = store.create_session(&new).await?.id;
        let config = serde_json::json!({"simulation": {}});
        let task = NewTask { config: config.as_object().cloned().unwrap_or_default(), ..queued() };
        spawned
            .extend(store.spawn(session, &vec![task; 5], None).await?.iter().map(|task| task.id));
    }
    // Not a word of warning to anyone.
    running.kill();
    until("the database is gone", async || store.slots().await.is_err()).await;

    let running = up(&dir)?;
    let store = Store::open(running.database_url(), 2).await?;
    assert!(store.violations().await?.is_empty());
    store.set_cap(1).await?;
    let mut sql = PgConnection::connect(running.database_url()).await?;
    until("all have run", async || {
        let left: i64 = sqlx::query_scalar("select count(*) from task where finished_at is null")
            .fetch_one(&mut sql)
            .await
            .unwrap();
        left == 0
    })
    .await;
    let attempts: Vec<(uuid::Uuid, String)> =
        sqlx::query_as("select task, outcome from attempt order by claimed_at")
            .fetch_all(&mut sql)
            .await?;
    let expected: Vec<_> = spawned.iter().map(|task| (task.0, "completed".to_owned())).collect();
    assert_eq!(attempts, expected);
    store.close().await;
    running.stop()
}

#[test]
fn a_second_up_on_a_directory_is_refused() -> Result<()> {
    let dir = TempDir::new()?;
    let running = up(&dir)?;
    let said = refused(adjutant(&["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.path()))?;
    assert_says(&said, &["in use by", &running.child.id().to_string()]);
    running.stop()
}

#[test]
fn up_with_a_data_directory_ignores_a_database_url_with_a_message() -> Result<()> {
    let dir = TempDir::new()?;
    let running = Process::start(
        adjutant(&["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir.path())
            .env("DATABASE_URL", "postgres://nowhere.invalid/x"),
    )?;
    assert_says(&running.stderr(), &["DATABASE_URL is ignored"]);
    running.stop()
}

#[tokio::test(flavor = "multi_thread")]
async fn up_runs_on_an_existing_database() -> Result<()> {
    let url = World::empty_database().await;
    let running =
        Process::start(&mut adjutant(&["up", "--listen", "127.0.0.1:0", "--database-url", &url]))?;
    assert_eq!(running.about["cap"], 5);
    assert_eq!(
        running.about["database_url"],
        serde_json::Value::Null,
        "it may have a password in it"
    );
    assert!(running.about["url"].as_str().is_some_and(|url| url.starts_with("http://127.0.0.1:")));
    running.stop()
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_prints_the_versions() -> Result<()> {
    let url = World::empty_database().await;
    let output = succeed(&mut adjutant(&["migrate", "--database-url", &url]))?;
    assert_says(&String::from_utf8(output.stdout)?, &["The schema was updated from version 0 to"]);
    let output = succeed(&mut adjutant(&["migrate", "--database-url", &url, "--json"]))?;
    let about: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(about["from"], about["to"]);
    Ok(())
}

#[test]
fn a_failed_command_prints_one_line_and_sets_the_exit_code() -> Result<()> {
    for (arguments, words) in [
        (&["migrate"][..], &["--database-url"][..]),
        (&["migrate", "--database-url", ""], &["database_url", "postgres://"]),
        (&["migrate", "--database-url", "nonsense"], &["database_url", "postgres://"]),
        (&["migrate", "--database-url", "mysql://a@b/c"], &["database_url", "postgres://"]),
        (&["migrate", "--database-url", "postgres://127.0.0.1:1/x"], &["not available", "refused"]),
        (&["bench", "status", "--long", "0"], &["--long"]),
        (&["serve"], &["--database-url"]),
        (
            &["serve", "--listen", "127.0.0.1:0", "--database-url", "postgres://127.0.0.1:1/x"],
            &["not available", "refused"],
        ),
        (&["serve", "--listen", "nowhere", "--database-url", "x"], &["--listen", "nowhere"]),
        (&["work"], &["--database-url"]),
        (
            &["work", "--database-url", "postgres://127.0.0.1:1/x"],
            &["cannot start the worker", "refused"],
        ),
        (&["work", "--database-url", "x", "--concurrency", "0"], &["--concurrency"]),
        (&["work", "--database-url", "x", "--lease-seconds", "1"], &["--lease-seconds"]),
        (&["limits", "--data-dir", "/nonexistent"], &["no `adjutant up` runs", "--database-url"]),
        (&["limits", "--cap", "many"], &["--cap"]),
        (&["nonsense"], &["nonsense"]),
    ] {
        let said = refused(&mut adjutant(arguments))?;
        assert_says(&said, words);
        assert!(!said.contains("panicked"), "{said}");
    }
    Ok(())
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() -> Result<()> {
    let temp = TempDir::new()?;
    let mut demo = adjutant(&["demo"])
        .env("TMPDIR", temp.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    wait_until("the demo has created its directory", || {
        temp.path().read_dir().is_ok_and(|mut dir| dir.next().is_some())
    })?;
    signal("INT", demo.id())?;
    assert_eq!(demo.wait()?.code(), Some(130));
    wait_until("nothing is left", || {
        temp.path().read_dir().is_ok_and(|mut dir| dir.next().is_none())
    })
}

#[test]
fn an_interrupted_demo_stops_its_workers() -> Result<()> {
    let temp = TempDir::new()?;
    let mut demo = adjutant(&["demo"])
        .env("TMPDIR", temp.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut logged = BufReader::new(demo.stdout.take().context("no stdout")?).lines();
    let works = logged.by_ref().any(|line| line.is_ok_and(|line| line.starts_with("orchestrator")));
    assert!(works, "the demo ended before its first line");
    signal("INT", demo.id())?;
    assert_eq!(demo.wait()?.code(), Some(130));
    // The workers have the same pipe open, so it ends with the last of them.
    let (gone, all_gone) = std::sync::mpsc::channel();
    let mut stderr = demo.stderr.take().context("no stderr")?;
    std::thread::spawn(move || gone.send(std::io::read_to_string(&mut stderr)));
    all_gone.recv_timeout(Duration::from_secs(30)).context("somebody is left")??;
    wait_until("nothing is left", || {
        temp.path().read_dir().is_ok_and(|mut dir| dir.next().is_none())
    })
}

#[test]
fn the_demo_shows_each_step_and_leaves_nothing_behind() -> Result<()> {
    let temp = TempDir::new()?;
    // Settings for other fleets and proxies must not affect the demo.
    let output = succeed(
        adjutant(&["demo", "--json"])
            .env("TMPDIR", temp.path())
            .env("ADJUTANT_POOL", "elsewhere")
            .env("ADJUTANT_CONFIG", "/nonexistent.toml")
            .env("HTTP_PROXY", "http://127.0.0.1:1"),
    )?;
    let facts: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let count = |name: &str| facts[name].as_u64().with_context(|| format!("no {name} in {facts}"));
    assert_eq!((count("tasks")?, count("completed")?, count("violations")?), (14, 14, 0));
    assert_eq!((count("cap")?, count("most_at_once")?), (4, 4));
    assert!(count("most_calls_at_once")? <= 4);
    assert!((1..=2).contains(&count("resumed")?), "{facts}");
    assert_eq!((count("stored_requested_again")?, count("answers_stored")?), (0, 55));
    assert_eq!(count("answers_paid")?, count("answers_stored")? + count("answers_lost")?);
    assert!(count("answers_cut_off")? >= 1 && count("cost_nanousd")? > 0);
    assert_eq!(temp.path().read_dir()?.count(), 0);
    Ok(())
}

#[test]
fn a_demo_without_a_terminal_prints_plain_lines() -> Result<()> {
    let output = succeed(&mut adjutant(&["demo"]))?;
    let logged = String::from_utf8(output.stdout)?;
    assert_says(&logged, &["researcher", "kill -9", "remediator", "writer", "paid twice", "USD"]);
    assert!(!logged.contains('\u{1b}'), "{logged}");
    Ok(())
}

#[test]
fn bench_status_prints_its_ratio_under_a_stable_key() -> Result<()> {
    let output = succeed(&mut adjutant(&[
        "bench",
        "status",
        "--short",
        "1000",
        "--long",
        "2000",
        "--seconds",
        "1",
        "--json",
    ]))?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    report["status_history_ratio"].as_f64().filter(|ratio| *ratio > 0.0).context("no ratio")?;
    Ok(())
}

#[test]
fn bench_loops_prints_its_figures_under_stable_keys() -> Result<()> {
    let output = succeed(&mut adjutant(&["bench", "loops", "--tiny", "--json"]))?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    for key in
        ["slowdown_1000_vs_10", "kib_per_loop", "turn_overhead_vs_insert", "commits_per_turn"]
    {
        report[key]
            .as_f64()
            .filter(|figure| figure.is_finite())
            .with_context(|| format!("no {key}"))?;
    }
    // A turn without tools is one commit, plus its share of the claim and the end.
    let commits = report["commits_per_turn"].as_f64().unwrap_or_default();
    assert!((1.0..2.0).contains(&commits), "{commits} commits per turn");
    Ok(())
}

#[test]
fn bench_api_prints_its_figures_under_stable_keys() -> Result<()> {
    let output = succeed(&mut adjutant(&["bench", "api", "--tiny", "--json"]))?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    for key in [
        "spawn_vs_insert",
        "spawn_p99_vs_insert_p99",
        "status_per_cpu_s",
        "wait_wake_p99_ms",
        "wait_mb",
        "wait_queries_per_s",
    ] {
        report[key]
            .as_f64()
            .filter(|figure| figure.is_finite())
            .with_context(|| format!("no {key}"))?;
    }
    assert_eq!(report["wait"]["waits"], 20, "every wait returned");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_shows_and_sets_the_cap() -> Result<()> {
    let dir = TempDir::new()?;
    let running = up(&dir)?;
    let limits = |more: &[&str]| -> Result<serde_json::Value> {
        let output =
            succeed(adjutant(&["limits", "--json", "--data-dir"]).arg(dir.path()).args(more))?;
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    assert_eq!(limits(&[])?, serde_json::json!({"cap": 5, "running": 0}));
    assert_eq!(
        limits(&["--cap", "7"])?,
        serde_json::json!({"cap": 7, "running": 0, "cap_before": 5})
    );
    assert_eq!(limits(&[])?["cap"], 7);
    let said = refused(adjutant(&["limits", "--cap", "-1", "--data-dir"]).arg(dir.path()))?;
    assert_says(&said, &["cap"]);
    running.stop()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_model_is_not_in_the_config_fails_with_its_name() -> Result<()> {
    let world = World::new().await;
    let running = Process::start(&mut adjutant(&["work", "--database-url", world.url()]))?;
    let session = world.session().await;
    let number = world.spawn_one(session, crate::support::world::task()).await.number;
    until("it has failed", async || world.state(session, number).await == TaskState::Failed).await;
    let error = world.store.status(session, number).await?.error.unwrap_or_default();
    assert_says(&error, &["Model API error", "no models in its config"]);
    running.stop()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_raises_its_limit_of_open_files() -> Result<()> {
    let world = World::new().await;
    let few = "ulimit -S -n 200 && exec \"$0\" \"$@\"";
    let mut work = Command::new("sh");
    work.args(["-c", few, env!("CARGO_BIN_EXE_adjutant"), "work", "--database-url", world.url()]);
    let running = Process::start(&mut work)?;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", running.child.id()))?;
    let line =
        limits.lines().find_map(|line| line.strip_prefix("Max open files")).context("no limit")?;
    let (now, most) = line.trim().split_once(' ').context("no two limits")?;
    assert_eq!(Some(now), most.split_whitespace().next());
    running.stop()
}

#[test]
fn every_shell_gets_its_completions() -> Result<()> {
    for shell in ["bash", "zsh", "fish"] {
        let output = succeed(&mut adjutant(&["completions", shell]))?;
        assert_says(&String::from_utf8(output.stdout)?, &["adjutant", "migrate"]);
    }
    Ok(())
}
