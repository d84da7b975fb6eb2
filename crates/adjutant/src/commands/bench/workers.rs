//! Worker processes of the benchmark and the demo: this same program, started again.

use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Running workers; they are killed when this is dropped.
pub struct Workers(Vec<Child>);

impl Workers {
    /// Returns when all of them work.
    pub async fn start(url: &str, count: u16, concurrency: u16) -> anyhow::Result<Self> {
        let mut workers = Self(Vec::new());
        for _ in 0..count {
            let mut child = Command::new(std::env::current_exe().context("cannot find this program")?)
                .args(["work", "--json", "--log", "error", "--concurrency", &concurrency.to_string()])
                .env("DATABASE_URL", url)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .context("cannot start a worker")?;
            let ready = BufReader::new(child.stdout.take().context("no output")?).lines().next_line().await?;
            ready.context("a worker did not start")?;
            workers.0.push(child);
        }
        // Until they have heard their own first notice, they poll.
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok(workers)
    }

    pub async fn stop(mut self) -> anyhow::Result<()> {
        for worker in &mut self.0 {
            worker.kill().await.context("cannot stop a worker")?;
        }
        Ok(())
    }
}
