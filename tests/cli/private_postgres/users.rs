//! The user that the server runs as, for root and for an ordinary user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use tempfile::TempDir;

use crate::support::private_postgres::{postgres_in, query, server_pid, start_postgres_in};
use crate::support::process::{Process, assert_says, is_root, refused};

const ORDINARY: u32 = 54_321;

/// A directory that every user can enter.
fn open_dir() -> Result<TempDir> {
    let dir = TempDir::new()?;
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
    Ok(dir)
}

fn as_root_or_skip() -> Result<bool> {
    let root = is_root()?;
    if !root {
        eprintln!("skipped: only root can become somebody else");
    }
    Ok(root)
}

/// A command that runs as the user `nobody`, with a copy of the binary that this user can read.
fn as_an_ordinary_user(home: &Path, data: &Path) -> Result<Command> {
    let binary = home.join("adjutant");
    fs::copy(env!("CARGO_BIN_EXE_adjutant"), &binary)?;
    let id = fs::read_to_string("/etc/passwd")?
        .lines()
        .find_map(|line| line.strip_prefix("nobody:")?.split(':').nth(1)?.parse().ok())
        .unwrap_or(ORDINARY);
    chown(home, Some(id), None)?;
    let mut command = Command::new(binary);
    command.arg("postgres").arg("--data-dir").arg(data).uid(id).env("HOME", home).current_dir("/");
    Ok(command)
}

fn owner_of_server(dir: &Path) -> Result<u32> {
    Ok(fs::metadata(format!("/proc/{}", server_pid(dir)?))?.uid())
}

#[test]
fn as_root_it_runs_as_another_user() -> Result<()> {
    if !as_root_or_skip()? {
        return Ok(());
    }
    let dir = open_dir()?;
    let data = dir.path().join("data");
    let running = Process::start(postgres_in(&data).env("ADJUTANT_POSTGRES_RUN_AS", "uid"))?;
    query(running.database_url(), "create table note as select 'kept' as text")?;
    assert_ne!(owner_of_server(&data)?, 0);
    running.stop()?;

    // The same data with the other way to change the user, if this machine has it.
    let running = start_postgres_in(&data)?;
    assert_eq!(query(running.database_url(), "select text from note")?.as_deref(), Some("kept"));
    running.stop()
}

#[test]
fn as_root_a_directory_that_the_server_cannot_reach_is_refused() -> Result<()> {
    if !as_root_or_skip()? {
        return Ok(());
    }
    let closed = TempDir::new()?;
    fs::set_permissions(closed.path(), Permissions::from_mode(0o700))?;
    let mut command = postgres_in(&closed.path().join("data"));
    let said = refused(command.args(["--", "true"]).env("ADJUTANT_POSTGRES_RUN_AS", "uid"))?;
    assert_says(
        &said,
        &[
            "refuses to run as root",
            "cannot access",
            "--data-dir",
            &closed.path().to_string_lossy(),
        ],
    );
    Ok(())
}

#[test]
fn as_root_a_throwaway_of_another_user_is_removed_when_its_parent_is_killed() -> Result<()> {
    if !as_root_or_skip()? {
        return Ok(());
    }
    let temp = TempDir::new()?;
    fs::set_permissions(temp.path(), Permissions::from_mode(0o1777))?;
    let mut command = crate::support::private_postgres::postgres();
    command.arg("--throwaway").env("TMPDIR", temp.path()).env("ADJUTANT_POSTGRES_RUN_AS", "uid");
    let mut running = Process::start(&mut command)?;
    running.kill();
    crate::support::process::wait_until("nothing is left", || {
        crate::support::private_postgres::entries(temp.path()).is_empty()
    })
}

#[test]
fn an_ordinary_user_runs_it_directly() -> Result<()> {
    if !as_root_or_skip()? {
        return Ok(());
    }
    let home = open_dir()?;
    let data = home.path().join("data");
    let running = Process::start(&mut as_an_ordinary_user(home.path(), &data)?)?;
    assert_eq!(query(running.database_url(), "select 'well'")?.as_deref(), Some("well"));
    assert_eq!(owner_of_server(&data)?, fs::metadata(home.path())?.uid());
    assert_eq!(fs::metadata(&data)?.mode() & 0o777, 0o700);
    running.stop()
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() -> Result<()> {
    if !as_root_or_skip()? {
        return Ok(());
    }
    let (home, roots) = (open_dir()?, open_dir()?);
    for dir in [roots.path().to_owned(), roots.path().join("below")] {
        let said = refused(as_an_ordinary_user(home.path(), &dir)?.args(["--", "true"]))?;
        assert_says(&said, &["cannot be written", "--data-dir", &dir.to_string_lossy()]);
    }
    Ok(())
}
