//! Creates a cluster in a separate directory and renames it, so that it is always complete.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;

use super::data_dir::{self, DataDir};
use super::find::Server;
use super::guard::{self, GuardedProgram, Remove};
use super::log;
use super::run_as::RunAs;
use super::{DATABASE, USER};

use crate::output::note;

const UNFINISHED: &str = "postgres.new";

/// Creates the cluster and its database. Removes the remains of an unfinished one first.
pub async fn create(run_as: &RunAs, server: &Server, data: &DataDir) -> anyhow::Result<()> {
    note!("creating a database in {} (PostgreSQL {})", data.root().display(), server.version);
    discard_unfinished(data.root());
    // A unique name: the initdb of a killed process may still be writing.
    let new = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(data.root())
        .map_err(|error| data_dir::write_error(&error, data.root()))?;
    run_as.give_ownership(new.path())?;
    run_as.check_access(new.path(), data.advice())?;
    initialize(run_as, server, data, new.path()).await?;
    fs::rename(new.path(), data.cluster()).context("cannot rename the new cluster")?;
    let _ = new.keep();
    if data.is_kept() {
        // Without this, a power failure could undo the rename and lose everything written
        // afterwards.
        File::open(data.root())
            .and_then(|root| root.sync_all())
            .context("cannot sync the data directory")?;
    }
    Ok(())
}

async fn initialize(
    run_as: &RunAs,
    server: &Server,
    data: &DataDir,
    new: &Path,
) -> anyhow::Result<()> {
    let remove = Remove::WhenFailed(if data.is_kept() { new } else { data.root() });
    let mut arguments: Vec<OsString> =
        ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions"]
            .map(OsString::from)
            .to_vec();
    arguments.push(format!("--username={USER}").into());
    if !data.is_kept() {
        arguments.push("--no-sync".into());
    }
    arguments.extend(["--pgdata".into(), new.into()]);
    let initdb = GuardedProgram {
        path: server.program("initdb"),
        arguments,
        signal: "TERM",
        input: Path::new("/dev/null"),
        remove,
    };
    run(run_as, &initdb, "initdb failed", data).await?;
    create_database(run_as, server, data, new).await
}

/// Uses single-user mode: the npm packages contain no client, and the cluster is complete before
/// the rename.
async fn create_database(
    run_as: &RunAs,
    server: &Server,
    data: &DataDir,
    new: &Path,
) -> anyhow::Result<()> {
    let script = data.socket_dir().join("create-database.sql");
    fs::write(&script, format!("create database {DATABASE};\n"))
        .map_err(|e| data_dir::write_error(&e, &script))?;
    run_as.give_ownership(&script)?;
    let mut arguments: Vec<OsString> =
        ["--single", "-c", "exit_on_error=on"].map(OsString::from).to_vec();
    if !data.is_kept() {
        arguments.push("-F".into());
    }
    arguments.extend(["-D".into(), new.into(), "postgres".into()]);
    let single = GuardedProgram {
        path: server.program("postgres"),
        arguments,
        signal: "TERM",
        input: &script,
        remove: Remove::WhenFailed(if data.is_kept() { new } else { data.root() }),
    };
    let created = run(run_as, &single, "PostgreSQL could not create the database", data).await;
    let _ = fs::remove_file(&script);
    created
}

async fn run(
    run_as: &RunAs,
    program: &GuardedProgram<'_>,
    failed: &str,
    data: &DataDir,
) -> anyhow::Result<()> {
    let (status, output) = guard::run(run_as, program).await?;
    if status.success() {
        return Ok(());
    }
    Err(log::quote(&format!("{failed} ({status}). Its output"), &output, data.root()))
}

/// A directory that cannot be removed, because an initdb is still writing, is removed the next
/// time.
fn discard_unfinished(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
