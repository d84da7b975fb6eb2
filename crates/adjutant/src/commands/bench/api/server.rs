//! Starts `adjutant serve` as a child process, from the same executable.

use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::Context;
use serde::Deserialize;
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use crate::signals;
use crate::worker_processes::own_program;

/// A running `adjutant serve`. Dropping it kills the process.
pub struct ServeProcess {
    child: Child,
    address: SocketAddr,
    _config: NamedTempFile,
}

#[derive(Deserialize)]
struct Ready {
    url: String,
}

impl ServeProcess {
    /// Returns when the server accepts requests. Logging is on, as by default, and goes to
    /// /dev/null.
    pub async fn start(url: &str) -> anyhow::Result<Self> {
        // A config of its own, so that the user's config has no effect. Thousands of clients wait.
        let config = tempfile::Builder::new().suffix(".toml").tempfile()?;
        std::fs::write(
            config.path(),
            "[server]\ntenant_max_waits = 16384\ntenant_max_connections = 16384\naddress_max_connections = 16384\n",
        )?;
        let mut child = own_program()?
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--config"])
            .arg(config.path())
            .env("DATABASE_URL", url)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the server")?;
        let line =
            BufReader::new(child.stdout.take().context("no output")?).lines().next_line().await?;
        let ready: Ready = serde_json::from_str(&line.context("the server did not start")?)?;
        let address = ready
            .url
            .trim_start_matches("http://")
            .parse()
            .context("the server printed no valid address")?;
        Ok(Self { child, address, _config: config })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn pid(&self) -> anyhow::Result<u32> {
        self.child.id().context("the server has exited")
    }

    /// Drains the server and returns when it has exited.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        signals::send("TERM", &self.child).await?;
        self.child.wait().await.context("cannot wait for the server")?;
        Ok(())
    }
}
