//! The server stops when its parent ends, and the exit code of the command is passed on.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::support::private_postgres::{
    entries, postgres, postgres_in, query, server_pid, start_postgres_in,
};
use crate::support::process::{Process, assert_says, is_alive, ps, signal, wait_until};

#[test]
fn it_stops_cleanly_when_its_parent_is_killed() -> Result<()> {
    let dir = TempDir::new()?;
    let mut running = start_postgres_in(dir.path())?;
    let server = server_pid(dir.path())?;
    running.kill();
    wait_until("the server has ended", || !is_alive(server))?;
    wait_until("its pid file is removed", || !dir.path().join("postgres/postmaster.pid").exists())?;
    let log = fs::read_to_string(dir.path().join("postgres.log"))?;
    assert_says(&log, &["received fast shutdown request", "database system is shut down"]);
    Ok(())
}

#[test]
fn a_command_that_outlives_a_killed_parent_does_not_keep_the_server() -> Result<()> {
    let dir = TempDir::new()?;
    let mut command = postgres_in(dir.path());
    command.args(["--", "sh", "-c", "echo $$; exec sleep 600"]).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut line)?;
    let sleeper: u32 = line.trim().parse()?;
    let server = server_pid(dir.path())?;
    child.kill()?;
    child.wait()?;
    let ended = wait_until("the server has ended", || !is_alive(server));
    assert!(is_alive(sleeper));
    signal("KILL", sleeper)?;
    ended
}

#[test]
fn a_throwaway_is_removed_when_its_parent_is_killed() -> Result<()> {
    let temp = TempDir::new()?;
    let mut running = Process::start(postgres().arg("--throwaway").env("TMPDIR", temp.path()))?;
    assert_eq!(query(running.database_url(), "show fsync")?.as_deref(), Some("off"));
    assert_eq!(entries(temp.path()).len(), 1);
    running.kill();
    wait_until("nothing is left", || entries(temp.path()).is_empty())
}

#[test]
fn a_throwaway_is_removed_when_its_parent_is_killed_during_its_creation() -> Result<()> {
    let temp = TempDir::new()?;
    let mut child =
        postgres().arg("--throwaway").env("TMPDIR", temp.path()).stderr(Stdio::null()).spawn()?;
    let configured = |new: &PathBuf| new.join("postgresql.conf").exists();
    let initdb_is_at_work =
        || entries(temp.path()).iter().any(|dir| entries(dir).iter().any(configured));
    wait_until("initdb is running", initdb_is_at_work)?;
    child.kill()?;
    child.wait()?;
    wait_until("nothing is left", || entries(temp.path()).is_empty())
}

#[test]
fn a_throwaway_is_removed_at_the_end() -> Result<()> {
    let temp = TempDir::new()?;
    Process::start(postgres().arg("--throwaway").env("TMPDIR", temp.path()))?.stop()?;
    assert!(entries(temp.path()).is_empty());
    Ok(())
}

#[test]
fn ctrl_c_in_the_terminal_does_not_reach_the_server() -> Result<()> {
    let dir = TempDir::new()?;
    let running = start_postgres_in(dir.path())?;
    assert_ne!(ps("pgid=", server_pid(dir.path())?)?, ps("pgid=", running.child.id())?);
    running.stop()
}

#[test]
fn signals_to_the_guard_do_not_stop_the_server() -> Result<()> {
    let dir = TempDir::new()?;
    let running = start_postgres_in(dir.path())?;
    let guard = ps("ppid=", server_pid(dir.path())?)?;
    for name in ["HUP", "INT", "TERM"] {
        signal(name, guard)?;
    }
    assert_eq!(query(running.database_url(), "select 'well'")?.as_deref(), Some("well"));
    running.stop()
}

#[test]
fn a_server_that_dies_by_itself_is_reported_with_the_end_of_its_log() -> Result<()> {
    let dir = TempDir::new()?;
    let mut running = start_postgres_in(dir.path())?;
    signal("QUIT", server_pid(dir.path())?)?;
    assert_eq!(running.child.wait()?.code(), Some(1));
    assert_says(
        &running.stderr(),
        &["stopped unexpectedly", "received immediate shutdown request"],
    );
    Ok(())
}

#[test]
fn the_exit_code_of_the_command_is_passed_on() -> Result<()> {
    let dir = TempDir::new()?;
    let run = |script: &str| postgres_in(dir.path()).args(["--", "sh", "-c", script]).status();
    assert_eq!(run("exit 7")?.code(), Some(7));
    assert_eq!(run("kill -9 $$")?.code(), Some(128 + 9));
    assert_eq!(run(r#"test -n "$DATABASE_URL""#)?.code(), Some(0));
    let missing = postgres_in(dir.path()).args(["--", "/no/such/program"]).status()?;
    assert_eq!((missing.code(), missing.signal()), (Some(127), None));
    assert!(!dir.path().join("postgres/postmaster.pid").exists());
    Ok(())
}

#[test]
fn a_signal_is_forwarded_to_the_command_and_the_server_stops_last() -> Result<()> {
    let dir = TempDir::new()?;
    let script = r#"trap 'test -e "$0/postgres/postmaster.pid" && exit 5' TERM; echo ready; while :; do sleep 0.1; done"#;
    let mut command = postgres_in(dir.path());
    command.args(["--", "sh", "-c", script]).arg(dir.path()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut String::new())?;
    signal("TERM", child.id())?;
    assert_eq!(child.wait()?.code(), Some(5));
    assert!(!dir.path().join("postgres/postmaster.pid").exists());
    Ok(())
}
