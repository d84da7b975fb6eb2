//! `adjutant serve` as a process.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::http_client::{Answer, try_send};
use crate::support::process::{DETAILED_LOG, Process};
use crate::support::world::World;

/// A config with a model and an agent; tests add to it.
pub const CONFIG: &str = "
[models.main]
wire = 'openai'
[model_aliases]
sonnet = 'main'
[agents.researcher]
description = 'Investigates'
system_prompt = 'You are a researcher.'
";

/// A server on a free port.
pub struct TestServer {
    process: Process,
    pub address: String,
    _folder: TempDir,
}

pub fn serve(url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adjutant"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--database-url", url]).stdin(Stdio::null());
    command.env("ADJUTANT_LOG", DETAILED_LOG);
    command
}

impl TestServer {
    pub fn on(world: &World) -> Self {
        Self::with(world, "")
    }

    /// A server with [`CONFIG`] and these additional settings.
    pub fn with(world: &World, more: &str) -> Self {
        Self::of(world, &format!("{CONFIG}{more}"))
    }

    /// A server with this config only.
    pub fn of(world: &World, text: &str) -> Self {
        Self::at(world.url(), text)
    }

    /// As [`TestServer::of`], on the database behind this URL.
    pub fn at(url: &str, text: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let config = folder.path().join("adjutant.toml");
        fs::write(&config, text).unwrap();
        Self::start(serve(url).arg("--config").arg(config), folder)
    }

    /// A server with this config and the log that operators have.
    pub fn with_default_log(url: &str, text: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let config = folder.path().join("adjutant.toml");
        fs::write(&config, text).unwrap();
        let mut command = serve(url);
        Self::start(command.env_remove("ADJUTANT_LOG").arg("--config").arg(config), folder)
    }

    fn start(command: &mut Command, folder: TempDir) -> Self {
        let process = Process::start(command).unwrap();
        let url = process.about["url"].as_str().unwrap();
        let address = url.strip_prefix("http://").unwrap().to_owned();
        Self { process, address, _folder: folder }
    }

    /// Stops it as a service manager does.
    pub fn stop(self) -> anyhow::Result<()> {
        self.process.stop()
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], "").await
    }

    pub async fn post(&self, path: &str, body: &str) -> Answer {
        self.request("POST", path, &["Content-Type: application/json"], body).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.request("DELETE", path, &[], "").await
    }

    pub async fn request(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        self.try_request(method, path, headers, body).await.expect("a whole answer")
    }

    /// As [`TestServer::request`], but the server may die before it answers.
    pub async fn try_request(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &str,
    ) -> std::io::Result<Answer> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|header| header.starts_with("Host:")) {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        for header in headers {
            head.push_str(&format!("{header}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        try_send(&self.address, head.as_bytes()).await
    }
}

impl Deref for TestServer {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for TestServer {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}
