//! `adjutant` as a child process; signals, exits and logs of processes.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io::BufRead, io::BufReader};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::support::world::until;

/// The log of workers and servers of tests: also what they wait for and check that is not for
/// operators.
pub const DETAILED_LOG: &str = "info,sqlx=error,adjutant_server::call_log=debug,\
    adjutant_worker::listen=debug,adjutant_worker::telemetry=debug,\
    adjutant_worker::end=debug,adjutant_worker::renew=debug";

const DEADLINE: Duration = Duration::from_secs(30);

/// A child process that prints one line of JSON when it is ready. The test kills it at its end and,
/// if it failed, prints the child's standard error.
pub struct Process {
    pub child: Child,
    /// The line that it printed.
    pub about: Value,
    command: String,
    stderr: tempfile::NamedTempFile,
}

impl Process {
    /// Starts `command` with `--json`, and returns when it is ready.
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        let stderr = tempfile::NamedTempFile::new()?;
        let mut child = command
            .arg("--json")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr.reopen()?)
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut line)?;
        let mut process =
            Self { child, about: Value::Null, command: format!("{command:?}"), stderr };
        match serde_json::from_str(&line) {
            Ok(about) => process.about = about,
            Err(_) => {
                // It has closed its output: wait for its exit, so that its error message is
                // complete.
                if line.is_empty() {
                    process.child.wait()?;
                }
                bail!("it did not start: {}", process.stderr());
            }
        }
        Ok(process)
    }

    /// The URL of the database, which `up` and `postgres` print.
    pub fn database_url(&self) -> &str {
        self.about["database_url"].as_str().unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn stderr(&self) -> String {
        fs::read_to_string(self.stderr.path()).unwrap()
    }

    /// The lines of its log that have this action.
    pub fn log_lines(&self, action: &str) -> Vec<Value> {
        let parse =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        let stderr = self.stderr();
        let lines = stderr.lines().map(parse);
        lines.filter(|line: &Value| line["action"] == action).collect()
    }

    pub async fn until_logged(&self, words: &str) {
        until(&format!("{words:?} is logged"), async || self.stderr().contains(words)).await;
    }

    pub fn signal(&self, name: &str) {
        signal(name, self.child.id()).unwrap();
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops it as a service manager does, and checks that it exits with 0.
    pub fn stop(mut self) -> anyhow::Result<()> {
        signal("TERM", self.child.id())?;
        let status = self.child.wait()?;
        ensure!(status.success(), "it exited with {status}: {}", self.stderr());
        Ok(())
    }

    pub fn has_exited(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub async fn exited(&mut self) -> ExitStatus {
        until("the process has exited", async || self.has_exited()).await;
        self.child.try_wait().unwrap().unwrap()
    }

    /// Waits until a fault point has killed it.
    pub async fn killed_itself(&mut self) {
        assert_eq!(self.exited().await.signal(), Some(9), "{}", self.command);
    }

    /// Waits until a fault point has stopped it.
    pub async fn stopped_itself(&self) {
        until("the process has stopped", async || {
            let pid = self.child.id().to_string();
            let state = succeed(Command::new("ps").args(["-o", "state=", "-p", &pid])).unwrap();
            state.stdout.starts_with(b"T")
        })
        .await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.command, self.stderr());
        }
    }
}

/// Runs a command that has to fail, and returns its standard error.
pub fn refused(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    ensure!(!output.status.success(), "it was not refused: {output:?}");
    Ok(String::from_utf8(output.stderr)?)
}

pub fn succeed(command: &mut Command) -> anyhow::Result<Output> {
    let output = command.stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{command:?} failed: {output:?}");
    Ok(output)
}

pub fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "expected {word:?} in: {text}");
    }
}

pub fn wait_until(what: &str, condition: impl Fn() -> bool) -> anyhow::Result<()> {
    let started = Instant::now();
    while !condition() {
        ensure!(started.elapsed() < DEADLINE, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

pub fn signal(name: &str, pid: u32) -> anyhow::Result<()> {
    succeed(Command::new("sh").arg("-c").arg(format!("kill -{name} {pid}")))?;
    Ok(())
}

pub fn is_alive(pid: u32) -> bool {
    let status = Command::new("sh").arg("-c").arg(format!("kill -0 {pid} 2>/dev/null")).status();
    status.is_ok_and(|status| status.success())
}

/// One column of `ps` about a process.
pub fn ps(column: &str, pid: u32) -> anyhow::Result<u32> {
    let output = succeed(Command::new("ps").args(["-o", column, "-p", &pid.to_string()]))?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

pub fn is_root() -> anyhow::Result<bool> {
    Ok(succeed(Command::new("id").arg("-u"))?.stdout == b"0\n")
}
