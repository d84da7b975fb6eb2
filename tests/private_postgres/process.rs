//! Running `adjutant postgres` and looking at what it does.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Row};

const DEADLINE: Duration = Duration::from_secs(30);

/// `adjutant postgres`, with no choice of a server or of a way to run it from outside.
pub fn adjutant() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adjutant"));
    command.arg("postgres").env_remove("ADJUTANT_POSTGRES_BIN").env_remove("ADJUTANT_POSTGRES_RUN_AS");
    command
}

pub fn adjutant_on(dir: &Path) -> Command {
    let mut command = adjutant();
    command.arg("--data-dir").arg(dir);
    command
}

/// A server that runs until it is stopped; killed with the test that fails.
pub struct Running {
    pub child: Child,
    pub about: Value,
    said: tempfile::NamedTempFile,
}

impl Running {
    /// Returns when the server has said its URL.
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        let said = tempfile::NamedTempFile::new()?;
        let err = said.reopen()?;
        let mut child =
            command.arg("--json").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(err).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut line)?;
        let mut running = Self { child, about: Value::Null, said };
        if line.is_empty() {
            running.child.wait()?;
            bail!("it did not start: {}", running.said()?);
        }
        running.about = serde_json::from_str(&line)?;
        Ok(running)
    }

    pub fn on(dir: &Path) -> anyhow::Result<Self> {
        Self::start(&mut adjutant_on(dir))
    }

    pub fn url(&self) -> &str {
        self.about["database_url"].as_str().unwrap_or_default()
    }

    pub fn said(&self) -> anyhow::Result<String> {
        Ok(fs::read_to_string(self.said.path())?)
    }

    /// Stops it as a service manager does, and checks that it ends well.
    pub fn stop(mut self) -> anyhow::Result<()> {
        signal("TERM", self.child.id())?;
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}: {}", self.said()?);
        Ok(())
    }

    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Another process of the test, ended with it.
pub struct Bystander(pub Child);

impl Bystander {
    pub fn start() -> anyhow::Result<Self> {
        Ok(Self(Command::new("sleep").arg("600").spawn()?))
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command that has to fail, and returns what it said about it.
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

pub fn assert_says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "expected {word:?} in: {said}");
    }
}

/// The first column of the first row, as text.
pub fn query(url: &str, sql: &str) -> anyhow::Result<Option<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut connection = PgConnection::connect(url).await?;
        let row = sqlx::query(AssertSqlSafe(sql)).fetch_optional(&mut connection).await?;
        connection.close().await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    })
}

pub fn wait_until(what: &str, condition: impl Fn() -> bool) -> anyhow::Result<()> {
    let began = Instant::now();
    while !condition() {
        ensure!(began.elapsed() < DEADLINE, "in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The pid of the server on a data directory.
pub fn server_pid(dir: &Path) -> anyhow::Result<u32> {
    let file = fs::read_to_string(dir.join("postgres/postmaster.pid"))?;
    Ok(file.lines().next().context("an empty pid file")?.trim().parse()?)
}

pub fn signal(name: &str, pid: u32) -> anyhow::Result<()> {
    succeed(Command::new("sh").arg("-c").arg(format!("kill -{name} {pid}")))?;
    Ok(())
}

pub fn is_alive(pid: u32) -> bool {
    let asked = Command::new("sh").arg("-c").arg(format!("kill -0 {pid} 2>/dev/null")).status();
    asked.is_ok_and(|status| status.success())
}

/// One column of `ps` about a process.
pub fn ps(column: &str, pid: u32) -> anyhow::Result<u32> {
    let output = succeed(Command::new("ps").args(["-o", column, "-p", &pid.to_string()]))?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

pub fn is_root() -> anyhow::Result<bool> {
    Ok(succeed(Command::new("id").arg("-u"))?.stdout == b"0\n")
}

pub fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// A pid that no process has: that of one which has just ended.
pub fn dead_pid() -> anyhow::Result<u32> {
    let mut child = Command::new("true").spawn()?;
    child.wait()?;
    Ok(child.id())
}

pub fn touch(path: &Path) -> anyhow::Result<()> {
    File::create(path)?;
    Ok(())
}
