//! `adjutant mcp` without a running server: it starts a server and a private PostgreSQL.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use adjutant_script::{Script, ScriptServer, When, text};
use anyhow::{Context, Result};
use serde_json::json;
use tempfile::TempDir;

use crate::support::fleet::{KEY, model_config};
use crate::support::mcp_client::{McpStdioClient, mcp};
use crate::support::process::signal;
use crate::support::test_server::TestServer;
use crate::support::world::{World, until, until_within};

const AGENT: &str =
    "[agents.clerk]\ndescription = 'Does small tasks'\nsystem_prompt = 'You are a clerk.'\n";

/// A folder with a config, and the scripted model that the config names.
struct Install {
    folder: TempDir,
    _model: ScriptServer,
}

impl Install {
    async fn new() -> Result<Self> {
        let script = Script::new()
            .on(When::assignment("take your time"))
            .then(text("At last.").delay(Duration::from_secs(2)))
            .on(When::any())
            .then(text("Done."));
        let model = ScriptServer::start(script).await?;
        let folder = TempDir::new()?;
        let models = model_config("openai", "openai", &model, "");
        let config = format!("default_model = \"openai\"\n{models}{AGENT}");
        fs::write(folder.path().join("adjutant.toml"), config)?;
        Ok(Self { folder, _model: model })
    }

    /// Starts `adjutant mcp` in the folder as a client does, but on a free port, because other
    /// tests may use the default one.
    fn start(&self) -> McpStdioClient {
        let mut command = mcp();
        command.args(["--listen", "127.0.0.1:0"]).current_dir(self.folder.path());
        command.env("XDG_DATA_HOME", self.folder.path().join("data")).env("MODEL_KEY", KEY);
        command.env("ADJUTANT_LEASE_SECONDS", "2");
        McpStdioClient::start(command)
    }

    fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data/adjutant")
    }
}

async fn delegate(client: &McpStdioClient, task: &str) -> serde_json::Value {
    let spawned =
        client.call("subagent", json!({"action": "spawn", "agent": "clerk", "task": task})).await;
    let id = &spawned["task_id"];
    client.call("subagent", json!({"action": "wait", "task_ids": [id], "timeout_s": 45})).await;
    client.call("subagent", json!({"action": "collect", "task_id": id})).await
}

fn is_running(data: &Path) -> bool {
    data.join("postgres/postmaster.pid").exists()
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_clean_folder_one_command_gives_a_first_answer_and_leaves_nothing_running()
-> Result<()> {
    let install = Install::new().await?;
    let client = install.start();
    let server = client.initialize("2025-06-18").await;
    assert_eq!(server["serverInfo"]["name"], "adjutant");
    let collected = delegate(&client, "Do it.").await;
    assert_eq!(collected["result"], "Done.");
    let session = collected["session_id"].clone();
    assert!(is_running(&install.data()));
    client.close_input().await;
    assert_eq!(client.exited().await, Some(0), "{}", client.stderr());
    assert!(
        client.notifications().is_empty(),
        "only answers are on standard output: {:?}",
        client.notifications()
    );
    assert!(!is_running(&install.data()), "the database stops with the process");

    let again = install.start();
    again.initialize("2025-11-25").await;
    let read = json!({"action": "read", "task_id": "t_01", "session_id": session});
    assert_eq!(again.call("subagent", read).await["text"], "Done.");
    signal("TERM", again.pid())?;
    assert_eq!(again.exited().await, Some(0));
    assert!(!is_running(&install.data()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_share_one_server_and_tasks_outlive_the_client() -> Result<()> {
    let install = Install::new().await?;
    let (first, second) = (install.start(), install.start());
    tokio::join!(first.initialize("2025-06-18"), second.initialize("2025-06-18"));
    let own = |client: &McpStdioClient| client.stderr().contains("started a server at");
    let (owner, guest) = if own(&first) { (first, second) } else { (second, first) };
    assert!(own(&owner) && !own(&guest), "{} {}", owner.stderr(), guest.stderr());
    let spawned = guest
        .call(
            "subagent",
            json!({"action": "spawn", "agent": "clerk", "task": "Please take your time"}),
        )
        .await;
    assert_eq!(spawned["task_id"], "t_01");
    // Kills the server and the database while the task runs.
    owner.kill().await;
    let waited = guest
        .call("subagent", json!({"action": "wait", "task_ids": ["t_01"], "timeout_s": 45}))
        .await;
    assert_eq!(waited["tasks"].as_array().map(Vec::len), Some(1), "{waited}");
    let collected = guest.call("subagent", json!({"action": "collect", "task_id": "t_01"})).await;
    assert_eq!(collected["result"], "At last.");
    assert!(own(&guest));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn adjutant_mcp_exits_with_its_parent_even_if_its_input_stays_open() -> Result<()> {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let folder = TempDir::new()?;
    let fifo = folder.path().join("input");
    assert!(Command::new("mkfifo").arg(&fifo).status()?.success());
    // Opened for reading and writing, so that the open does not block and the input never ends.
    let _open = fs::OpenOptions::new().read(true).write(true).open(&fifo)?;
    let pid_file = folder.path().join("pid");
    let script = format!(
        "\"$1\" mcp --url http://{} < \"$2\" > /dev/null 2> \"$3.log\" & echo $! > \"$3\"; wait",
        server.address
    );
    let mut parent = Command::new("sh")
        .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_adjutant")])
        .args([&fifo, &pid_file])
        .stdin(Stdio::null())
        .spawn()?;
    let log = folder.path().join("pid.log");
    // The shell may write the pid after the process has logged.
    until("the process runs", async || {
        fs::read_to_string(&log).is_ok_and(|log| log.contains("MCP server is ready"))
            && fs::read_to_string(&pid_file).is_ok_and(|pid| pid.ends_with('\n'))
    })
    .await;
    let pid: u32 = fs::read_to_string(&pid_file)?.trim().parse().context("no pid")?;
    let lives = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains("adjutant") && !stat.contains(") Z ")
    };
    assert!(lives());
    parent.kill()?;
    parent.wait()?;
    until_within(Duration::from_secs(20), "the process has ended", async || !lives()).await;
    Ok(())
}
