//! Rule G30: no log and no span contains a payload, unless `log_payloads` is on.

use adjutant_agent::TaskState;
use adjutant_script::{Script, When, status, text, tool_call};
use serde_json::{Value, json};

use crate::support::otlp_collector::Collector;
use crate::support::worker_process::WorkerProcess;
use crate::support::world::until;
use crate::worker::telemetry::traced_fleet::{TracedFleet, agent};

const SECRET: &str = "Rumpelstilzchen";

/// An MCP server that repeats every message: as a notification, which rmcp logs at info, on its
/// standard error, and in its answer.
const GOSSIP: &str = r#"
import json, sys
def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    print(line, file=sys.stderr, flush=True)
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}, "logging": {}},
                  "serverInfo": {"name": "gossip", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "gossip", "description": "repeats", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        send({"method": "notifications/message", "params": {"level": "info", "data": line}})
        result = {"content": [{"type": "text", "text": line}]}
    else:
        result = {}
    if "id" in message:
        send({"id": message["id"], "result": result})
"#;

/// Every text contains the secret.
fn script() -> Script {
    let call = tool_call("read_file", json!({"path": format!("{SECRET}.txt")}));
    Script::new()
        .on(When::assignment("tell"))
        .then(
            call.and_call("gossip", json!({"about": SECRET}))
                .and_call(format!("no_tool_{SECRET}"), json!({}))
                .and_call(
                    "shared_context",
                    json!({"action": "write", "key": "k", "value": SECRET}),
                ),
        )
        .then([
            status(500).with_error("server_error", format!("cannot take {SECRET}")),
            text(SECRET),
        ])
        .on(When::assignment("fail"))
        .then(status(400).with_error(format!("bad {SECRET}"), format!("you said {SECRET}")))
}

async fn play(fleet: &TracedFleet, collector: &Collector, logs: &[&str]) -> WorkerProcess {
    std::fs::write(fleet.file("files").join(format!("{SECRET}.txt")), SECRET).unwrap();
    let program = fleet.file("gossip.py");
    std::fs::write(&program, GOSSIP).unwrap();
    fleet.configure_also(&format!(
        "[tools.mcp.gossip]\ncommand = ['python3', '{}']\n",
        program.display()
    ));
    let mut command = fleet.work(&collector.url);
    command.args(logs).env("TEST_KEY", format!("sk-{SECRET}"));
    let mut worker = WorkerProcess::start(&mut command);
    let tools = ["read_file", "gossip", "shared_context"];
    let tells = fleet.spawn(agent(&format!("tell {SECRET}"), &tools)).await;
    let fails = fleet.spawn(agent(&format!("fail {SECRET}"), &[])).await;
    fleet.until_ended(tells, TaskState::Completed).await;
    fleet.until_ended(fails, TaskState::Failed).await;
    worker.signal("TERM");
    assert!(worker.exited().await.success());
    worker
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_of_a_task_a_model_or_a_tool_and_no_key_is_in_logs_and_spans() {
    let (fleet, collector) = (TracedFleet::new(script()).await, Collector::start().await);
    let worker = play(&fleet, &collector, &["--log", "trace"]).await;
    let requests = fleet.model.requests();
    let asked_with = |words: &str| {
        requests.iter().any(|request| request.body.as_ref().unwrap().to_string().contains(words))
    };
    assert!(
        asked_with("gossip") && asked_with(SECRET),
        "the secret was sent to the model, but not logged"
    );
    assert!(!collector.heard(SECRET), "{:#?}", collector.spans());
    let said = worker.stderr();
    let leaks: Vec<&str> = said.lines().filter(|line| line.contains(SECRET)).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
    assert_eq!(collector.named("execute_tool unknown").len(), 1);

    // Two tasks run concurrently and start in any order.
    let starts = worker.log_lines("start");
    let tells = starts
        .iter()
        .find(|line| line["task.number"] == "t_01")
        .unwrap_or_else(|| panic!("{said}"));
    assert_eq!((starts.len(), &tells["session.id"]), (2, &json!("review")));
    assert_eq!((&tells["agent.name"], &tells["level"]), (&json!("researcher"), &json!("INFO")));
    assert_eq!(worker.log_lines("turn").len(), 2);
    for line in worker.log_lines("tool") {
        let (task, session) = (&line["task.number"], &line["session.id"]);
        let level = if line["tool.is_error"] == true { "WARN" } else { "DEBUG" };
        assert_eq!(
            (task, session, &line["level"]),
            (&json!("t_01"), &json!("review"), &json!(level)),
            "{line}"
        );
        assert_eq!(line["task.id"], tells["task.id"], "{line}");
    }
    let mut tools: Vec<Value> =
        worker.log_lines("tool").iter().map(|line| line["tool.name"].clone()).collect();
    tools.sort_by_key(Value::to_string);
    assert_eq!(tools, ["gossip", "read_file", "shared_context", "unknown"]);
    let ends = worker.log_lines("end");
    let end = ends.iter().find(|line| line["task.number"] == "t_01").unwrap();
    assert_eq!((&end["task.status"], &end["task.answers"]), (&json!("completed"), &json!(2)));
    assert!(end["duration_ms"].is_u64());
}

#[tokio::test(flavor = "multi_thread")]
async fn log_payloads_adds_the_texts_to_logs_of_the_default_level_and_to_spans() {
    let (fleet, collector) = (TracedFleet::new(script()).await, Collector::start().await);
    fleet.configure("log_payloads = true");
    let worker = play(&fleet, &collector, &[]).await;
    until("the spans are there", async || collector.named("invoke_agent researcher").len() == 2)
        .await;
    let texts: Vec<Value> = worker
        .stderr()
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["target"] == "adjutant::payloads")
        .collect();
    let has = |key: &str| {
        texts.iter().any(|line| line[key].as_str().is_some_and(|text| text.contains(SECRET)))
    };
    for key in [
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
    ] {
        assert!(has(key), "{key} in {texts:#?}");
    }
    assert!(texts.iter().all(|line| line["level"] == "INFO"));
    let event = |key: &str| {
        let events = collector.spans().into_iter().flat_map(|span| span.events);
        events.flat_map(|event| event.attributes).any(|attribute| attribute.key == key)
    };
    assert!(event("gen_ai.input.messages") && event("gen_ai.tool.call.result"));
    let key = format!("sk-{SECRET}");
    assert!(!worker.stderr().contains(&key) && !collector.heard(&key), "a key is no payload");
}

#[tokio::test(flavor = "multi_thread")]
async fn log_payloads_adds_the_texts_to_logs_in_text_format() {
    let (fleet, collector) = (TracedFleet::new(script()).await, Collector::start().await);
    fleet.configure("log_payloads = true");
    let worker = play(&fleet, &collector, &["--log-format", "text"]).await;
    let stderr = worker.stderr();
    for text in ["gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.result"] {
        let has_text = |line: &str| line.contains(text) && line.contains(SECRET);
        assert!(stderr.lines().any(has_text), "{text} in {stderr}");
    }
}
