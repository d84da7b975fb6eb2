//! The commands against a real `adjutant up`, with a scripted model.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use adjutant_script::{Script, ScriptServer, When, text, tool_call};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::client_commands::{code, stderr, stdout};
use crate::support::fleet::{KEY, model_config};
use crate::support::process::{Process, assert_says, signal, succeed, wait_until};

/// A running `adjutant up` with its model, config and data.
struct Deployment {
    model: ScriptServer,
    folder: TempDir,
    up: Option<Process>,
    /// The URL of the server, the same after a restart.
    url: String,
}

const CONFIG: &str = r#"
[agents.clerk]
description = "Does office work"
system_prompt = "You are a clerk."
tools = ["shared_context"]
max_turns = 3
"#;

impl Deployment {
    async fn new(script: Script) -> Result<Self> {
        let model = ScriptServer::start(script).await?;
        let folder = TempDir::new()?;
        let models = model_config("openai", "openai", &model, "");
        std::fs::write(
            folder.path().join("adjutant.toml"),
            format!("default_model = \"openai\"\n{models}{CONFIG}"),
        )?;
        let mut deployment = Self { model, folder, up: None, url: "http://127.0.0.1:0".to_owned() };
        deployment.start()?;
        deployment.url = deployment
            .up
            .as_ref()
            .and_then(|up| up.about["url"].as_str())
            .context("no url")?
            .to_owned();
        Ok(deployment)
    }

    fn start(&mut self) -> Result<()> {
        let mut up = Command::new(env!("CARGO_BIN_EXE_adjutant"));
        up.arg("up")
            .args(["--listen", self.url.trim_start_matches("http://")])
            .env_remove("DATABASE_URL");
        up.arg("--config").arg(self.folder.path().join("adjutant.toml"));
        up.arg("--data-dir").arg(self.folder.path().join("data")).env("MODEL_KEY", KEY);
        self.up = Some(Process::start(&mut up)?);
        Ok(())
    }

    fn restart(&mut self) -> Result<()> {
        self.up.take().context("the deployment does not run")?.stop()?;
        self.start()
    }

    fn adjutant(&self, line: &[&str]) -> Command {
        super::client_commands::adjutant(&self.url, line)
    }

    fn run(&self, line: &[&str]) -> Result<Output> {
        Ok(self.adjutant(line).output()?)
    }

    /// The standard output of a command, which must succeed.
    fn stdout_of(&self, line: &[&str]) -> Result<String> {
        let output = self.run(line)?;
        ensure!(output.status.success(), "{line:?}: {output:?}");
        Ok(stdout(&output).trim_end().to_owned())
    }

    fn json(&self, line: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(&self.stdout_of(line)?)?)
    }
}

fn script() -> Script {
    Script::new()
        .on(When::assignment("take your time"))
        .then(text("At last.").delay(Duration::from_secs(3)))
        .on(When::assignment("never end"))
        .then(text("Never.").delay(Duration::from_secs(600)))
        .on(When::assignment("go round"))
        .then(tool_call("shared_context", json!({"action": "list_keys"})))
        .then(tool_call("shared_context", json!({"action": "list_keys"})))
        .then(tool_call("shared_context", json!({"action": "list_keys"})))
        .on(When::assignment("write a lot"))
        .then(text("lots ".repeat(2000)))
        .on(When::any())
        .then(text("Done."))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_goes_from_spawn_to_its_result() -> Result<()> {
    let deployment = Deployment::new(script()).await?;
    assert_says(&deployment.stdout_of(&["agents"])?, &["clerk", "Does office work"]);
    let id = deployment.stdout_of(&["spawn", "clerk", "Do it", "--label", "first"])?;
    assert_eq!(id, "t_01");
    assert_eq!(deployment.stdout_of(&["wait", &id])?, "t_01 clerk completed after 1 turn");
    assert_says(&deployment.stdout_of(&["status"])?, &["t_01", "completed", "first"]);
    assert_eq!(deployment.stdout_of(&["collect", &id])?, "Done.");
    assert_eq!(code(&deployment.run(&["collect", &id])?), Some(5));
    assert_eq!(deployment.stdout_of(&["read", &id])?, "Done.");
    assert_says(
        &deployment.stdout_of(&["tasks", "--state", "completed"])?,
        &["default", "t_01", "clerk", "first"],
    );
    assert_says(
        &deployment.stdout_of(&["tasks", "show", &id, "--turns"])?,
        &["assignment", "Do it", "Done.", "turn 1"],
    );
    assert_eq!(deployment.stdout_of(&["tasks", "retry", &id])?, "t_02");
    assert_eq!(deployment.stdout_of(&["collect", "t_02", "--wait"])?, "Done.");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_survives_a_restart_of_everything_and_prints_the_result_once() -> Result<()> {
    let mut deployment = Deployment::new(script()).await?;
    let mut spawn = deployment.adjutant(&["spawn", "clerk", "Please take your time", "--wait"]);
    let child = spawn.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    wait_until("the task runs", || {
        deployment.stdout_of(&["status"]).is_ok_and(|status| status.contains("running"))
    })?;
    deployment.restart()?;
    let output = child.wait_with_output()?;
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "At last.\n"), "{output:?}");
    assert_eq!(deployment.json(&["tasks", "--json"])?["tasks"].as_array().map(Vec::len), Some(1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_failure_has_its_exit_code() -> Result<()> {
    let deployment = Deployment::new(script()).await?;
    let output = deployment.run(&["spawn", "clerk", "Please go round", "--wait"])?;
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(3), ""), "{output:?}");
    assert_says(&stderr(&output), &["Max turns exceeded"]);
    let id = deployment.stdout_of(&["spawn", "clerk", "Please never end"])?;
    assert_eq!(code(&deployment.run(&["collect", &id])?), Some(4));
    assert_eq!(code(&deployment.run(&["wait", &id, "--timeout", "0.2"])?), Some(4));
    assert_eq!(code(&deployment.run(&["status", "t_99"])?), Some(5));
    assert_eq!(code(&deployment.run(&["spawn", "nobody", "x"])?), Some(5));
    assert_eq!(code(&deployment.run(&["spawn", "clerk", ""])?), Some(2));
    assert_eq!(code(&deployment.run(&["status", &id, "--session", "elsewhere"])?), Some(5));
    assert_eq!(code(&deployment.run(&["cancel", &id])?), Some(0));
    assert_eq!(code(&deployment.run(&["collect", &id])?), Some(3));
    deployment.stdout_of(&["sessions", "archive", "default"])?;
    assert_eq!(code(&deployment.run(&["spawn", "clerk", "x"])?), Some(6));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_result_is_printed_whole() -> Result<()> {
    let deployment = Deployment::new(script()).await?;
    let whole = "lots ".repeat(2000);
    assert_eq!(
        deployment.stdout_of(&["spawn", "clerk", "Please write a lot", "--wait"])?,
        whole.trim_end()
    );
    let page = deployment.json(&["read", "t_01", "--offset", "9990", "--json"])?;
    assert_eq!((&page["next_offset"], &page["result_chars"]), (&Value::Null, &json!(10_000)));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_too_long_is_refused_with_its_size_and_a_working_alternative() -> Result<()>
{
    let deployment = Deployment::new(script()).await?;
    let spawn = |task: &str| -> Result<Output> {
        let mut command = deployment.adjutant(&["spawn", "clerk", "--wait", "--session", "long"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        child.stdin.take().context("no stdin")?.write_all(task.as_bytes())?;
        Ok(child.wait_with_output()?)
    };
    let output = spawn(&"é".repeat(4003))?;
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), "Done.\n"), "{output:?}");

    let input = "+ a line of a diff\n".repeat(500);
    let output = spawn(&input)?;
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(2), ""), "{output:?}");
    let error = stderr(&output);
    assert_says(
        &error,
        &[
            "TASK_TOO_LARGE",
            "9499 characters",
            "4003 characters",
            "1000 tokens",
            "tools.files.root",
        ],
    );

    let advice = error.lines().find(|line| line.contains("adjutant context write"));
    let advice = advice.context("no command")?.trim();
    std::fs::write(deployment.folder.path().join("input.txt"), &input)?;
    let program = Path::new(env!("CARGO_BIN_EXE_adjutant")).parent().context("no folder")?;
    let path = format!("{}:{}", program.display(), std::env::var("PATH")?);
    let mut shell = Command::new("sh");
    shell.args(["-c", advice]).current_dir(deployment.folder.path()).env("PATH", path);
    succeed(&mut shell)?;
    let read = |more: &[&str]| {
        deployment.stdout_of(&[&["context", "read", "input", "--session", "long"], more].concat())
    };
    assert_eq!(read(&["--whole"])?, input.trim_end());
    assert_eq!(read(&[])?, "This text has 3 parts: read the keys input_1 to input_3 in order.");
    Ok(())
}

/// The keys of the session `default`.
fn keys(deployment: &Deployment) -> Result<Vec<String>> {
    let listed = deployment.json(&["context", "keys", "--json"])?;
    let keys = listed["keys"].as_array().context("no keys")?.iter();
    keys.map(|entry| Ok(entry["key"].as_str().context("no key")?.to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_file_is_divided_among_keys_and_replaces_an_earlier_one() -> Result<()> {
    let deployment = Deployment::new(script()).await?;
    let file = deployment.folder.path().join("long.txt");
    let write = |text: &[u8]| -> Result<Output> {
        std::fs::write(&file, text)?;
        let file = file.to_str().context("no path")?;
        deployment.run(&["context", "write", "log", "--file", file])
    };
    let long = "0123456789 é\n".repeat(1000);
    let output = write(long.as_bytes())?;
    assert_eq!(code(&output), Some(0), "{output:?}");
    assert_says(&stdout(&output), &["12999 characters are in log_1 to log_4", "log says so"]);
    assert_eq!(keys(&deployment)?, ["log", "log_1", "log_2", "log_3", "log_4"]);
    let first = deployment.stdout_of(&["context", "read", "log_1"])?;
    assert!(first.ends_with('é'), "a part ends at the end of a line: {first}");
    assert_eq!(deployment.stdout_of(&["context", "read", "log", "--whole"])?, long.trim_end());

    let output = write("x".repeat(5000).as_bytes())?;
    assert_says(&stdout(&output), &["5000 characters are in log_1 to log_2"]);
    assert_eq!(keys(&deployment)?, ["log", "log_1", "log_2"]);

    let output = write("y\n".repeat(30_000).as_bytes())?;
    assert_eq!(code(&output), Some(6), "{output:?}");
    assert_says(
        &stderr(&output),
        &[
            "59999 characters",
            "STORE_FULL",
            "room for 10000 of its 10000",
            "limits.max_store_tokens",
        ],
    );
    assert_eq!(
        deployment.stdout_of(&["context", "read", "log", "--whole"])?,
        "x".repeat(5000),
        "nothing was written"
    );

    assert_says(&stdout(&write(b"short\r\n")?), &["log is now at version"]);
    assert_eq!(keys(&deployment)?, ["log"]);
    assert_eq!(deployment.stdout_of(&["context", "read", "log", "--whole"])?, "short");
    for (bytes, said) in [(&b"ab\xff"[..], "byte 2 is not"), (b"a\0b", "byte 1 is NUL")] {
        let output = write(bytes)?;
        assert_eq!(code(&output), Some(2), "{output:?}");
        assert_says(&stderr(&output), &["long.txt is not", said]);
    }
    let output = deployment.run(&["context", "write", "log", &"x".repeat(4004)])?;
    assert_eq!(code(&output), Some(2), "{output:?}");
    assert_says(&stderr(&output), &["VALUE_TOO_LARGE", "limits.max_value_tokens", "--file FILE"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_was_collected_says_so_and_can_be_read() -> Result<()> {
    let deployment = Deployment::new(script()).await?;
    deployment.stdout_of(&["spawn", "clerk", "x", "--wait"])?;
    for line in [&["collect", "t_01"][..], &["collect", "t_01", "--wait"], &["status", "t_01"]] {
        let output = deployment.run(line)?;
        assert_eq!(code(&output), Some(5), "{output:?}");
        assert_says(&stderr(&output), &["t_01 was already collected at 20", "use read"]);
    }
    assert_eq!(deployment.stdout_of(&["read", "t_01"])?, "Done.");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_wait_leaves_the_task_running_or_cancels_it() -> Result<()> {
    let deployment = Deployment::new(script()).await?;
    for (more, state) in [(&[][..], "running"), (&["--cancel-on-interrupt"], "cancelled")] {
        let mut spawn = deployment.adjutant(&["spawn", "clerk", "Please never end", "--wait"]);
        let child = spawn.args(more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let newest = || {
            deployment
                .json(&["tasks", "--json", "--limit", "1"])
                .map(|page| page["tasks"][0].clone())
        };
        wait_until("the task runs", || newest().is_ok_and(|task| task["state"] == "running"))?;
        signal("INT", child.id())?;
        assert_eq!(code(&child.wait_with_output()?), Some(130));
        assert_eq!(newest()?["state"], state);
        deployment.stdout_of(&["cancel", newest()?["task_id"].as_str().context("no id")?])?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_sessions_and_notes_are_created_and_listed() -> Result<()> {
    let deployment = Deployment::new(script()).await?;
    let line = [
        "agents",
        "define",
        "critic",
        "--description",
        "Finds weak points",
        "--system-prompt",
        "You are a critic.",
    ];
    deployment.stdout_of(&line)?;
    assert_eq!(code(&deployment.run(&line)?), Some(6), "the agent exists already");
    assert_says(&deployment.stdout_of(&["agents"])?, &["clerk", "critic"]);
    assert_eq!(deployment.stdout_of(&["sessions", "create", "nightly"])?, "nightly");
    assert_says(&deployment.stdout_of(&["sessions"])?, &["default", "nightly", "open"]);
    assert!(!deployment.stdout_of(&["agents", "--session", "nightly"])?.contains("critic"));
    deployment.stdout_of(&["context", "write", "goal", "Be quick", "--session", "nightly"])?;
    assert_eq!(
        deployment.stdout_of(&["context", "read", "goal", "--session", "nightly"])?,
        "Be quick"
    );
    assert_says(
        &deployment.stdout_of(&["context", "keys", "--session", "nightly"])?,
        &["goal", "orchestrator"],
    );
    deployment.stdout_of(&["sessions", "delete", "nightly", "--yes"])?;
    assert_eq!(
        code(&deployment.run(&["context", "read", "goal", "--session", "nightly"])?),
        Some(5)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_and_watch_show_the_state() -> Result<()> {
    let deployment = Deployment::new(script()).await?;
    let data = deployment.folder.path().join("data");
    let mut doctor = deployment.adjutant(&["doctor", "--config"]);
    doctor
        .arg(deployment.folder.path().join("adjutant.toml"))
        .arg("--data-dir")
        .arg(&data)
        .env("MODEL_KEY", KEY);
    let output = doctor.output()?;
    assert_eq!(code(&output), Some(0), "{output:?}");
    assert_says(&stdout(&output), &["Everything is fine."]);
    deployment.stdout_of(&["spawn", "clerk", "Do it", "--wait"])?;
    assert_says(
        &deployment.stdout_of(&["watch", "--once"])?,
        &["1 worker", "0/5 slots", "t_01", "completed"],
    );
    deployment.model.assert_nothing_answered_twice();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_first_key_calls_without_a_key_are_refused() -> Result<()> {
    let deployment = Deployment::new(script()).await?;
    deployment.stdout_of(&["agents"])?;
    let data = deployment.folder.path().join("data");
    let keys = |line: &[&str]| {
        deployment.adjutant(&["keys"]).args(line).arg("--data-dir").arg(&data).output()
    };
    let made: Value = serde_json::from_slice(&keys(&["create", "laptop", "--json"])?.stdout)?;
    let secret = made["secret"].as_str().context("no secret")?;
    wait_until("calls without a key are refused", || {
        deployment.run(&["agents"]).is_ok_and(|output| code(&output) == Some(6))
    })?;
    ensure!(
        deployment.adjutant(&["agents"]).env("ADJUTANT_API_KEY", secret).output()?.status.success()
    );
    let listed = keys(&["list"])?;
    assert_says(&stdout(&listed), &["laptop", "default"]);
    assert!(!stdout(&listed).contains(secret));
    ensure!(keys(&["revoke", made["id"].as_str().context("no id")?])?.status.success());
    wait_until("the revoked key is refused", || {
        let output = deployment.adjutant(&["agents"]).env("ADJUTANT_API_KEY", secret).output();
        output.is_ok_and(|output| code(&output) == Some(6))
    })
}
