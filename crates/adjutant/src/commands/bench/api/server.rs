//! A server of its own: this same program, started again.

use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::Context;
use serde::Deserialize;
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use crate::signals;
use crate::worker_processes::own_program;

/// A running `adjutant serve`; it is killed when this is dropped.
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
    /// Returns when it answers. It writes its log as it does by default, to nobody.
    pub async fn start(url: &str) -> anyhow::Result<Self> {
        // Empty: what the user's config says is not for this one.
        let config = tempfile::Builder::new().suffix(".toml").tempfile()?;
        let mut child = own_program()?
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--config"])
            .arg(config.path())
            .env("DATABASE_URL", url)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start a server")?;
        let said =
            BufReader::new(child.stdout.take().context("no output")?).lines().next_line().await?;
        let ready: Ready = serde_json::from_str(&said.context("a server did not start")?)?;
        let address =
            ready.url.trim_start_matches("http://").parse().context("a server has no address")?;
        Ok(Self { child, address, _config: config })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn pid(&self) -> anyhow::Result<u32> {
        self.child.id().context("the server is gone")
    }

    /// Lets it drain, and returns when it is gone.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        signals::send("TERM", &self.child).await?;
        self.child.wait().await.context("cannot wait for the server")?;
        Ok(())
    }
}
