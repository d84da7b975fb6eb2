//! Programs of other projects, as child processes.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::world::until_within;

/// How long a program may take to start; loading a model is slow on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// All of them print this before their address.
const LISTENING: &str = "listening on ";

pub const EVERYTHING: &str = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
pub const FILESYSTEM: &str = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";

/// The path of a file that `install.sh` has installed.
pub fn installed(path: &str) -> PathBuf {
    let folder = std::env::var_os("ADJUTANT_TEST_REAL")
        .expect("make test-real says where things are installed");
    let path = Path::new(&folder).join(path);
    assert!(path.exists(), "there is no {}: make test-real installs it", path.display());
    path
}

pub fn node(script: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(installed(script));
    command
}

/// A server process. The test kills it at its end and, if it failed, prints its output.
pub struct Program {
    child: Child,
    output: tempfile::NamedTempFile,
    command: String,
}

impl Program {
    /// Starts it, and returns when it listens.
    pub async fn start(command: &mut Command) -> Self {
        let output = tempfile::NamedTempFile::new().unwrap();
        let file = output.reopen().unwrap();
        let child = command
            .stdin(Stdio::piped())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        let mut program = Self { child, output, command: format!("{command:?}") };
        until_within(PATIENCE, "it listens", async || {
            assert!(program.child.try_wait().unwrap().is_none(), "it has ended");
            program.output().contains(LISTENING)
        })
        .await;
        program
    }

    /// The address that it has printed.
    pub fn address(&self) -> String {
        let output = self.output();
        let (_, address) = output.split_once(LISTENING).unwrap();
        address.split_whitespace().next().unwrap().trim_start_matches("http://").to_owned()
    }

    fn output(&self) -> String {
        fs::read_to_string(self.output.path()).unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.command, self.output());
        }
    }
}

/// The JSON answer to a GET request.
pub async fn get(address: &str, path: &str, headers: &str) -> Value {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{answer}");
    serde_json::from_str(body).unwrap()
}

/// A free port, for programs that cannot choose one themselves.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
