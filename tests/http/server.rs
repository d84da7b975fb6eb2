//! `adjutant serve` as a process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::client::{Answer, try_send};
use crate::private_postgres::process::signal;
use crate::world::{World, until};

/// A config with a model and an agent, and what a test adds.
pub const CONFIG: &str = "
[models.main]
wire = 'openai'
[model_aliases]
sonnet = 'main'
[agents.researcher]
description = 'Investigates'
system_prompt = 'You are a researcher.'
";

/// A server on a free port; killed with the test, which then shows what it said.
pub struct Server {
    child: Child,
    pub address: String,
    said: tempfile::NamedTempFile,
    _folder: TempDir,
}

pub fn serve(url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adjutant"));
    command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--database-url", url]).stdin(Stdio::null());
    command
}

impl Server {
    pub fn on(world: &World) -> Self {
        Self::with(world, "")
    }

    /// With more in its config.
    pub fn with(world: &World, more: &str) -> Self {
        Self::of(world, &format!("{CONFIG}{more}"))
    }

    /// With this config and no other.
    pub fn of(world: &World, text: &str) -> Self {
        Self::at(world.url(), text)
    }

    /// As [`Server::of`], on whatever is behind this URL.
    pub fn at(url: &str, text: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let config = folder.path().join("adjutant.toml");
        fs::write(&config, text).unwrap();
        let said = tempfile::NamedTempFile::new().unwrap();
        let mut child = serve(url)
            .arg("--config")
            .arg(config)
            .stdout(Stdio::piped())
            .stderr(said.reopen().unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let about: Value = serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("it did not start: {:?}", fs::read_to_string(said.path())));
        let address = about["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
        Self { child, address, said, _folder: folder }
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

    /// As [`Server::request`], but the server may be lost on the way.
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

    pub fn signal(&self, name: &str) {
        signal(name, self.child.id()).unwrap();
    }

    pub async fn ended(&mut self) -> ExitStatus {
        until("the server has ended", async || self.child.try_wait().unwrap().is_some()).await;
        self.child.try_wait().unwrap().unwrap()
    }

    pub fn said(&self) -> String {
        fs::read_to_string(self.said.path()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- serve\n{}", self.said());
        }
    }
}
