//! Worker processes for the benchmark and the demo: this same program, started again.

use std::process::Stdio;

use adjutant_agent::WorkerId;
use anyhow::Context;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::signals;

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
    /// One that plays rehearsals. Returns when it works.
    pub async fn start(url: &str, concurrency: u16, more: &[&str]) -> anyhow::Result<Self> {
        Self::start_with(url, concurrency, &[&["--rehearse"], more].concat()).await
    }

    /// One that runs agents, unless the arguments say otherwise. Returns when it works.
    pub async fn start_with(url: &str, concurrency: u16, more: &[&str]) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe().context("cannot find this program")?)
            .args(["work", "--json", "--log", "error", "--concurrency", &concurrency.to_string()])
            .args(more)
            .env("DATABASE_URL", url)
            // A scripted model is on this machine.
            .env("NO_PROXY", "127.0.0.1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Ctrl-C in the terminal is for us; what we leave behind is killed.
            .process_group(0)
            .kill_on_drop(true)
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
