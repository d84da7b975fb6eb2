//! `adjutant work` as a process.

use std::ops::{Deref, DerefMut};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use adjutant_agent::WorkerId;

use crate::support::process::{DETAILED_LOG, Process};
use crate::support::world::{World, until};

/// The command of a worker that plays simulations, with a short lease. Arguments that a test adds
/// override the environment.
pub fn simulate(url: &str) -> Command {
    let mut command = work(url);
    command.arg("--simulate");
    command
}

/// The same for a worker that runs agents.
pub fn work(url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adjutant"));
    command
        .args(["work", "--database-url", url])
        .env("ADJUTANT_LOG", DETAILED_LOG)
        .env("ADJUTANT_LEASE_SECONDS", "2")
        .env("ADJUTANT_CONCURRENCY", "5")
        .env_remove("ADJUTANT_FAULT");
    command
}

pub struct WorkerProcess {
    process: Process,
    pub id: WorkerId,
}

impl WorkerProcess {
    /// Returns when it is registered.
    pub fn start(command: &mut Command) -> Self {
        let process = Process::start(command).unwrap();
        let id = process.about["worker"].as_str().unwrap().parse().map(WorkerId).unwrap();
        Self { process, id }
    }

    pub fn on(url: &str) -> Self {
        Self::start(&mut simulate(url))
    }

    /// As [`WorkerProcess::on`], but it dies or stops at a fault point: `before_end:kill`.
    pub fn with_fault(url: &str, fault: &str) -> Self {
        Self::start(simulate(url).env("ADJUTANT_FAULT", fault))
    }

    /// Runs a worker until a fault point kills it, which may be before it has said that it is
    /// ready.
    pub async fn run_until_it_kills_itself(command: &mut Command) {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let exited = tokio::task::spawn_blocking(move || { child }.wait());
        assert_eq!(exited.await.unwrap().unwrap().signal(), Some(9), "{command:?}");
    }

    /// Kills it while it holds a lease.
    pub async fn kill_while_it_runs_tasks(&mut self, world: &World) {
        until("it runs tasks", async || {
            if !self.holds_a_lease(world).await {
                return false;
            }
            self.signal("STOP");
            let holds = self.holds_a_lease(world).await;
            if !holds {
                self.signal("CONT");
            }
            holds
        })
        .await;
        self.kill();
    }

    async fn holds_a_lease(&self, world: &World) -> bool {
        sqlx::query_scalar("select exists (select from slot where worker = $1)")
            .bind(self.id.0)
            .fetch_one(&world.sql)
            .await
            .unwrap()
    }
}

impl Deref for WorkerProcess {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for WorkerProcess {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}
