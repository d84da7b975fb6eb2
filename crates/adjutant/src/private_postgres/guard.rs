//! Runs a program under a small shell process that stops the program when this process ends.
//!
//! After a `kill -9` this process cannot clean up, so the child has to notice. The guard holds the
//! read end of a pipe. Only this process has the write end (it is close-on-exec), and the kernel
//! closes it when the process ends for any reason.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use anyhow::Context;
use tokio::process::{Child, ChildStdin, Command};

use super::run_as::RunAs;

const SCRIPT: &str = include_str!("guard.sh");

/// The directory that the guard removes after the program.
pub enum Remove<'a> {
    Nothing,
    Always(&'a Path),
    /// Also if the program was stopped because the parent ended.
    WhenFailed(&'a Path),
}

/// A program to run under a guard.
pub struct GuardedProgram<'a> {
    pub path: PathBuf,
    pub arguments: Vec<OsString>,
    /// The name of the signal that stops it, as for `kill`.
    pub signal: &'static str,
    pub input: &'a Path,
    pub remove: Remove<'a>,
}

/// A running program; it is stopped on drop.
pub struct Guard {
    guard: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    pub fn start(
        run_as: &RunAs,
        program: &GuardedProgram<'_>,
        out: Stdio,
        err: Stdio,
    ) -> anyhow::Result<Self> {
        let (remove, when) = match program.remove {
            Remove::Nothing => (OsStr::new(""), "failed"),
            Remove::Always(dir) => (dir.as_os_str(), "always"),
            Remove::WhenFailed(dir) => (dir.as_os_str(), "failed"),
        };
        let mut command = Command::from(run_as.command(OsStr::new("sh")));
        command
            .args(["-c", SCRIPT, "adjutant-guard", program.signal])
            .arg(program.input)
            .arg(remove)
            .arg(when)
            .arg(&program.path)
            .args(&program.arguments)
            .current_dir("/")
            // On macOS the server does not start with a locale that is not installed.
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(err)
            // Ctrl-C must not reach the database, which stops last.
            .process_group(0);
        let mut guard = command.spawn().context("cannot start sh, which guards PostgreSQL")?;
        // `Child::wait` would close it, and that is the signal to stop.
        let pipe = guard.stdin.take();
        Ok(Self { guard, pipe })
    }

    /// Resolves when the program has ended. Cancel safe.
    pub async fn ended(&mut self) -> anyhow::Result<ExitStatus> {
        self.guard.wait().await.context("cannot wait for PostgreSQL")
    }

    /// Stops the program, and resolves when it has ended.
    pub async fn stop(&mut self) -> anyhow::Result<ExitStatus> {
        self.pipe = None;
        self.ended().await
    }
}

/// Runs a program to its end and returns its status and its output.
pub async fn run(
    run_as: &RunAs,
    program: &GuardedProgram<'_>,
) -> anyhow::Result<(ExitStatus, String)> {
    let Guard { guard, pipe } = Guard::start(run_as, program, Stdio::piped(), Stdio::piped())?;
    let finished = guard.wait_with_output().await.context("cannot wait for PostgreSQL's set-up")?;
    drop(pipe);
    let output = [finished.stdout, finished.stderr].concat();
    Ok((finished.status, String::from_utf8_lossy(&output).into_owned()))
}
