//! Making a cluster: all of it beside, then one rename.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;

use super::data_dir::{self, DataDir};
use super::find::Server;
use super::guard::{self, Guarded, Remove};
use super::log;
use super::run_as::RunAs;
use super::{DATABASE, USER};

const UNFINISHED: &str = "postgres.new";

/// Makes the cluster with its database; a leftover of one that was not finished is thrown away first.
pub async fn make(run_as: &RunAs, server: &Server, data: &DataDir) -> anyhow::Result<()> {
    eprintln!("making a database in {} (PostgreSQL {})", data.root().display(), server.version);
    discard_unfinished(data.root());
    // A name of its own: the initdb of a parent that was just killed may not have gone yet.
    let new = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(data.root())
        .map_err(|error| data_dir::explain(&error, data.root()))?;
    run_as.give(new.path())?;
    run_as.check_reach(new.path(), data.what_to_do())?;
    fill(run_as, server, data, new.path()).await?;
    fs::rename(new.path(), data.cluster()).context("cannot put the new cluster in its place")?;
    let _ = new.keep();
    if data.is_kept() {
        // Without this a power cut could take back the rename, and with it what was written afterwards.
        File::open(data.root()).and_then(|root| root.sync_all()).context("cannot sync the data directory")?;
    }
    Ok(())
}

async fn fill(run_as: &RunAs, server: &Server, data: &DataDir, new: &Path) -> anyhow::Result<()> {
    let remove = Remove::WhenFailed(if data.is_kept() { new } else { data.root() });
    let mut arguments: Vec<OsString> =
        ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions"].map(OsString::from).to_vec();
    arguments.push(format!("--username={USER}").into());
    if !data.is_kept() {
        arguments.push("--no-sync".into());
    }
    arguments.extend(["--pgdata".into(), new.into()]);
    let initdb = Guarded {
        program: server.program("initdb"),
        arguments,
        signal: "TERM",
        input: Path::new("/dev/null"),
        remove,
    };
    run(run_as, &initdb, "initdb could not make the database", data).await?;
    create_database(run_as, server, data, new).await
}

/// In single-user mode: the npm packages have no client, and the cluster is whole before it gets its name.
async fn create_database(run_as: &RunAs, server: &Server, data: &DataDir, new: &Path) -> anyhow::Result<()> {
    let script = data.socket_dir().join("create-database.sql");
    fs::write(&script, format!("create database {DATABASE};\n"))
        .map_err(|e| data_dir::explain(&e, &script))?;
    run_as.give(&script)?;
    let mut arguments: Vec<OsString> = ["--single", "-c", "exit_on_error=on"].map(OsString::from).to_vec();
    if !data.is_kept() {
        arguments.push("-F".into());
    }
    arguments.extend(["-D".into(), new.into(), "postgres".into()]);
    let single = Guarded {
        program: server.program("postgres"),
        arguments,
        signal: "TERM",
        input: &script,
        remove: Remove::WhenFailed(if data.is_kept() { new } else { data.root() }),
    };
    let made = run(run_as, &single, "PostgreSQL could not create the database", data).await;
    let _ = fs::remove_file(&script);
    made
}

async fn run(run_as: &RunAs, guarded: &Guarded<'_>, failed: &str, data: &DataDir) -> anyhow::Result<()> {
    let (status, said) = guard::run(run_as, guarded).await?;
    if status.success() {
        return Ok(());
    }
    Err(log::explain(&format!("{failed} ({status}). It said"), &said, data.root()))
}

/// What cannot be removed now, because an initdb is still leaving it, goes at the next time.
fn discard_unfinished(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
