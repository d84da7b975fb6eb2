//! Data directories that are in use, full, too long or unusable.

use std::fs;
use std::process::Command;

use anyhow::Result;
use tempfile::TempDir;

use crate::support::private_postgres::{entries, postgres, postgres_in, query, start_postgres_in};
use crate::support::process::{Process, assert_says, is_root, refused, succeed};

#[test]
fn the_second_on_one_directory_is_refused_with_the_pid_of_the_first() -> Result<()> {
    let dir = TempDir::new()?;
    let first = start_postgres_in(dir.path())?;
    let said = refused(postgres_in(dir.path()).args(["--", "true"]))?;
    assert_says(&said, &[&format!("in use by process {}", first.child.id()), "--data-dir"]);
    assert_eq!(query(first.database_url(), "select 'well'")?.as_deref(), Some("well"));
    first.stop()
}

#[test]
fn a_path_too_long_for_a_socket_has_its_socket_elsewhere() -> Result<()> {
    let (dir, temp) = (TempDir::new()?, TempDir::new()?);
    let long = dir.path().join("a 'long' \"name\" & more?".repeat(8));
    let mut running = Process::start(postgres_in(&long).env("TMPDIR", temp.path()))?;
    assert_eq!(query(running.database_url(), "select 'found'")?.as_deref(), Some("found"));
    assert_eq!(entries(temp.path()).len(), 1);
    running.kill();
    crate::support::process::wait_until("the directory of the socket is removed", || {
        entries(temp.path()).is_empty()
    })
}

#[test]
fn a_path_with_special_characters_works_for_sqlx_and_psql() -> Result<()> {
    let dir = TempDir::new()?;
    let running = start_postgres_in(&dir.path().join("a b c&d?e=ü+%41\"'"))?;
    assert_says(running.database_url(), &["a%20b"]);
    assert_eq!(
        query(running.database_url(), "select current_user::text")?.as_deref(),
        Some("adjutant")
    );
    // Settings of another PostgreSQL in the environment change nothing.
    let psql = Command::new("psql")
        .args(["-AtXc", "select current_user || ' ' || current_database()", running.database_url()])
        .envs([
            ("PGPORT", "1"),
            ("PGSSLMODE", "require"),
            ("PGUSER", "x"),
            ("PGHOST", "x"),
            ("PGDATABASE", "x"),
        ])
        .output();
    match psql {
        Ok(output) => assert_eq!(String::from_utf8(output.stdout)?, "adjutant adjutant\n"),
        Err(_) => eprintln!("skipped: psql is not here"),
    }
    running.stop()
}

#[test]
fn a_path_with_a_comma_has_its_socket_elsewhere() -> Result<()> {
    let dir = TempDir::new()?;
    let running = start_postgres_in(&dir.path().join("a,b"))?;
    assert!(!running.database_url().contains("a%2Cb"));
    assert_eq!(query(running.database_url(), "select 'found'")?.as_deref(), Some("found"));
    running.stop()
}

#[test]
fn settings_of_another_server_in_the_environment_change_nothing() -> Result<()> {
    let dir = TempDir::new()?;
    let mut command = postgres_in(dir.path());
    command.envs([("PGPORT", "1"), ("PGDATA", "/nowhere"), ("LC_ALL", "xx_XX.nonsense")]);
    let running = Process::start(&mut command)?;
    let sql =
        "select concat_ws(' ', current_setting('port'), current_setting('listen_addresses'), datcollate,
        pg_encoding_to_char(encoding), current_setting('fsync'), current_setting('max_connections'))
        from pg_database where datname = current_database()";
    assert_eq!(query(running.database_url(), sql)?.as_deref(), Some("5432  C UTF8 on 200"));
    running.stop()
}

#[test]
fn a_data_directory_that_is_a_file_is_refused() -> Result<()> {
    let dir = TempDir::new()?;
    let file = dir.path().join("file");
    fs::write(&file, "precious")?;
    let said = refused(postgres_in(&file).args(["--", "true"]))?;
    assert_says(&said, &["it is a file", "--data-dir", &file.to_string_lossy()]);
    assert_eq!(fs::read_to_string(&file)?, "precious");
    Ok(())
}

#[test]
fn without_a_home_folder_the_error_names_the_data_directory_flag() -> Result<()> {
    let said =
        refused(postgres().args(["--", "true"]).env_remove("HOME").env_remove("XDG_DATA_HOME"))?;
    assert_says(&said, &["HOME", "--data-dir"]);
    Ok(())
}

/// Runs a script with a small file system at `$1`; `$0` is adjutant. `None` if it cannot be
/// mounted.
fn on_a_small_disk(megabytes: u32, script: &str) -> Result<Option<String>> {
    let dir = TempDir::new()?;
    let root = is_root()?;
    let run = |script: &str| {
        let mut unshare = Command::new("unshare");
        unshare.arg("--mount").args(["--user", "--map-root-user"].iter().filter(|_| !root));
        unshare
            .args(["sh", "-c", script, env!("CARGO_BIN_EXE_adjutant")])
            .arg(dir.path())
            .env("LC_ALL", "C");
        unshare
    };
    let mount = format!(r#"mount -t tmpfs -o size={megabytes}m none "$1""#);
    if !run(&mount).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no file system can be mounted here");
        return Ok(None);
    }
    let output = succeed(&mut run(&format!("{mount}\n{script}")))?;
    Ok(Some(String::from_utf8(output.stderr)?))
}

#[test]
fn a_disk_that_is_too_small_is_reported_and_nothing_is_left_behind() -> Result<()> {
    let script = r#""$0" postgres --data-dir "$1" -- true && exit 1; test "$(ls "$1")" = "$(printf 'adjutant.lock\nrun')""#;
    if let Some(said) = on_a_small_disk(16, script)? {
        assert_says(&said, &["is full", "--data-dir"]);
    }
    Ok(())
}

#[test]
fn a_full_disk_is_reported_and_the_data_survives() -> Result<()> {
    let script = r#"
        "$0" postgres --data-dir "$1" -- true || exit 2
        # To the end of its page, or the log would still have room to say it.
        head -c $((4096 - $(wc -c <"$1/postgres.log") % 4096)) /dev/zero >>"$1/postgres.log"
        dd if=/dev/zero of="$1/filler" bs=4k 2>/dev/null
        "$0" postgres --data-dir "$1" -- true && exit 3
        rm "$1/filler"
        "$0" postgres --data-dir "$1" -- true || exit 4"#;
    if let Some(said) = on_a_small_disk(100, script)? {
        assert_says(&said, &["is full"]);
        assert_eq!(said.matches("creating a database").count(), 1, "{said}");
    }
    Ok(())
}

#[test]
fn the_help_has_examples() -> Result<()> {
    let help = succeed(postgres().arg("--help"))?;
    assert_says(&String::from_utf8(help.stdout)?, &["Examples:", "--throwaway -- cargo test"]);
    Ok(())
}
