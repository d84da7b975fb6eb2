//! One validation for all commands, and `adjutant config check --connect`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use adjutant_script::{Script, ScriptServer, When, text};
use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;

use crate::cli::client_commands::{adjutant, stdout};
use crate::support::fleet::{KEY, model_config};
use crate::support::process::{Process, assert_says};
use crate::support::test_server::TestServer;
use crate::support::world::World;

/// An MCP server with the tools `echo`, `fetch` and others.
const MCP_SERVER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../adjutant-worker/src/tools/tests/server.py");

/// A folder with an `adjutant.toml`.
struct Folder(TempDir);

impl Folder {
    fn with(config: &str) -> Result<Self> {
        let folder = TempDir::new()?;
        fs::write(folder.path().join("adjutant.toml"), config)?;
        Ok(Self(folder))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("adjutant.toml")
    }

    fn command(&self, line: &[&str]) -> Command {
        let mut command = adjutant("", line);
        command.arg("--config").arg(self.path()).current_dir(self.0.path());
        command
    }
}

/// The standard output and error of a command that fails.
fn failure(mut command: Command) -> Result<String> {
    let output = command.output()?;
    assert_eq!(output.status.code(), Some(1), "{command:?}: {output:?}");
    Ok(String::from_utf8([output.stdout, output.stderr].concat())?)
}

/// Every error but one is in a config of its own lines, so that a message can be told by its line.
const BROKEN: &str = "\
[models.one]
wire = 'openai'
extra_body = { messages = [] }
[models.two]
wire = 'openai'
fallback = ['three']
tenants = ['acme']
[tools.http.lookup]
description = 'd'
url = 'http://127.0.0.1:1/lookup'
[tools.http.schema]
description = 'd'
url = 'https://tools.example/x'
input_schema = { type = 'array' }
[tools.mcp.files]
command = ['files']
allow = ['read']
[agents.clerk]
description = 'd'
system_prompt = 'p'
[agents.scribe]
description = 'd'
system_prompt = 'p'
model = 'thee'
tools = ['raed', 'read', 'files__read', 'lookup']
[agents.tenant]
description = 'd'
system_prompt = 'p'
model = 'two'
tenants = ['other']
";

const ERRORS: &[&str] = &[
    ":3:27: models.one.extra_body.messages: is set by Adjutant",
    ":6:13: models.two.fallback: unknown model \"three\"",
    ":10:7: tools.http.lookup.url: ",
    "Set `allow_private`",
    ":14:1: tools.http.schema.input_schema: its `type` must be \"object\"",
    ":18:9: default_model: is required, because there are 2 models and clerk names none",
    "set default_model = \"one\"",
    ":24:9: agents.scribe.model: unknown model \"thee\"",
    ":25:10: agents.scribe.tools: unknown tool \"raed\"; did you mean read?",
    ":26:9: agents.tenant.tenants: has no tenant that may use its model two, which is for acme",
];

#[test]
fn every_command_refuses_what_cannot_work_with_the_same_words() -> Result<()> {
    let folder = Folder::with(BROKEN)?;
    let nowhere = ["--database-url", "postgres://127.0.0.1:1/x"];
    for line in [
        &["config", "check"][..],
        &["up", "--listen", "127.0.0.1:0", nowhere[0], nowhere[1]],
        &["work", nowhere[0], nowhere[1]],
        &["mcp"],
        &["doctor", "--json"],
    ] {
        let said = failure(folder.command(line))?.replace("\\\"", "\"");
        assert_says(&said, ERRORS);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_takes_what_only_workers_have_with_a_warning() -> Result<()> {
    let world = World::new().await;
    let config = "[models.one]\nwire = 'openai'\n[agents.scribe]\ndescription = 'd'\nsystem_prompt = 'p'\n\
        model = 'of-workers'\ntools = ['lookup']\n[tools.http.near]\ndescription = 'd'\nurl = 'http://127.0.0.1:1/x'\n";
    let server = TestServer::of(&world, config);
    assert_says(
        &server.stderr(),
        &[
            "agents.scribe.model: unknown model",
            "agents.scribe.tools: unknown tool",
            "tools.http.near.url",
            "tasks need a worker whose config allows it",
        ],
    );
    server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    let list = server.post("/v1/sessions/s/tools/subagent", r#"{"action": "list_agents"}"#).await;
    let agent = &list.json()["agents"][0];
    assert_eq!((&agent["tools"][0], &agent["model"]), (&"lookup".into(), &"of-workers".into()));

    let folder = Folder::with(config)?;
    failure(folder.command(&["config", "check"]))?;
    let output = folder.command(&["config", "check", "--for", "serve"]).output()?;
    assert!(output.status.success(), "{output:?}");
    Ok(())
}

#[test]
fn what_is_missing_on_a_machine_is_a_warning_of_the_check_and_stops_a_worker_at_once() -> Result<()>
{
    let folder = Folder::with(
        "[models.one]\nwire = 'openai'\napi_key_env = 'KEY_OF_NOBODY'\n[tools.files]\nroot = './nowhere'\n\
         [tools.mcp.far]\nurl = 'https://tools.example/mcp'\nheaders = { Authorization = { env = 'TOKEN_OF_NOBODY' } }\n",
    )?;
    let missing = [
        ":3:15: models.one.api_key_env: the environment variable KEY_OF_NOBODY",
        ":5:8: tools.files.root: ",
        "tools.mcp.far.headers.Authorization: the environment variable TOKEN_OF_NOBODY",
    ];
    let output = folder.command(&["config", "check"]).output()?;
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr)?;
    assert_says(&said, &missing);
    assert_eq!(said.matches("warning: ").count(), 3, "{said}");
    assert_says(&failure(folder.command(&["config", "check", "--connect"]))?, &missing);
    let nowhere = ["work", "--database-url", "postgres://127.0.0.1:1/x"];
    assert_says(&failure(folder.command(&nowhere))?, &missing);
    let up = ["up", "--listen", "127.0.0.1:0", "--data-dir", "data"];
    assert_says(&failure(folder.command(&up))?, &missing);
    assert!(!folder.0.path().join("data").exists(), "nothing was started");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_lists_the_tools_of_servers_and_calls_each_model_once() -> Result<()> {
    let model = ScriptServer::start(Script::new().on(When::any()).then(text("Yes."))).await?;
    let config = |tools: &str, down: &str| {
        format!(
            "default_model = 'one'\n{}{}[tools.mcp.py]\ncommand = ['python3', '{MCP_SERVER}', '.']\n{down}\
             [agents.clerk]\ndescription = 'd'\nsystem_prompt = 'p'\ntools = {tools}\n",
            model_config("one", "openai", &model, ""),
            model_config("two", "anthropic", &model, "")
        )
    };
    let check = |config: String, line: &[&str]| -> Result<(bool, Value)> {
        let folder = Folder::with(&config)?;
        let mut command = folder.command(&["config", "check", "--json", "--connect"]);
        let output = command.args(line).env("MODEL_KEY", KEY).output()?;
        let about: Value = serde_json::from_slice(&output.stdout).context("not JSON")?;
        assert_eq!(about["ok"], output.status.success(), "{output:?}");
        Ok((output.status.success(), about))
    };
    let tools = "['shared_context', 'echo', 'py__fetch', 'get_it']";
    let (ok, about) = tokio::task::block_in_place(|| check(config(tools, ""), &["--call-models"]))?;
    assert!(ok, "{about}");
    assert_eq!(about["mcp_servers"][0]["name"], "py");
    assert!(
        about["mcp_servers"][0]["tools"].as_array().context("no tools")?.contains(&"echo".into())
    );
    assert_eq!(
        (&about["calls"][0]["model"], &about["calls"][1]["model"]),
        (&"one".into(), &"two".into())
    );
    assert!(about["calls"][0]["duration_ms"].is_u64(), "{about}");
    assert_eq!(model.requests().len(), 2, "each model was called once");

    let (ok, about) = tokio::task::block_in_place(|| check(config("['echo', 'ehco']", ""), &[]))?;
    assert!(!ok, "{about}");
    assert_eq!(about["errors"][0]["name"], "agents.clerk.tools");
    assert_says(&about["errors"].to_string(), &["has the tool", "ehco"]);
    assert_eq!(
        (about["errors"].as_array().map(Vec::len), &about["calls"]),
        (Some(1), &Value::Null)
    );

    let down =
        "[tools.mcp.gone]\ncommand = ['/nowhere/server']\n[tools.mcp.silent]\ncommand = ['cat']\n";
    let (ok, about) = tokio::task::block_in_place(|| {
        check(config("['echo', 'ehco']", down), &["--timeout", "2"])
    })?;
    assert!(!ok, "{about}");
    let errors = about["errors"].to_string();
    assert_says(&errors, &["tools.mcp.gone", "is not connected", "tools.mcp.silent", "within 2 s"]);
    assert!(!errors.contains("ehco"), "only the missing servers know: {errors}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_does_not_answer_fails_the_check_with_its_error() -> Result<()> {
    let folder =
        Folder::with("[models.off]\nwire = 'openai'\nbase_url = 'http://127.0.0.1:1/v1'\n")?;
    let said = failure(folder.command(&["config", "check", "--call-models"]))?;
    assert_says(&said, &["error: ", ":1:9: models.off: does not answer: ", "onnect"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_keeps_its_agents_when_a_reload_would_not_pass() -> Result<()> {
    let world = World::new().await;
    let config =
        "[models.one]\nwire = 'openai'\n[agents.clerk]\ndescription = 'd'\nsystem_prompt = 'p'\n";
    let folder = Folder::with(config)?;
    let mut work = folder.command(&["work", "--database-url", world.url()]);
    let worker = Process::start(&mut work)?;
    fs::write(folder.path(), format!("{config}tools = ['nothing']\n"))?;
    worker.until_logged("agents.clerk.tools: unknown tool").await;
    let kept = "select count(*) from agent where gone_at is null and version = 1";
    assert_eq!(world.count(kept).await, 1);
    assert!(!stdout(&folder.command(&["config", "check"]).output()?).is_empty());
    worker.stop()
}
