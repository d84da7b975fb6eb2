//! Leftovers of an earlier run are repaired or refused, and data is never lost.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::support::private_postgres::{
    Bystander, dead_pid, entries, postgres_in, query, server_pid, start_postgres_in, touch,
};
use crate::support::process::{assert_says, is_alive, ps, refused, signal, succeed, wait_until};

/// A directory with one note in its database, and no server.
fn with_a_note() -> Result<TempDir> {
    let dir = TempDir::new()?;
    let running = start_postgres_in(dir.path())?;
    query(running.database_url(), "create table note as select 'kept' as text")?;
    running.stop()?;
    Ok(dir)
}

fn assert_note_is_there(dir: &Path) -> Result<()> {
    let running = start_postgres_in(dir)?;
    assert_eq!(query(running.database_url(), "select text from note")?.as_deref(), Some("kept"));
    running.stop()
}

/// Writes a pid file in the form of the server, with another pid and the status ready.
fn write_pid_file(dir: &Path, pid: u32) -> Result<()> {
    let cluster = dir.join("postgres");
    let text = format!(
        "{pid}\n{}\n1700000000\n5432\n{}\n\n  1 1\nready   \n",
        cluster.display(),
        dir.display()
    );
    Ok(fs::write(cluster.join("postmaster.pid"), text)?)
}

#[test]
fn data_survives_a_restart() -> Result<()> {
    let dir = with_a_note()?;
    assert_note_is_there(dir.path())
}

#[test]
fn data_survives_a_server_that_was_killed() -> Result<()> {
    let dir = TempDir::new()?;
    let mut running = start_postgres_in(dir.path())?;
    query(running.database_url(), "create table note as select 'kept' as text")?;
    signal("KILL", server_pid(dir.path())?)?;
    assert_eq!(running.child.wait()?.code(), Some(1));
    assert_note_is_there(dir.path())
}

#[test]
fn a_pid_file_of_a_dead_process_is_ignored() -> Result<()> {
    let dir = with_a_note()?;
    write_pid_file(dir.path(), dead_pid()?)?;
    assert_note_is_there(dir.path())
}

#[test]
fn a_pid_file_with_the_pid_of_another_program_is_ignored() -> Result<()> {
    let dir = with_a_note()?;
    let bystander = Bystander::start()?;
    write_pid_file(dir.path(), bystander.0.id())?;
    fs::copy(
        dir.path().join("postgres/postmaster.pid"),
        dir.path().join("run/.s.PGSQL.5432.lock"),
    )?;
    assert_note_is_there(dir.path())?;
    assert!(is_alive(bystander.0.id()));
    Ok(())
}

#[test]
fn a_server_whose_parent_and_guard_were_killed_is_stopped_first() -> Result<()> {
    let dir = TempDir::new()?;
    let mut running = start_postgres_in(dir.path())?;
    query(running.database_url(), "create table note as select 'kept' as text")?;
    let server = server_pid(dir.path())?;
    // The guard is two shells; either one alone would still stop the server.
    let guard = ps("ppid=", server)?;
    let children = succeed(Command::new("pgrep").args(["-P", &guard.to_string()]))?;
    let children: Vec<u32> =
        String::from_utf8(children.stdout)?.lines().flat_map(str::parse).collect();
    for shell in children.into_iter().filter(|child| *child != server).chain([guard]) {
        signal("KILL", shell)?;
    }
    assert_eq!(running.child.wait()?.code(), Some(1));
    assert!(is_alive(server));
    let next = start_postgres_in(dir.path())?;
    assert_says(&next.stderr(), &["stopping the PostgreSQL of an earlier run"]);
    assert_ne!(server_pid(dir.path())?, server);
    assert_eq!(query(next.database_url(), "select text from note")?.as_deref(), Some("kept"));
    next.stop()
}

#[test]
fn a_server_that_is_still_stopping_is_waited_for() -> Result<()> {
    let dir = with_a_note()?;
    let mut running = start_postgres_in(dir.path())?;
    let server = server_pid(dir.path())?;
    // The server needs the checkpointer to shut down, so it waits until that process continues.
    let checkpointer = "select pid::text from pg_stat_activity where backend_type = 'checkpointer'";
    let checkpointer: u32 =
        query(running.database_url(), checkpointer)?.context("no checkpointer")?.parse()?;
    signal("STOP", checkpointer)?;
    running.kill();
    let mut waiting =
        postgres_in(dir.path()).args(["--", "true"]).stderr(Stdio::piped()).spawn()?;
    let mut said = String::new();
    BufReader::new(waiting.stderr.take().context("no stderr")?).read_line(&mut said)?;
    signal("CONT", checkpointer)?;
    assert_says(
        &said,
        &["waiting for the PostgreSQL of an earlier run to stop", &server.to_string()],
    );
    assert!(waiting.wait()?.success());
    Ok(())
}

#[test]
fn a_half_created_directory_is_created_anew() -> Result<()> {
    let dir = TempDir::new()?;
    fs::create_dir(dir.path().join("postgres.new"))?;
    touch(&dir.path().join("postgres.new/PG_VERSION"))?;
    start_postgres_in(dir.path())?.stop()?;
    assert!(!dir.path().join("postgres.new").exists());
    assert!(dir.path().join("postgres/PG_VERSION").exists());
    Ok(())
}

#[test]
fn a_directory_whose_initdb_was_killed_is_created_anew() -> Result<()> {
    let dir = TempDir::new()?;
    let mut child = postgres_in(dir.path()).args(["--", "true"]).spawn()?;
    let initdb_is_at_work =
        || entries(dir.path()).iter().any(|new| new.join("postgresql.conf").exists());
    wait_until("initdb is running", initdb_is_at_work)?;
    child.kill()?;
    child.wait()?;
    assert!(!dir.path().join("postgres").exists());
    // Without a pause: initdb of the killed process may still be running.
    start_postgres_in(dir.path())?.stop()
}

#[test]
fn a_directory_that_is_not_a_cluster_is_refused_and_untouched() -> Result<()> {
    let dir = TempDir::new()?;
    fs::create_dir(dir.path().join("postgres"))?;
    touch(&dir.path().join("postgres/precious"))?;
    let said = refused(postgres_in(dir.path()).args(["--", "true"]))?;
    assert_says(&said, &["not a PostgreSQL cluster", "--data-dir", &dir.path().to_string_lossy()]);
    assert!(dir.path().join("postgres/precious").exists());
    Ok(())
}

#[test]
fn a_directory_of_another_version_is_refused_and_untouched() -> Result<()> {
    let dir = with_a_note()?;
    let version = dir.path().join("postgres/PG_VERSION");
    let ours = fs::read_to_string(&version)?;
    fs::write(&version, "12\n")?;
    let said = refused(postgres_in(dir.path()).args(["--", "true"]))?;
    assert_says(
        &said,
        &["created by PostgreSQL 12", &format!("found: {}", ours.trim()), "Install PostgreSQL 12"],
    );
    assert_eq!(fs::read_to_string(&version)?, "12\n");
    fs::write(&version, ours)?;
    assert_note_is_there(dir.path())
}
