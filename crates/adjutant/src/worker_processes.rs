//! Worker processes for the benchmark and the demo, started from this program.

use std::path::Path;
use std::process::Stdio;

use adjutant_agent::WorkerId;
use anyhow::Context;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::signals;

/// What a worker does with its tasks.
#[derive(Debug, Clone, Copy)]
pub enum WorkerKind<'a> {
    /// It runs the simulations in their configs.
    Simulated,
    /// It runs the agents of this config file.
    Agents(&'a Path),
}

/// A running worker; it is killed on drop.
pub struct WorkerProcess {
    child: Child,
    id: WorkerId,
}

#[derive(Deserialize)]
struct Ready {
    worker: WorkerId,
}

impl WorkerProcess {
    /// Returns when the worker is ready.
    pub async fn start(url: &str, concurrency: u16, kind: WorkerKind<'_>) -> anyhow::Result<Self> {
        let mut command = own_program()?;
        command.args([
            "work",
            "--json",
            "--log",
            "error",
            "--concurrency",
            &concurrency.to_string(),
        ]);
        match kind {
            WorkerKind::Simulated => command.arg("--simulate"),
            // The model is on this machine, so no proxy may be used.
            WorkerKind::Agents(config) => {
                command.arg("--config").arg(config).env("NO_PROXY", "127.0.0.1")
            }
        };
        let mut child = command
            .env("DATABASE_URL", url)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a worker")?;
        let line =
            BufReader::new(child.stdout.take().context("no output")?).lines().next_line().await?;
        let ready: Ready = serde_json::from_str(&line.context("a worker did not start")?)?;
        Ok(Self { child, id: ready.worker })
    }

    pub fn id(&self) -> WorkerId {
        self.id
    }

    pub fn pid(&self) -> anyhow::Result<u32> {
        self.child.id().context("the worker has ended")
    }

    /// Drains the worker, and returns when it has ended.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        signals::send("TERM", &self.child).await?;
        self.child.wait().await.context("cannot wait for a worker")?;
        Ok(())
    }

    /// Sends SIGKILL, and returns when the worker has ended.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("cannot kill a worker")
    }
}

/// A command that runs this program again; it is killed on drop.
pub fn own_program() -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    // The user's settings are for the user's own fleet.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"ADJUTANT_") {
            command.env_remove(name);
        }
    }
    // Ctrl-C is handled by this process; children are killed on drop.
    command.stdin(Stdio::null()).process_group(0).kill_on_drop(true);
    Ok(command)
}
