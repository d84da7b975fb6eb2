//! `adjutant work` as a process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use adjutant_agent::WorkerId;
use serde_json::Value;

use crate::private_postgres::process::{signal, succeed};
use crate::world::{World, until};

/// A worker with a short lease that plays rehearsals; arguments override what is in the environment.
pub fn work(url: &str) -> Command {
    let mut command = work_for_real(url);
    command.arg("--rehearse");
    command
}

/// The same, but it runs agents.
pub fn work_for_real(url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adjutant"));
    command
        .args(["work", "--json", "--database-url", url])
        .env("ADJUTANT_LEASE_SECONDS", "2")
        .env("ADJUTANT_CONCURRENCY", "5")
        .env_remove("ADJUTANT_FAULT");
    command
}

/// A running worker; killed with the test, which then shows what it said.
pub struct WorkerProcess {
    child: Child,
    pub id: WorkerId,
    what: String,
    said: tempfile::NamedTempFile,
}

impl WorkerProcess {
    /// Returns when it works.
    pub fn start(command: &mut Command) -> Self {
        let said = tempfile::NamedTempFile::new().unwrap();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(said.reopen().unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Ok(about) = serde_json::from_str::<Value>(&line) else {
            let _ = child.kill();
            panic!("it did not start: {:?}", fs::read_to_string(said.path()));
        };
        let id = about["worker"].as_str().unwrap().parse().map(WorkerId).unwrap();
        Self { child, id, what: format!("{command:?}"), said }
    }

    pub fn on(url: &str) -> Self {
        Self::start(&mut work(url))
    }

    /// As [`WorkerProcess::on`], but it dies or stops at a point of its work: `before_end:kill`.
    pub fn with_fault(url: &str, fault: &str) -> Self {
        Self::start(work(url).env("ADJUTANT_FAULT", fault))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        signal(name, self.child.id()).unwrap();
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Kills it while it holds tasks.
    pub async fn killed_in_the_middle(&mut self, world: &World) {
        until("it is in the middle of tasks", async || {
            if !self.holds_something(world).await {
                return false;
            }
            self.signal("STOP");
            let holds = self.holds_something(world).await;
            if !holds {
                self.signal("CONT");
            }
            holds
        })
        .await;
        self.kill();
    }

    async fn holds_something(&self, world: &World) -> bool {
        sqlx::query_scalar("select exists (select from slot where worker = $1)")
            .bind(self.id.0)
            .fetch_one(&world.sql)
            .await
            .unwrap()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub async fn ended(&mut self) -> ExitStatus {
        until("the worker has ended", async || self.has_ended()).await;
        self.child.try_wait().unwrap().unwrap()
    }

    pub async fn killed_itself(&mut self) {
        assert_eq!(self.ended().await.signal(), Some(9), "{}", self.what);
    }

    /// Waits until it stands still, by a signal of its own.
    pub async fn stopped_itself(&self) {
        until("the worker has stopped", async || {
            let pid = self.child.id().to_string();
            let state = succeed(Command::new("ps").args(["-o", "state=", "-p", &pid])).unwrap();
            state.stdout.starts_with(b"T")
        })
        .await;
    }

    pub fn said(&self) -> String {
        fs::read_to_string(self.said.path()).unwrap()
    }

    pub async fn says(&self, words: &str) {
        until(&format!("the worker says {words:?}"), async || self.said().contains(words)).await;
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.what, self.said());
        }
    }
}
