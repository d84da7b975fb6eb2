//! Worker processes for the benchmark and the demo: this same program, started again.

use std::path::Path;
use std::process::Stdio;

use adjutant_agent::WorkerId;
use anyhow::Context;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::signals;

/// What a worker does with tasks.
#[derive(Debug, Clone, Copy)]
pub enum Playing<'a> {
    /// The rehearsals in their configs.
    Rehearsals,
    /// The agents of this config file.
    Agents(&'a Path),
}

/// A running worker; it is killed when this is dropped.
pub struct WorkerProcess {
    child: Child,
    id: WorkerId,
}

#[derive(Deserialize)]
struct Ready {
    worker: WorkerId,
}

impl WorkerProcess {
    /// Returns when it works.
    pub async fn start(url: &str, concurrency: u16, playing: Playing<'_>) -> anyhow::Result<Self> {
        let mut command = this_program()?;
        command.args(["work", "--json", "--log", "error", "--concurrency", &concurrency.to_string()]);
        match playing {
            Playing::Rehearsals => command.arg("--rehearse"),
            // The model is on this machine, whatever proxy leads out of it.
            Playing::Agents(config) => command.arg("--config").arg(config).env("NO_PROXY", "127.0.0.1"),
        };
        let mut child = command
            .env("DATABASE_URL", url)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a worker")?;
        let said = BufReader::new(child.stdout.take().context("no output")?).lines().next_line().await?;
        let ready: Ready = serde_json::from_str(&said.context("a worker did not start")?)?;
        Ok(Self { child, id: ready.worker })
    }

    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// Its process id, while it runs.
    pub fn pid(&self) -> anyhow::Result<u32> {
        self.child.id().context("a worker is gone")
    }

    /// Lets it drain, and returns when it is gone.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        signals::send("TERM", &self.child).await?;
        self.child.wait().await.context("cannot wait for a worker")?;
        Ok(())
    }

    /// `kill -9`: it has no time for anything. Returns when it is gone.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("cannot kill a worker")
    }
}

/// This program, to be started again. Killed when it is dropped.
pub fn this_program() -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    // What the user has set for fleets of their own is not for this one.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"ADJUTANT_") {
            command.env_remove(name);
        }
    }
    // Ctrl-C in the terminal is for us; what we leave behind is killed.
    command.stdin(Stdio::null()).process_group(0).kill_on_drop(true);
    Ok(command)
}
