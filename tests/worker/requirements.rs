//! Workers that have different models and tools, tools that nobody has, and MCP servers that start
//! late.

use adjutant_agent::{AgentConfig, FailureKind, TaskId, TaskState};
use adjutant_script::{Script, When, text, tool_call};
use adjutant_store::NewDelegation;
use serde_json::json;

use crate::support::fleet::{CLERK, Fleet, KEY, model_config, to};
use crate::support::worker_process::{WorkerProcess, work};
use crate::support::world::until;

const SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answers = {
        "initialize": lambda p: {"protocolVersion": p["protocolVersion"], "capabilities": {"tools": {}},
                                 "serverInfo": {"name": "late", "version": "1"}},
        "tools/list": lambda p: {"tools": [{"name": "echo", "description": "says it again",
                                            "inputSchema": {"type": "object"}}]},
        "tools/call": lambda p: {"content": [{"type": "text", "text": "said again"}]},
    }
    result = answers.get(message["method"], lambda p: {})(message.get("params") or {})
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

fn agent(name: &str, settings: &str) -> String {
    format!("[agents.{name}]\ndescription = 'x'\nsystem_prompt = 'You are {name}.'\n{settings}\n")
}

/// A worker with this config in place of the fleet's.
fn worker_with(fleet: &Fleet, name: &str, config: &str) -> WorkerProcess {
    let path = fleet.file(name);
    std::fs::write(&path, config).unwrap();
    let mut work = work(fleet.world.url());
    WorkerProcess::start(work.arg("--config").arg(path).env("MODEL_KEY", KEY))
}

/// The text of a command that fails until the file `go` exists.
fn late_server(fleet: &Fleet, more: &str) -> String {
    std::fs::write(fleet.file("server.py"), SERVER).unwrap();
    let folder = fleet.file("");
    let folder = folder.display();
    format!(
        "[tools.mcp.late]\n{more}\ncommand = ['sh', '-c', 'until [ -e {folder}/go ]; do sleep 0.1; done; exec python3 {folder}/server.py']\n"
    )
}

async fn attempts(fleet: &Fleet, task: TaskId) -> Vec<uuid::Uuid> {
    sqlx::query_scalar("select worker from attempt where task = $1")
        .bind(task.0)
        .fetch_all(&fleet.world.sql)
        .await
        .unwrap()
}

/// A task with a configuration of its own.
async fn give(fleet: &Fleet, model: &str, tools: &[&str], assignment: &str) -> TaskId {
    let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
    let config = AgentConfig { model: model.to_owned(), tools, ..AgentConfig::default() };
    let new = NewDelegation { config: Some(config), ..to("a", assignment) };
    fleet.delegate(fleet.session(model).await, new).await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_task_runs_on_the_worker_that_has_its_model_and_tools() {
    let script = Script::new().on(When::any()).then(text("Done."));
    let fleet = Fleet::new(script).await;
    let openai = model_config("openai", "openai", &fleet.model, "");
    let anthropic = model_config("anthropic", "anthropic", &fleet.model, "");
    let mut one = worker_with(&fleet, "one.toml", &(openai.clone() + &fleet.tools.config()));
    let other = worker_with(&fleet, "other.toml", &(openai + &anthropic));
    let mut given = Vec::new();
    for n in 0..5 {
        given.push((give(&fleet, "openai", &["lookup"], &format!("o {n}")).await, one.id));
        given.push((give(&fleet, "anthropic", &["fetch"], &format!("a {n}")).await, other.id));
    }
    for (task, worker) in given {
        fleet.done(task).await.assert_completed("Done.");
        assert_eq!(attempts(&fleet, task).await, [worker.0]);
    }
    // Without the only worker that has its tool, a task waits: the other one never takes it.
    one.kill();
    let waits = give(&fleet, "openai", &["lookup"], "wait").await;
    let runs = give(&fleet, "openai", &[], "do not wait").await;
    fleet.done(runs).await.assert_completed("Done.");
    until("the worker that was killed is known to be dead", async || {
        fleet.world.count("select count(*) from living_worker").await == 1
    })
    .await;
    assert_eq!(fleet.state(waits).await, TaskState::Queued);
    let again = fleet.worker();
    fleet.done(waits).await.assert_completed("Done.");
    assert_eq!(attempts(&fleet, waits).await, [again.id.0]);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_tool_nobody_has_fails_with_its_name_and_calls_no_model() {
    let config = |_: &_| {
        agent("typist", "tools = ['lookup', 'serch']")
            + &agent("careless", "tools = ['serch']\nmissing_tools = 'ignore'")
            + "[limits]\ntool_patience_s = 0.5\n"
            // With an MCP server, a config may name tools that it does not know.
            + "[tools.mcp.broken]\ncommand = ['/no/such/program']\n"
    };
    let script = Script::new().on(When::any()).then(text("I found it."));
    let fleet = Fleet::with(script, config).await;
    let worker = fleet.worker();
    let typist = fleet.give("openai", "typist", "Search.").await;
    let careless = fleet.give("openai", "careless", "Search somehow.").await;
    fleet.done(careless).await.assert_completed("I found it.");
    let done = fleet.done(typist).await;
    let error = done.error.clone().unwrap_or_default();
    assert_eq!(
        (done.state, done.failure),
        (TaskState::Failed, Some(FailureKind::Tool)),
        "{done:#?}"
    );
    assert!(
        error.starts_with(
            "No worker of the pool default has the tool \"serch\". MCP server broken: "
        ),
        "{error}"
    );
    assert!(error.contains("/no/such/program"), "{error}");
    assert_eq!((done.attempt, done.requests.len()), (0, 0), "it was never started");
    worker.until_logged("failed: for").await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_waits_queued_for_a_late_mcp_server_while_others_run() {
    let script = Script::new()
        .on(When::assignment("Repeat."))
        .then(tool_call("echo", json!({})))
        .then(text("Said."))
        .on(When::any())
        .then(text("Done."));
    let fleet = Fleet::with(script, |_| agent("parrot", "tools = ['echo', 'lookup']")).await;
    let config = std::fs::read_to_string(fleet.file("adjutant.toml")).unwrap();
    let config = config + &late_server(&fleet, "start_timeout_s = 60");
    std::fs::write(fleet.file("adjutant.toml"), config).unwrap();
    let _server = fleet.server();
    // It does not say that it is ready before its server has had 5 s, but claims tasks.
    let mut work = fleet.work();
    let starting = tokio::task::spawn_blocking(move || WorkerProcess::start(&mut work));
    let parrot = fleet.give("openai", "parrot", "Repeat.").await;
    let clerk = fleet.give("openai", CLERK, "Hurry.").await;
    fleet.done(clerk).await.assert_completed("Done.");
    assert_eq!(fleet.state(parrot).await, TaskState::Queued);
    let reason: serde_json::Value = sqlx::query_scalar("select servers_down from worker")
        .fetch_one(&fleet.world.sql)
        .await
        .unwrap();
    assert_eq!(reason, json!({"late": "it is starting"}));
    std::fs::write(fleet.file("go"), "").unwrap();
    let done = fleet.done(parrot).await;
    done.assert_completed("Said.");
    assert_eq!((done.attempt, done.results_of(1)), (1, vec!["said again".to_owned()]));
    let _worker = starting.await.unwrap();
    fleet.close().await;
}
