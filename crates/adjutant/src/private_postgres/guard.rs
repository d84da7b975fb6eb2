//! A small shell process between us and each program we start, so that the program ends when we do.
//!
//! Nothing in the parent runs after a `kill -9`, so the child has to notice. The guard holds the read end of a pipe whose
//! write end only we have (close-on-exec, so no other child keeps it open): the kernel closes it whatever ends us.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use anyhow::Context;
use tokio::process::{Child, ChildStdin, Command};

use super::run_as::RunAs;

const SCRIPT: &str = include_str!("guard.sh");

/// What the guard removes after the program, with the rights of the program.
pub enum Remove<'a> {
    Nothing,
    Always(&'a Path),
    /// Also when the program was ended because the parent went.
    WhenFailed(&'a Path),
}

/// A program to run, and what the guard is to know about it.
pub struct Guarded<'a> {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// The name of the signal that ends it, as `kill` knows it.
    pub signal: &'static str,
    pub input: &'a Path,
    pub remove: Remove<'a>,
}

/// A running program; dropping this ends it.
pub struct Guard {
    guard: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    pub fn start(run_as: &RunAs, guarded: &Guarded<'_>, out: Stdio, err: Stdio) -> anyhow::Result<Self> {
        let (remove, when) = match guarded.remove {
            Remove::Nothing => (OsStr::new(""), "failed"),
            Remove::Always(dir) => (dir.as_os_str(), "always"),
            Remove::WhenFailed(dir) => (dir.as_os_str(), "failed"),
        };
        let mut command = Command::from(run_as.command(OsStr::new("sh")));
        command
            .args(["-c", SCRIPT, "adjutant-guard", guarded.signal])
            .arg(guarded.input)
            .arg(remove)
            .arg(when)
            .arg(&guarded.program)
            .args(&guarded.arguments)
            .current_dir("/")
            // With a locale that is not installed, the server does not start on macOS.
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(err)
            // Ctrl-C in the terminal is for us: the database is the last to go.
            .process_group(0);
        let mut guard = command.spawn().context("cannot start sh, which watches over PostgreSQL")?;
        // Taken out because `Child::wait` closes it, and that would be the order to stop.
        let pipe = guard.stdin.take();
        Ok(Self { guard, pipe })
    }

    /// Resolves when the program has ended by itself or was ended; cancel safe.
    pub async fn ended(&mut self) -> anyhow::Result<ExitStatus> {
        self.guard.wait().await.context("cannot wait for PostgreSQL")
    }

    /// Ends the program and resolves when it has ended.
    pub async fn end(&mut self) -> anyhow::Result<ExitStatus> {
        self.pipe = None;
        self.ended().await
    }
}

/// Runs a program to its end and returns its status and all that it said.
pub async fn run(run_as: &RunAs, guarded: &Guarded<'_>) -> anyhow::Result<(ExitStatus, String)> {
    let Guard { guard, pipe } = Guard::start(run_as, guarded, Stdio::piped(), Stdio::piped())?;
    let output = guard.wait_with_output().await.context("cannot wait for PostgreSQL's set-up")?;
    drop(pipe);
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status, String::from_utf8_lossy(&said).into_owned()))
}
