//! How commands find the `adjutant up` that runs here.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::cli::client_commands::{adjutant, code, stderr, stdout};
use crate::support::process::{Process, assert_says, refused, succeed};
use crate::support::world::World;

/// A machine without other servers of this user.
struct Machine(TempDir);

impl Machine {
    fn new() -> Result<Self> {
        Ok(Self(TempDir::new()?))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// A command that gets no URL.
    fn command(&self, line: &[&str]) -> Command {
        let mut command = adjutant("", line);
        command.env("ADJUTANT_RUN_DIR", self.path("run")).current_dir(self.0.path());
        command
    }

    fn up(&self, database: &[&str], config: &str) -> Result<Process> {
        let path = self.0.path().join(config);
        if !path.exists() {
            fs::write(&path, "[models.main]\nwire = 'openai'\n")?;
        }
        let line = ["up", "--listen", "127.0.0.1:0", "--config", &self.path(config)];
        Process::start(self.command(&line).args(database))
    }

    fn listed(&self) -> usize {
        fs::read_dir(self.0.path().join("run")).map_or(0, Iterator::count)
    }
}

fn url(up: &Process) -> Result<&str> {
    up.about["url"].as_str().context("no url")
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_find_the_running_up_whatever_its_data_directory() -> Result<()> {
    let machine = Machine::new()?;
    let own = machine.path("own");
    let mut up = machine.up(&["--data-dir", &own], "a.toml")?;
    let found = succeed(&mut machine.command(&["sessions", "create", "first"]))?;
    assert_says(&stdout(&found), &["first"]);
    assert_says(&stdout(&succeed(&mut machine.command(&["limits"]))?), &["cap 5"]);

    let world = World::new().await;
    let other = machine.up(&["--database-url", world.url()], "b.toml")?;
    let output = machine.command(&["sessions"]).output()?;
    assert_eq!(code(&output), Some(2), "{output:?}");
    assert_says(
        &stderr(&output),
        &["2 servers run here", "--url", "--data-dir", url(&up)?, url(&other)?, &own, "b.toml"],
    );
    let chosen = succeed(&mut machine.command(&["sessions", "--data-dir", &own]))?;
    assert_says(&stdout(&chosen), &["first"]);
    assert_says(
        &refused(&mut machine.command(&["sessions", "--data-dir", &machine.path("nowhere")]))?,
        &["no `adjutant up` runs on", "nowhere"],
    );

    up.kill();
    let left = succeed(&mut machine.command(&["sessions"]))?;
    assert!(!stdout(&left).contains("first"), "{left:?}");
    assert_eq!(machine.listed(), 1, "what a killed process left behind is removed");
    let output = machine.command(&["limits"]).output()?;
    assert_says(&stderr(&output), &[url(&other)?, "set --database-url"]);
    other.stop()?;
    assert_eq!(machine.listed(), 0);
    Ok(())
}

/// What `adjutant mcp` says when its client closes its input at once.
fn mcp(machine: &Machine, config: &str, line: &[&str]) -> Result<(Option<i32>, String)> {
    let mut command = machine.command(&["mcp"]);
    command.arg("--config").arg(config).args(line).stdout(Stdio::piped());
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("no input")?;
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    // It may have refused already.
    drop(std::io::Write::write_all(&mut input, ping.as_bytes()));
    let mut answer = String::new();
    let output = child.stdout.take().context("no output")?;
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut answer)?;
    drop(input);
    let output = child.wait_with_output()?;
    Ok((code(&output), format!("{answer}{}", stderr(&output))))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_another_config_is_named_and_never_used_silently() -> Result<()> {
    let machine = Machine::new()?;
    let world = World::new().await;
    let up = machine.up(&["--database-url", world.url()], "a.toml")?;
    let address = url(&up)?.trim_start_matches("http://");
    let listen = format!("[server]\nlisten = '{address}'\n[models.main]\nwire = 'openai'\n");
    let (same, another) = (machine.path("a.toml"), machine.path("b.toml"));
    fs::write(&same, &listen)?;
    fs::write(&another, &listen)?;
    let (exit, said) = mcp(&machine, &another, &[])?;
    assert_ne!(exit, Some(0), "{said}");
    assert_says(
        &said,
        &["has another config than", "a.toml", "b.toml", "--url", "--data-dir", "--config"],
    );
    let (exit, said) = mcp(&machine, &same, &[])?;
    assert_eq!(exit, Some(0), "{said}");
    assert_says(&said, &["\"result\"", "using the server at"]);
    let (exit, said) = mcp(&machine, &another, &["--url", url(&up)?])?;
    assert_eq!(exit, Some(0), "{said}");

    let serve = ["serve", "--database-url", world.url(), "--listen", address];
    let said = refused(&mut machine.command(&serve))?;
    let pid = format!("process {}", up.pid());
    assert_says(&said, &["is in use by `adjutant up`", &pid, "a.toml", "version", ":0 for any"]);
    let mut elsewhere = machine.command(&serve);
    let said = refused(elsewhere.env("ADJUTANT_RUN_DIR", Path::new("")))?;
    assert_says(&said, &["is in use by another Adjutant at"]);
    up.stop()
}
